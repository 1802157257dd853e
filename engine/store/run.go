package store

import (
	"container/heap"
	"context"
	"errors"
	"sort"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

//	pages of one submission in the table output, by number:
//
//	   0   1   2 │ 3   4 │ 5   6   7 │ ...            │ 2^31  +1  +2  ...
//	   run 0     │ run 3 │ run 5     │                │ packed: all of them merged, in index order
//	   ─────────── older ──► newer ───                  `run` = the last page below that is in it
//
//	a reader asks: memory, log, the runs from the newest to the oldest, packed; the first that has the index wins
//
// A run is a range of a submission's output pages whose outputs are in index order. The pages
// of all runs are numbered upwards from 0, each with its run's first number in the column
// `run`. The packed run stands above, from firstPacked on; its `run` is the last page below
// that went into it, so that a reader that finds it unfinished knows which runs belong to it.
const firstPacked = 1 << 31

// A run never changes once it is written: it goes as a whole, when the packed run has its outputs.
type run struct{ first, last uint32 }

// runs finds the runs of a submission, the newest first and the packed one last. Each costs one look-up.
func (s *Store) runs(r *reader, seq uint32) (all []run, packed *run, upTo uint32, err error) {
	last, top, found, err := lastOutput(r, seq, lastNumber)
	if err != nil || !found {
		return nil, nil, 0, err
	}
	if last >= firstPacked {
		packed, upTo = &run{firstPacked, last}, top
		if last, top, found, err = lastOutput(r, seq, firstPacked-1); err != nil {
			return nil, nil, 0, err
		}
	}
	for found {
		// A run begins at or before its last page; anything else would make the loop run for ever.
		if top > last {
			return nil, nil, 0, s.damaged("output", keyOf(seq, last))
		}
		all = append(all, run{top, last})
		if top == 0 {
			break
		}
		if last, top, found, err = lastOutput(r, seq, top-1); err != nil {
			return nil, nil, 0, err
		}
	}
	return all, packed, upTo, nil
}

// lastOutput finds the last page of a submission up to this number, and its column `run`.
// Every walk over runs consists of this look-up: the column of the last page of a run says where the next older run
// ends. So no list of runs is stored, and none can be wrong.
func lastOutput(r *reader, seq, upTo uint32) (number, top uint32, found bool, err error) {
	err = r.lastOutputRow.Query(func(row sqlitedb.Row) (bool, error) {
		number, top, found = numberOf(row.Int(0)), uint32(row.Int(1)), true
		return false, nil
	}, keyOf(seq, 0), keyOf(seq, upTo))
	return number, top, found, err
}

// pageFrom reads the first page from this number on within a run; `found` is false behind its end.
// The checksum is over the key and the run as well: a page that SQLite returns for another key is caught, too.
func (s *Store) pageFrom(r *reader, seq, number, last uint32) (at uint32, entries []logEntry, found bool, err error) {
	err = r.outputPage.Query(func(row sqlitedb.Row) (_ bool, err error) {
		key, page := row.Int(0), row.Blob(3)
		if sum(0).number(key).number(row.Int(1)).bytes(page).stored() != row.Int(2) {
			return false, s.damaged("output", key)
		}
		at, found = numberOf(key), true
		if page, err = unpackPage(page); err == nil {
			entries, err = runEntries(nil, seq, page)
		}
		if err == nil && len(entries) == 0 {
			err = errPage
		}
		return false, err
	}, keyOf(seq, number), keyOf(seq, last))
	return at, entries, found, err
}

// seek finds the page of a run in which index stands, if it is in the run: the last one
// that begins at or before it.
// A binary search over numbers, each step reading a page. Numbers within a run have no gaps, so the middle exists,
// unless the run is just being deleted: then the page found is behind the end, and counts as later.
func (s *Store) seek(r *reader, seq uint32, in run, index uint32) (number uint32, err error) {
	pages := uint64(in.last-in.first) + 1
	n := sort.Search(int(pages), func(i int) bool {
		if err != nil {
			return true
		}
		_, entries, found, e := s.pageFrom(r, seq, in.first+uint32(i), in.last)
		if err = e; err != nil {
			return true
		}
		return !found || entries[0].index > index
	})
	return in.first + uint32(max(n-1, 0)), err
}

// The newest run is asked first. After a crash while compacting, an output may be in two places; the newer one
// counts.
func (s *Store) outputInRuns(ctx context.Context, seq, index uint32) (out []byte, found bool, err error) {
	err = s.hot.with(ctx, func(r *reader) error {
		all, packed, _, err := s.runs(r, seq)
		if err != nil {
			return err
		}
		if packed != nil {
			all = append(all, *packed)
		}
		for _, one := range all {
			number, err := s.seek(r, seq, one, index)
			if err != nil {
				return err
			}
			_, entries, _, err := s.pageFrom(r, seq, number, one.last)
			if err != nil {
				return err
			}
			n := sort.Search(len(entries), func(i int) bool { return entries[i].index >= index })
			if n < len(entries) && entries[n].index == index {
				out, found = entries[n].bytes, true
				return nil
			}
		}
		return nil
	})
	return out, found, err
}

// Outputs calls fn for every output of a submission from index `from` on, in index order. It
// holds a page per run in memory, however many outputs there are, and fn may be slow: no writer
// waits for it. The bytes may be kept, and must not be changed. The first error of fn ends
// the reading and is returned. Outputs that are appended meanwhile may be missed.
func (s *Store) Outputs(ctx context.Context, seq, from uint32, fn func(index uint32, out []byte) error) error {
	for {
		m, err := s.merge(ctx, seq, from)
		for err == nil {
			var e logEntry
			var more bool
			if e, more, err = m.next(ctx); err != nil {
				break
			}
			if !more {
				return nil
			}
			if err := fn(e.index, e.bytes); err != nil {
				return err
			}
			if e.index == lastNumber {
				return nil
			}
			from = e.index + 1
		}
		if !errors.Is(err, errMoved) {
			return wrap("outputs", err)
		}
	}
}

// source is one of the sorted sequences that are merged. Of two with the same index the
// one of smaller rank wins.
//
//	rank 0  memory            newest
//	rank 1  the log
//	rank 2+ runs, from the newest; the packed one last
type source struct {
	rank    int
	entries []logEntry // in hand
	pages   run        // still to be read
	more    bool       // there may be such pages
}

// merger walks all sources of one submission's outputs in index order.
// A merger reads without a lock while pages move. `moved` is the count of moves at its beginning. If the count is
// another after a page was read, an output may be in two sources or in none, and the merger gives up with errMoved.
// The caller begins again behind the last output that it has handed out.
type merger struct {
	store  *Store
	seq    uint32
	moved  uint64 // the store's counter when the sources were found
	heap   sources
	primed []*source // not yet in the heap
}

// merge finds the sources of a submission, from this index on.
func (s *Store) merge(ctx context.Context, seq, from uint32) (*merger, error) {
	for {
		m := &merger{store: s, seq: seq, moved: s.outputs.moves.n.Load()}
		// The order of the three look-ups follows an output's way from memory to the log to a run. In the other
		// order an output could move behind the reader's back and be missed.
		kept := s.Memtable.outputsOf(seq, from) // before the log, where they go
		entries, err := s.logOf(ctx, seq, from, s.outputs.of(seq))
		if err == nil {
			m.primed = append(m.primed, &source{rank: 0, entries: kept}, &source{rank: 1, entries: entries})
			err = s.scan.with(ctx, func(r *reader) error {
				all, packed, _, err := s.runs(r, seq)
				if err != nil {
					return err
				}
				if packed != nil {
					all = append(all, *packed)
				}
				return m.add(r, all, from)
			})
		}
		if err == nil && s.outputs.moves.n.Load() != m.moved {
			err = errMoved
		}
		if !errors.Is(err, errMoved) {
			return m, err
		}
	}
}

// add makes sources of runs, the newest first.
// With from above 0, add enters each run at the page that may have the index, and passes over the outputs before it
// in that page.
func (m *merger) add(r *reader, all []run, from uint32) error {
	for _, one := range all {
		src := &source{rank: len(m.primed), pages: one, more: true}
		if from > 0 {
			number, err := m.store.seek(r, m.seq, one, from)
			if err != nil {
				return err
			}
			src.pages.first = number
		}
		if err := m.fill(r, src); err != nil {
			return err
		}
		for len(src.entries) > 0 && src.entries[0].index < from {
			src.entries = src.entries[1:]
			if len(src.entries) == 0 {
				if err := m.fill(r, src); err != nil {
					return err
				}
			}
		}
		m.primed = append(m.primed, src)
	}
	return nil
}

// fill reads a source's next page.
func (m *merger) fill(r *reader, src *source) error {
	if !src.more {
		return nil
	}
	at, entries, found, err := m.store.pageFrom(r, m.seq, src.pages.first, src.pages.last)
	if err != nil {
		return err
	}
	src.entries, src.more = entries, found && at < src.pages.last
	src.pages.first = at + 1
	return nil
}

// next is the next output in index order; `more` is false at the end. errMoved says that
// the sources are not where they were.
// primed become the heap at the first call: until then add needs them in the order of their ranks.
func (m *merger) next(ctx context.Context) (e logEntry, more bool, err error) {
	if m.primed != nil {
		for _, src := range m.primed {
			if len(src.entries) > 0 {
				m.heap = append(m.heap, src)
			}
		}
		heap.Init(&m.heap)
		m.primed = nil
	}
	if len(m.heap) == 0 {
		return e, false, nil
	}
	e = m.heap[0].entries[0]
	for len(m.heap) > 0 && m.heap[0].entries[0].index == e.index { // older outputs for the same chunk are passed over
		src := m.heap[0]
		if src.entries = src.entries[1:]; len(src.entries) == 0 && src.more {
			if err := m.store.scan.with(ctx, func(r *reader) error { return m.fill(r, src) }); err != nil {
				return e, false, err
			}
			if m.store.outputs.moves.n.Load() != m.moved {
				return e, false, errMoved
			}
		}
		if len(src.entries) == 0 {
			heap.Pop(&m.heap)
		} else {
			heap.Fix(&m.heap, 0)
		}
	}
	return e, true, nil
}

// logOf collects the outputs of a submission from an index on out of these pages of the log, sorted.
func (s *Store) logOf(ctx context.Context, seq, from uint32, pages []int64) (own []logEntry, err error) {
	for _, n := range pages {
		err := s.scan.with(ctx, func(r *reader) (err error) {
			own, err = s.logPage(r, own, n, seq, from)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sorted(own), nil
}

// sources is a heap by index, then rank.
type sources []*source

func (h sources) Len() int { return len(h) }

func (h sources) Less(i, j int) bool {
	a, b := h[i].entries[0].index, h[j].entries[0].index
	return a < b || a == b && h[i].rank < h[j].rank
}

func (h sources) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is required by container/heap.
func (h *sources) Push(x any) { *h = append(*h, x.(*source)) }

// Pop is required by container/heap.
func (h *sources) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
