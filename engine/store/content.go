package store

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// ErrMissing says that content or an attachment is not in the store: it was never written, or is deleted by now.
var ErrMissing = errors.New("store: there is no such content")

// WriteContent stores the bytes of consecutive chunks of a submission, beginning with index `first`. They are durable on
// return; callers at the same time share a commit, and large writes take several. Writing the same chunks again in the same
// way replaces them. After a crash or an error a part may be there: SweepOrphans removes what is not published.
func (s *Store) WriteContent(ctx context.Context, seq, first uint32, chunks [][]byte) error {
	if uint64(first)+uint64(len(chunks)) > queue.MaxChunks {
		return fmt.Errorf("store: write content: %d chunks from %d on pass the largest index", len(chunks), first)
	}
	for len(chunks) > 0 {
		n, bytes := 0, 0
		for n < len(chunks) && (n == 0 || bytes+len(chunks[n])+2 <= commitBytes) {
			bytes += len(chunks[n]) + 2
			n++
		}
		pages := packContent(first, chunks[:n], bytes)
		err := s.commit(ctx, &request{bytes: bytes, apply: func(w *writer) error {
			return w.contents(&journal.Contents{Seq: seq, Pages: pages})
		}})
		if err != nil {
			return wrap("write content", err)
		}
		first += uint32(n)
		chunks = chunks[n:]
	}
	return nil
}

// PackContent makes the pages of all inline chunks of a submission, for a journal.Contents.
func PackContent(chunks [][]byte) []journal.Page {
	bytes := 0
	for i := range chunks {
		bytes += len(chunks[i]) + 2
	}
	return packContent(0, chunks, bytes)
}

// packContent makes the pages of the chunks, whose sizes sum up to about `bytes`. The pages lie in one piece of memory.
func packContent(first uint32, chunks [][]byte, bytes int) []journal.Page {
	buf := make([]byte, 0, bytes+3*len(chunks)+16)
	pages := make([]journal.Page, 0, bytes/smallPage+1)
	for len(chunks) > 0 {
		n := cut(len(chunks), func(i int) int { return len(chunks[i]) + 2 })
		start := len(buf)
		buf = appendContentPage(buf, chunks[:n])
		pages = append(pages, journal.Page{First: first, Bytes: buf[start:len(buf):len(buf)]})
		first += uint32(n)
		chunks = chunks[n:]
	}
	return pages
}

// ReadContent is the content of one chunk; ErrMissing when there is none. The bytes must not be changed.
func (s *Store) ReadContent(ctx context.Context, seq, index uint32) ([]byte, error) {
	all, err := s.ReadContents(ctx, seq, []uint32{index})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ReadContents is the content of several chunks of one submission, in the order of the indexes; ErrMissing when one has none.
// Chunks that lie side by side are read together when their indexes stand side by side. The bytes must not be changed.
func (s *Store) ReadContents(ctx context.Context, seq uint32, indexes []uint32) (contents [][]byte, err error) {
	if kept := s.Memtable.content(seq); kept != nil {
		contents, err = chunksOf(seq, indexes, func(index uint32) (uint32, []byte, error) { return keptPage(kept, index) })
	} else {
		err = s.hot.with(ctx, func(r *reader) (err error) {
			contents, err = chunksOf(seq, indexes, func(index uint32) (uint32, []byte, error) { return s.contentPage(r, seq, index) })
			return err
		})
	}
	if err != nil {
		return nil, wrap("read content", err)
	}
	return contents, nil
}

// chunksOf takes chunks out of pages, which at gives: the one that holds a chunk, if any does, and the index of its first one.
func chunksOf(seq uint32, indexes []uint32, at func(index uint32) (start uint32, page []byte, err error)) ([][]byte, error) {
	contents := make([][]byte, len(indexes))
	var page []byte
	start := uint32(0) // of the page in hand
	for i, index := range indexes {
		var (
			found bool
			err   error
		)
		if page != nil && index >= start {
			contents[i], found, err = chunkOf(page, index-start)
		}
		if !found && err == nil {
			if start, page, err = at(index); err == nil {
				contents[i], found, err = chunkOf(page, index-start)
			}
		}
		if err == nil && !found {
			err = missingChunk(seq, index)
		}
		if err != nil {
			return nil, err
		}
	}
	return contents, nil
}

func missingChunk(seq, index uint32) error {
	return fmt.Errorf("chunk %d of seq %d: %w", index, seq, ErrMissing)
}

// keptPage is the page that holds the chunk: the last one that begins at or before it.
func keptPage(c *journal.Contents, index uint32) (start uint32, page []byte, err error) {
	n := sort.Search(len(c.Pages), func(i int) bool { return c.Pages[i].First > index })
	if n == 0 {
		return 0, nil, missingChunk(c.Seq, index)
	}
	return c.Pages[n-1].First, c.Pages[n-1].Bytes, nil
}

// contentPage reads the page that holds the chunk, if any does: the last one that begins at or before it.
func (s *Store) contentPage(r *reader, seq, index uint32) (start uint32, page []byte, err error) {
	err = r.contentAt.Query(func(row sqlitedb.Row) (bool, error) {
		start, page = numberOf(row.Int(0)), row.Blob(2)
		if sum(0).number(row.Int(0)).bytes(page).stored() != row.Int(1) {
			return false, s.damaged("content", row.Int(0))
		}
		return false, nil
	}, keyOf(seq, 0), keyOf(seq, index))
	if err == nil && page == nil {
		err = missingChunk(seq, index)
	}
	return start, page, err
}

// WriteAttachment stores a submission's attachment, durably, in a shared commit.
func (s *Store) WriteAttachment(ctx context.Context, seq uint32, b []byte) error {
	c := &journal.Contents{Seq: seq, Attachment: append([]byte{}, b...)} // not nil, even if it is empty
	return wrap("write attachment", s.commit(ctx, &request{bytes: len(b), apply: func(w *writer) error { return w.contents(c) }}))
}

// ReadAttachment is a submission's attachment; ErrMissing when there is none. The bytes must not be changed.
func (s *Store) ReadAttachment(ctx context.Context, seq uint32) (b []byte, err error) {
	if kept := s.Memtable.content(seq); kept != nil && kept.Attachment != nil {
		return kept.Attachment, nil
	}
	err = s.hot.with(ctx, func(r *reader) error {
		found := false
		err := r.attachment.Query(func(row sqlitedb.Row) (bool, error) {
			b, found = row.Blob(1), true
			if sum(0).number(int64(seq)).bytes(b).stored() != row.Int(0) {
				return false, s.damaged("attachment", int64(seq))
			}
			return false, nil
		}, int64(seq))
		if err == nil && !found {
			err = fmt.Errorf("attachment of seq %d: %w", seq, ErrMissing)
		}
		return err
	})
	if err != nil {
		return nil, wrap("read attachment", err)
	}
	return b, nil
}
