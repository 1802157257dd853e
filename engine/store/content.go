package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// ErrMissing says that content or an attachment is not in the store: it was never written, or is deleted by now.
var ErrMissing = errors.New("store: there is no such content")

// Content is what a submission brings: the bytes of consecutive chunks from the index First on, and an attachment if it is not empty.
type Content struct {
	Seq, First uint32
	Chunks     [][]byte
	Attachment []byte
}

// WriteContents stores what several submissions bring. All of it is durable on return; callers at the same time share a commit, and large
// writes take several. Writing the same again in the same way replaces it. After a crash or an error a part may be there: SweepOrphans
// removes what is not published.
func (s *Store) WriteContents(ctx context.Context, list []Content) error {
	var next contentWrite
	for _, c := range list {
		if uint64(c.First)+uint64(len(c.Chunks)) > queue.MaxChunks {
			return fmt.Errorf("store: write content: %d chunks from %d on pass the largest index", len(c.Chunks), c.First)
		}
		for !next.take(&c) {
			if err := next.commit(ctx, s); err != nil {
				return err
			}
			next = contentWrite{}
		}
	}
	return next.commit(ctx, s)
}

// contentWrite is what goes into one commit.
type contentWrite struct {
	list  []*journal.Contents
	bytes int
}

// take takes as much of c as there is room for, and leaves the rest in it. It says whether that was all.
func (p *contentWrite) take(c *Content) bool {
	taken := &journal.Contents{Seq: c.Seq}
	if len(c.Attachment) > 0 && p.fits(len(c.Attachment)) {
		p.bytes += len(c.Attachment)
		taken.Attachment, c.Attachment = c.Attachment, nil
	}
	n, before := 0, p.bytes
	for n < len(c.Chunks) && p.fits(len(c.Chunks[n])+2) {
		p.bytes += len(c.Chunks[n]) + 2
		n++
	}
	if n > 0 {
		taken.Pages = packContent(c.First, c.Chunks[:n], p.bytes-before)
		c.First += uint32(n)
		c.Chunks = c.Chunks[n:]
	}
	p.list = append(p.list, taken)
	return len(c.Chunks) == 0 && len(c.Attachment) == 0
}

// fits says whether there is room for so many bytes more: for some, in any case.
func (p *contentWrite) fits(bytes int) bool { return p.bytes == 0 || p.bytes+bytes <= commitBytes }

func (p *contentWrite) commit(ctx context.Context, s *Store) error {
	if p.bytes == 0 {
		return nil
	}
	return wrap("write content", s.commit(ctx, &request{bytes: p.bytes, apply: func(w *writer) error {
		for _, c := range p.list {
			if err := w.contents(c); err != nil {
				return err
			}
		}
		return nil
	}}))
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
	all, err := s.ReadContents(ctx, seq, []uint32{index}, math.MaxInt)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ReadContents is the content of several chunks of one submission, in the order of the indexes; ErrMissing when one has none.
// Chunks that lie side by side are read together when their indexes stand side by side. It ends before the content that would bring the sum
// over `most` bytes; the first is read in any case. The bytes must not be changed.
func (s *Store) ReadContents(ctx context.Context, seq uint32, indexes []uint32, most int) (contents [][]byte, err error) {
	if kept := s.Memtable.content(seq); kept != nil {
		contents, err = chunksOf(seq, indexes, most, func(index uint32) (uint32, []byte, error) { return keptPage(kept, index) })
	} else if len(indexes) == 1 && indexes[0] == 0 {
		contents = make([][]byte, 1)
		_, err = s.Singles.ReadFirst(ctx, []uint32{seq}, most, func(_ int, content []byte) { contents[0] = content })
		return contents, err
	} else {
		err = s.hot.with(ctx, func(r *reader) (err error) {
			contents, err = chunksOf(seq, indexes, most, func(index uint32) (uint32, []byte, error) { return s.contentPage(r, seq, index) })
			return err
		})
	}
	if err != nil {
		return nil, wrap("read content", err)
	}
	return contents, nil
}

// chunksOf takes chunks of up to `most` bytes out of pages, which at gives: the one that holds a chunk, if any does, and the index of its
// first one.
func chunksOf(seq uint32, indexes []uint32, most int, at func(index uint32) (start uint32, page []byte, err error)) ([][]byte, error) {
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
		if most -= len(contents[i]); most < 0 && i > 0 {
			return contents[:i], nil
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
		page, err = unpackPage(page)
		return false, err
	}, keyOf(seq, 0), keyOf(seq, index))
	if err == nil && page == nil {
		err = missingChunk(seq, index)
	}
	return start, page, err
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
