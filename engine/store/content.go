package store

import (
	"context"
	"errors"
	"fmt"

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
		pages := packContent(seq, first, chunks[:n], bytes)
		err := s.commit(ctx, &request{bytes: bytes, apply: func(w *writer) error {
			for i := range pages {
				if _, err := w.putContent.Exec(pages[i].key, pages[i].crc, pages[i].bytes); err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil {
			return wrap("write content", err)
		}
		first += uint32(n)
		chunks = chunks[n:]
	}
	return nil
}

type contentPage struct {
	key, crc int64
	bytes    []byte
}

// packContent makes the pages of the chunks, whose sizes sum up to about `bytes`. The pages lie in one piece of memory.
func packContent(seq, first uint32, chunks [][]byte, bytes int) []contentPage {
	buf := make([]byte, 0, bytes+3*len(chunks)+16)
	pages := make([]contentPage, 0, bytes/smallPage+1)
	for len(chunks) > 0 {
		n := cut(len(chunks), func(i int) int { return len(chunks[i]) + 2 })
		start := len(buf)
		buf = appendContentPage(buf, chunks[:n])
		page, key := buf[start:len(buf):len(buf)], keyOf(seq, first)
		pages = append(pages, contentPage{key, sum(0).number(key).bytes(page).stored(), page})
		first += uint32(n)
		chunks = chunks[n:]
	}
	return pages
}

// ReadContent is the content of one chunk; ErrMissing when there is none. The bytes are the caller's.
func (s *Store) ReadContent(ctx context.Context, seq, index uint32) ([]byte, error) {
	all, err := s.ReadContents(ctx, seq, []uint32{index})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ReadContents is the content of several chunks of one submission, in the order of the indexes; ErrMissing when one has none.
// Chunks that lie side by side are read together when their indexes stand side by side.
func (s *Store) ReadContents(ctx context.Context, seq uint32, indexes []uint32) ([][]byte, error) {
	contents := make([][]byte, len(indexes))
	err := s.hot.with(ctx, func(r *reader) error {
		var page []byte
		start := uint32(0) // of the page in hand
		for i, index := range indexes {
			var (
				chunk []byte
				found bool
				err   error
			)
			if page != nil && index >= start {
				chunk, found, err = chunkOf(page, index-start)
			}
			if !found && err == nil {
				if start, page, err = s.contentPage(r, seq, index); err == nil {
					chunk, found, err = chunkOf(page, index-start)
				}
			}
			if err == nil && !found {
				err = fmt.Errorf("chunk %d of seq %d: %w", index, seq, ErrMissing)
			}
			if err != nil {
				return err
			}
			contents[i] = chunk
		}
		return nil
	})
	if err != nil {
		return nil, wrap("read content", err)
	}
	return contents, nil
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
		err = fmt.Errorf("chunk %d of seq %d: %w", index, seq, ErrMissing)
	}
	return start, page, err
}

// WriteAttachment stores a submission's attachment, durably, in a shared commit.
func (s *Store) WriteAttachment(ctx context.Context, seq uint32, b []byte) error {
	crc := sum(0).number(int64(seq)).bytes(b).stored()
	return wrap("write attachment", s.commit(ctx, &request{bytes: len(b), apply: func(w *writer) error {
		_, err := w.putAttachment.Exec(int64(seq), crc, b)
		return err
	}}))
}

// ReadAttachment is a submission's attachment; ErrMissing when there is none.
func (s *Store) ReadAttachment(ctx context.Context, seq uint32) (b []byte, err error) {
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
