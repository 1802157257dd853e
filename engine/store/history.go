package store

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// History is the store's record of ended submissions, until their retention is over.
type History struct {
	s     *Store
	index endedIndex
	gone  queue.EndPlace // guarded by index.mu
}

// Len is how many submissions the history has.
func (h *History) Len() int {
	h.index.mu.RLock()
	defer h.index.mu.RUnlock()
	return h.index.held
}

// load reads the spans of all pages of the history.
// Only the spans are read at the open, one for a page of many submissions. A page is read when a question needs it.
func (h *History) load() error {
	return h.s.write.spans.Query(func(row sqlitedb.Row) (bool, error) {
		number, b := row.Int(0), row.Blob(2)
		if sum(0).number(number).bytes(b).stored() != row.Int(1) {
			return false, h.s.damaged("history_span", number)
		}
		one, err := readSpan(number, b)
		if err != nil {
			return false, h.s.damaged("history_span", number)
		}
		h.index.load(&one)
		return true, nil
	})
}

// readEnded reads a page of the history; `found` is false when it is gone.
// A page that is gone is no damage here: retention deletes pages while others read. The caller looks the index up
// again.
func readEnded(s *Store, stmt *sqlitedb.Stmt, page int64) (list []checkpoint.Ended, found bool, err error) {
	err = stmt.Query(func(row sqlitedb.Row) (bool, error) {
		b := row.Blob(1)
		if sum(0).number(page).bytes(b).stored() != row.Int(0) {
			return false, s.damaged("history_page", page)
		}
		found = true
		list, err = endedPage(b)
		return false, err
	}, page)
	return list, found, err
}

// Ended finds an ended submission in the history.
func (h *History) Ended(ctx context.Context, id queue.SubmissionID) (e checkpoint.Ended, found bool, err error) {
	return h.findEnded(ctx, func(p *span) bool { return p.hasID(id) },
		func(e *checkpoint.Ended) bool { return e.ID == id })
}

// EndedBySeq finds it by its number in the shard.
func (h *History) EndedBySeq(ctx context.Context, seq uint32) (e checkpoint.Ended, found bool, err error) {
	return h.findEnded(ctx, func(p *span) bool { return p.hasSeq(seq) },
		func(e *checkpoint.Ended) bool { return e.Seq == seq })
}

// Several pages can match: a span knows the smallest and the largest id, not which are between.
func (h *History) findEnded(ctx context.Context, match func(*span) bool,
	is func(*checkpoint.Ended) bool) (e checkpoint.Ended, found bool, err error) {
	again := func() error {
		return h.s.hot.with(ctx, func(r *reader) error {
			for _, p := range h.index.pages(match) {
				list, there, err := readEnded(h.s, r.endedPage, p.page)
				if err != nil {
					return err
				}
				if !there {
					return errMoved
				}
				if i := slices.IndexFunc(list, func(e checkpoint.Ended) bool { return is(&e) }); i >= 0 && p.holds(i) {
					e, found = list[i].Own(), true
					return nil
				}
			}
			return nil
		})
	}
	return e, found, wrap("ended", unmoved(again))
}

// unmoved calls fn until it found everything where the index said it was.
// It ends, because pages move only by retention or a checkpoint, and each such move makes the index right again.
func unmoved(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, errMoved) {
			return err
		}
	}
}

// walk is an order in which the history is read. The smallest key comes first.
//
// A walk merges pages without reading all of them. A heap has blocks, pages and submissions by the
// smallest key that each may have. The walk opens the top of the heap: a block gives its pages, a page is read and
// gives its submissions, and a submission on top is the next in order. So a list of the newest hundred reads a few
// pages of a history of millions.
//
//	heap, smallest key on top         what happens to the top
//	  block  key: of all its pages      gives its pages, each with its own key
//	  page   key: of its first          is read, gives its submissions
//	  ended  key: its own               is the next one: fn
type walk struct {
	match func(*span) bool   // whether a page may have wanted submissions
	from  func(*span) uint64 // no key of the page is smaller
	want  func(*checkpoint.Ended) bool
	key   func(*checkpoint.Ended) uint64
	bare  bool             // without Spec and Final, where that saves the reading of long ones
	pass  func(*span) bool // no need to read the page; nil: each is read
	noted bool             // the meta values of a page that was read are noted
	scan  *scan            // bounds the reading; nil: no bound
}

// step is a block, a page or an ended submission that the walk has come to, by the
// smallest key that it may have.
type step struct {
	key   uint64
	block *endedBlock
	page  *span
	ended *checkpoint.Ended
	at    int // its place in the page
}

type steps []step

func (h steps) Len() int { return len(h) }

// Of equal keys a block or a page comes before a submission: it may have one with a smaller id, and must be opened
// first.
func (h steps) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	if a.key != b.key || a.ended == nil || b.ended == nil {
		return a.key < b.key || a.key == b.key && a.ended == nil
	}
	return a.ended.ID < b.ended.ID
}

func (h steps) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *steps) Push(x any) { *h = append(*h, x.(step)) }

