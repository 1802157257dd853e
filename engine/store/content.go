package store

// Contents and attachments: small chunks share pages, so that a submission of a thousand lines is a
// few rows and not a thousand. A page is found by the index of its first chunk: the last page that
// begins at or before the chunk has it, or none does. Reads ask the memtable first, as the newest
// contents are only there.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// ErrMissing says that content or an attachment is not in the store: it was never written,
// or is deleted by now.
var ErrMissing = errors.New("store: there is no such content")

// PackContent makes the pages of all inline chunks of a submission, for a journal.Contents.
func PackContent(chunks [][]byte) []journal.Page {
	bytes := 0
	for i := range chunks {
		bytes += len(chunks[i]) + 2
	}
	return packContent(0, chunks, bytes)
}

// PackBlob packs chunks, from the first on, into the pages of one blob, and says for how
// many there was room: for one in any case. The blob is in the memory of `in`, which is
// empty, if it has enough.
func PackBlob(in []byte, chunks [][]byte) (b []byte, n int) {
	const most = 8 // bytes that describe a chunk, with its share of the page
	size := 0
	for ; n < len(chunks) && (n == 0 || size+len(chunks[n])+most <= blobs.MaxBytes); n++ {
		size += len(chunks[n]) + most
	}
	b = slices.Grow(in, size)
	for rest := chunks[:n]; len(rest) > 0; {
		page := cut(len(rest), func(i int) int { return len(rest[i]) + 2 })
		b = appendContentPage(b, rest[:page])
		rest = rest[page:]
	}
	return b, n
}

// packContent makes the pages of the chunks, whose sizes sum up to about `bytes`. The
// pages lie in one piece of memory.
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

// ReadContents is the content of several chunks of one submission, in the order of the
// indexes; ErrMissing when one has none. Chunks that lie side by side are read together
// when their indexes stand side by side. It ends before the content that would bring the
// sum over `most` bytes; the first is read in any case. The bytes must not be changed.
//
// The bound on bytes is why an answer of a reserve may have fewer chunks than were asked for: a
// thousand chunks of 1 MiB would be a gigabyte in memory, for one client that may read slowly.
func (s *Store) ReadContents(ctx context.Context, seq uint32, indexes []uint32,
	most int) (contents [][]byte, err error) {
	missing := func(index uint32) error { return missingChunk(seq, index) }
	if kept := s.Memtable.content(seq); kept != nil {
		contents, err = chunksOf(indexes, most, missing, func(index uint32) (uint32, []byte, error) {
			return pageOf(kept.Pages, index, missing)
		})
	} else if len(indexes) == 1 && indexes[0] == 0 {
		contents = make([][]byte, 1)
		_, err = s.Singles.ReadFirst(ctx, []uint32{seq}, most, func(_ int, content []byte) { contents[0] = content })
		return contents, err
	} else {
		err = s.hot.with(ctx, func(r *reader) (err error) {
			contents, err = chunksOf(indexes, most, missing, func(index uint32) (uint32, []byte, error) {
				return s.contentPage(r, seq, index)
			})
			return err
		})
	}
	if err != nil {
		return nil, wrap("read content", err)
	}
	return contents, nil
}

// chunksOf takes chunks of up to `most` bytes out of pages. `at` gives the page that holds a chunk, if
// any does, and the index of its first chunk. missing is the error of a chunk that is in no page.
func chunksOf(indexes []uint32, most int, missing func(index uint32) error,
	at func(index uint32) (start uint32, page []byte, err error)) ([][]byte, error) {
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
			err = missing(index)
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

// pageOf is the page that holds the chunk: the last one that begins at or before it.
func pageOf(pages []journal.Page, index uint32, missing func(index uint32) error) (start uint32, page []byte,
	err error) {
	n := sort.Search(len(pages), func(i int) bool { return pages[i].First > index })
	if n == 0 {
		return 0, nil, missing(index)
	}
	return pages[n-1].First, pages[n-1].Bytes, nil
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

// ReadAttachment is a submission's attachment; ErrMissing when there is none. The bytes
// must not be changed.
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

// Replaced are the contents that operators gave dead chunks in place of those of the insert, all of
// them. The shard's part of dead letters writes their rows and says when they go; here they are read
// without its mutex.
type Replaced struct {
	n  atomic.Int64
	mu sync.RWMutex
	of map[uint64][]byte
}

// Put keeps a content, or (nil) forgets it.
func (r *Replaced) Put(key uint64, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if content == nil {
		delete(r.of, key)
	} else {
		if r.of == nil {
			r.of = map[uint64][]byte{}
		}
		r.of[key] = content
	}
	r.n.Store(int64(len(r.of)))
}

// Content is the replacement of a chunk's content, or the content itself if there is none.
func (r *Replaced) Content(seq, index uint32, content []byte) []byte {
	if r.n.Load() == 0 {
		return content
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if other, is := r.of[queue.ChunkKey(seq, index)]; is {
		return other
	}
	return content
}
