package store

import (
	"cmp"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/queue"
)

// endedIndex has the spans of all pages of the history in memory, about a byte for an
// ended submission, so that a look-up reads only pages that can hold what it looks for. As a checkpoint sorts the
// submissions that ended, the spans of its pages do not overlap; those of two checkpoints do where submissions did
// not end in the order in which they came.
//
//	blocks ─► [ span of 64 pages ] ─► pages: span{first and last id, seq; states; which places are left}
//	                                              └ the page itself is in the file
//
// mu guards it: readers take it for a look at spans and never while they read the file. So a page may be gone when
// a reader comes to it. The reader gets errMoved and begins again.
type endedIndex struct {
	mu     sync.RWMutex
	blocks []*endedBlock // by page number
	moves  uint64        // how often submissions went from one page to another
	next   int64         // page number; only the writer uses it
	held   int           // submissions in all pages
}

// endedBlock is some consecutive pages, under one span: a look-up passes over them in one step.
type endedBlock struct {
	span
	pages []*span // by number. A span never changes: a page that loses something gets another span
}

const blockPages = 64

// load adds a span that was read at the open, by ascending page number.
func (x *endedIndex) load(s *span) {
	x.next = s.page + 1
	x.add(s)
}

func (x *endedIndex) add(s *span) {
	if n := len(x.blocks); n == 0 || len(x.blocks[n-1].pages) >= blockPages {
		x.blocks = append(x.blocks, &endedBlock{})
	}
	last := x.blocks[len(x.blocks)-1]
	x.held += int(s.left)
	last.cover(s)
	last.pages = append(last.pages, s)
}

// find is where a page is.
// Page numbers only grow and pages are only taken out, so blocks stay sorted without moving anything.
func (x *endedIndex) find(page int64) (block, at int, found bool) {
	block, _ = slices.BinarySearchFunc(x.blocks, page, func(b *endedBlock, page int64) int {
		return cmp.Compare(b.pages[len(b.pages)-1].page, page)
	})
	if block == len(x.blocks) {
		return 0, 0, false
	}
	at, found = slices.BinarySearchFunc(x.blocks[block].pages, page,
		func(s *span, page int64) int { return cmp.Compare(s.page, page) })
	return block, at, found
}

// span returns the index's entry for a page; nil: the page is gone.
func (x *endedIndex) span(page int64) *span {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if block, at, found := x.find(page); found {
		return x.blocks[block].pages[at]
	}
	return nil
}

// publish makes the changes of a transaction visible.
// A page that lost its last submission leaves the index here and the file in the same transaction. The span of its
// block stays as wide as it was: a look-up may then read one page too many, but never misses one.
func (x *endedIndex) publish(c *endedChange) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range c.changed {
		block, at, _ := x.find(s.page)
		b := x.blocks[block]
		x.held += int(s.left) - int(b.pages[at].left)
		if s.left > 0 {
			b.pages[at] = s
			continue
		}
		if b.pages = slices.Delete(b.pages, at, at+1); len(b.pages) == 0 {
			x.blocks = slices.Delete(x.blocks, block, block+1)
		}
	}
	for i := range c.added {
		x.add(&c.added[i].span)
	}
	x.next = c.next
	if c.gathered {
		x.moves++
	}
}

// pages lists the pages whose span matches, the youngest first.
func (x *endedIndex) pages(match func(*span) bool) (list []*span) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, b := range slices.Backward(x.blocks) {
		if !match(&b.span) {
			continue
		}
		for _, s := range slices.Backward(b.pages) {
			if match(s) {
				list = append(list, s)
			}
		}
	}
	return list
}

// begin are the first steps of a walk: the blocks whose span matches.
func (x *endedIndex) begin(o *walk) (list steps, moves uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, b := range x.blocks {
		if o.match(&b.span) {
			list = append(list, step{key: o.from(&b.span), block: b})
		}
	}
	return list, x.moves
}

// of lists the pages of a block whose span matches. errMoved says that submissions moved since the walk began,
// perhaps to a page where it does not look.
func (x *endedIndex) of(b *endedBlock, match func(*span) bool, moves uint64) (list []*span, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.moves != moves {
		return nil, errMoved
	}
	for _, s := range b.pages {
		if match(s) {
			list = append(list, s)
		}
	}
	return list, nil
}

func (x *endedIndex) maxSeq() (largest uint32) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, b := range x.blocks {
		largest = max(largest, b.lastSeq)
	}
	return largest
}

func (s *span) hasID(id queue.SubmissionID) bool { return s.firstID <= id && id <= s.lastID }

func (s *span) hasSeq(seq uint32) bool { return s.firstSeq <= seq && seq <= s.lastSeq }