func (h *steps) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// walk calls fn for the wanted submissions of the history, in order, until it returns false. Pages are read when
// their turn comes. fn is called without a lock. errMoved says that a page is no longer where the index had it: the
// caller begins again behind the last submission that it has.
func (h *History) walk(ctx context.Context, o walk,
	fn func(e *checkpoint.Ended, page int64, at int) (more bool, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ahead, moves := h.index.begin(&o)
	heap.Init(&ahead)
	for len(ahead) > 0 {
		next := heap.Pop(&ahead).(step)
		switch {
		case next.ended != nil:
			if more, err := fn(next.ended, next.page.page, next.at); err != nil || !more {
				return err
			}
		case next.page != nil:
			if o.pass != nil && o.pass(next.page) {
				continue
			}
			// A list with a rare filter would read all of the history. The scan says when it has read its share,
			// and where the next call goes on.
			if o.scan != nil && !o.scan.may(next.key, next.page) {
				return nil
			}
			list, err := h.wanted(ctx, next.page, &o)
			if err != nil {
				return err
			}
			for i := range list {
				list[i].key = o.key(list[i].ended)
				heap.Push(&ahead, list[i])
			}
		default:
			pages, err := h.index.of(next.block, o.match, moves)
			if err != nil {
				return err
			}
			for _, p := range pages {
				heap.Push(&ahead, step{key: o.from(p), page: p})
			}
		}
	}
	return nil
}

// wanted reads a page and keeps the matching entries.
func (h *History) wanted(ctx context.Context, p *span, o *walk) (list []step, err error) {
	if o.bare && p.count == 1 { // a long submission has a page of its own
		e := p.only()
		if o.want(e) {
			list = append(list, step{page: p, ended: e})
		}
		return list, nil
	}
	err = h.s.scan.with(ctx, func(r *reader) error {
		all, found, err := readEnded(h.s, r.endedPage, p.page)
		if err == nil && !found {
			err = errMoved
		}
		if err == nil && o.noted {
			err = p.meta.note(all)
		}
		for i := range all {
			if p.holds(i) && o.want(&all[i]) {
				list = append(list, step{page: p, ended: &all[i], at: i})
			}
		}
		return err
	})
	return list, err
}

// byID walks from an id on, the oldest first; newest walks down from below one.
func byID(from queue.SubmissionID) walk {
	return walk{
		match: func(p *span) bool { return p.lastID >= from }, from: func(p *span) uint64 { return uint64(p.firstID) },
		want: func(e *checkpoint.Ended) bool { return e.ID >= from },
		key:  func(e *checkpoint.Ended) uint64 { return uint64(e.ID) },
	}
}

// Downwards is the complement of the id: then the heap needs one comparison only, and no second kind of walk
// exists.
func newest(below queue.SubmissionID, states uint32) walk {
	return walk{
		match: func(p *span) bool { return p.firstID < below && p.states&states != 0 },
		from:  func(p *span) uint64 { return ^uint64(p.lastID) },
		want:  func(e *checkpoint.Ended) bool { return e.ID < below && states>>e.State&1 == 1 },
		key:   func(e *checkpoint.Ended) uint64 { return ^uint64(e.ID) },
	}
}

// each calls fn for everything in the pages whose span matches, in no order and perhaps more than once.
func (h *History) each(ctx context.Context, match func(*span) bool, fn func(*checkpoint.Ended)) error {
	return unmoved(func() error {
		for _, p := range h.index.pages(match) {
			list, err := h.wanted(ctx, p, &walk{want: func(*checkpoint.Ended) bool { return true }})
			if err != nil {
				return err
			}
			for i := range list {
				fn(list[i].ended)
			}
		}
		return nil
	})
}

// EndedSince calls fn for the id of every ended submission from `from` on, in no order and
// perhaps more than once.
func (h *History) EndedSince(ctx context.Context, from queue.SubmissionID, fn func(queue.SubmissionID)) error {
	return wrap("ended since", h.each(ctx, byID(from).match, func(e *checkpoint.Ended) {
		if e.ID >= from {
			fn(e.ID)
		}
	}))
}

// seqSet is a set of numbers of submissions, a bit for each, in blocks of 64 Ki.
// A bit for each is 125 kB for a million submissions in a row; a map of numbers would be many times that.
type seqSet map[uint32]*[1024]uint64

func (s seqSet) add(seq uint32) {
	block := s[seq>>16]
	if block == nil {
		block = new([1024]uint64)
		s[seq>>16] = block
	}
	block[seq>>6&1023] |= 1 << (seq & 63)
}

func (s seqSet) has(seq uint32) bool {
	block := s[seq>>16]
	return block != nil && block[seq>>6&1023]>>(seq&63)&1 == 1
}

// endedSeqs are the numbers of all submissions in the history.
func (h *History) endedSeqs(ctx context.Context) (seqSet, error) {
	seqs := seqSet{}
	return seqs, h.each(ctx, func(*span) bool { return true }, func(e *checkpoint.Ended) { seqs.add(e.Seq) })
}

// ListEnded lists ended submissions in one of the states, the newest id first, beginning
// below `before` (0: at the newest), at most `limit`.
func (h *History) ListEnded(ctx context.Context, before queue.SubmissionID, states []queue.SubmissionState,
	limit int) ([]checkpoint.Ended, error) {
	list, _, err := h.ScanEnded(ctx, EndedScan{Before: before, States: states, Limit: limit})
	return list, err
}

func below(before queue.SubmissionID) queue.SubmissionID {
	if before == 0 {
		return math.MaxUint64
	}
	return before
}

func maskOf(states []queue.SubmissionState) (mask uint32) {
	for _, state := range states {
		mask |= 1 << state
	}
	return mask
}

// EndedIn lists the ids of ended submissions in a state, those below `before` and the
// newest first, at most `limit`. It does not read their records, which are long for a submission with many dead
// letters. The list of dead letters uses it to find the submissions that have some.
func (h *History) EndedIn(ctx context.Context, before queue.SubmissionID, state queue.SubmissionState,
	limit int) (ids []queue.SubmissionID, err error) {
	o := newest(before, maskOf([]queue.SubmissionState{state}))
	o.bare = true
	err = unmoved(func() error {
		ids = ids[:0]
		return h.walk(ctx, o, func(e *checkpoint.Ended, _ int64, _ int) (bool, error) {
			ids = append(ids, e.ID)
			return len(ids) < limit, nil
		})
	})
	return ids, wrap("ended in a state", err)
}
