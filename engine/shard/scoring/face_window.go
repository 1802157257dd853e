package scoring

//	look (locked): copy a window ─► score (no lock, up to 15 ms) ─► take (locked, in slices) ─► next window
//	                                                                  └ changes meanwhile are checked again
//
// A scorer may be slow, so it never runs under the lock. A scored candidate may be gone by then: each take asks the
// views again, and passes over it.

import (
	"context"
	"math"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/strategy"
)

// following is a scored branch that is followed for a request. Its memory is kept for the next
// one, and with it look and take: a closure for each hold of the mutex would cost an allocation.
type following struct {
	WindowScratch
	call
	s     *Scoring
	seed  uint64 // of the next look
	ready bool   // the window is there: no view has to be built first
	sweep bool   // the window is a sweep
	next  uint32 // where the next one goes on, if this one gives nothing
	// the state was replaced since the look: nothing may be taken from the candidates, which are of the old one
	gone       bool
	more       bool // the window may have more
	look, take func(*machine.Machine, queue.Time) error
}

// call is one use of following.
type call struct {
	ctx    context.Context // of the request
	q      *machine.Request
	br     *strategy.Branch
	scorer strategy.Scorer
	rows   int
	got    *[]machine.Pick
}

// look and take are bound once here: a method value costs an allocation each time it is made.
func (s *Scoring) newFollowing() any {
	f := &following{s: s}
	f.look, f.take = f.lookNow, f.takeNow
	return f
}

// pickByScore takes the chunks that a scored branch gives. If its windows gave none, a sweep looks at later candidates.
// fault says that there is no scorer, or that it failed. Between look and take the state may have been loaded again:
// then the old candidates are useless (gone), and it looks at the window once more.
func (s *Scoring) pickByScore(ctx context.Context, q *machine.Request, br *strategy.Branch,
	got *[]machine.Pick) (fault bool, err error) {
	scorer, ready := s.scorers.Scorer(br.Scored)
	if !ready {
		return true, nil
	}
	f := s.followings.Get().(*following)
	defer func() {
		f.call = call{}
		s.followings.Put(f)
	}()
	f.call = call{ctx, q, br, scorer, RowsOf(br, scorer), got}
	f.Seen, f.Seed = nil, s.Queue.Seed() // one for all windows of the request: it decides about a canary
	before := len(*got)
	f.gone = false
	for window := 0; window <= MaxWindows; window = NextWindow(br, window, !f.gone && f.Rows < f.rows) {
		if f.sweep = window == MaxWindows; f.sweep && len(*got) > before {
			break
		}
		for f.ready = false; !f.ready; {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			f.seed = s.Queue.Seed()
			if err := s.Locked(f.look); err != nil {
				return false, err
			}
		}
		if f.Rows == 0 {
			continue
		}
		f.Sampler = nil
		if err := scorer.Score(ctx, &f.Window, f.Scores); err != nil {
			return true, ctx.Err()
		}
		s.count(br, &f.WindowScratch)
		if err := f.takeAll(); err != nil {
			return false, err
		}
		if f.gone {
			f.Seen = nil
			continue
		}
		if f.Sampler != nil {
			f.Sampler.Taken(f.Scores, f.Taken)
		}
		if len(*got) >= q.Max {
			return false, nil
		}
		f.See()
	}
	return false, nil
}

// lookNow copies the next window of candidates, if no view has to be built first. The mutex is held.
func (f *following) lookNow(m *machine.Machine, now queue.Time) error {
	views, built, err := f.s.viewsOf(f.ctx, m, f.q, f.br.Inner)
	if err != nil || !built {
		return err
	}
	m.Seed(f.seed)
	part := f.s.Part()
	f.Of, f.Kept = m, part.Of(f.br)
	f.Views = append(f.Views[:0], views...)
	if f.sweep {
		f.Table, f.next = part.Sweep(f.Kept, f.br, views, f.scorer.Reads(), f.rows, f.Seen)
		if len(f.Table.Rows) == 0 { // no take follows that would note f.next
			f.Kept.swept = f.next
		}
	} else {
		f.Table = part.Table(f.Kept, f.br, views, f.scorer, f.rows, f.Seen)
	}
	f.Now, f.Want = now, f.q.Max-len(*f.got)
	part.Gather(&f.WindowScratch, f.br, f.scorer.Reads(), f.q.Context, now)
	f.ready = true
	return nil
}

// takeAll takes chunks in the order of the scores, slice by slice.
// Slices, because a request may take a thousand chunks, and other callers wait for the lock.
func (f *following) takeAll() error {
	f.Begin(f.scorer.Spread())
	if f.Sampler != nil {
		f.Taken = append(f.Taken[:0], make([]uint32, f.Rows)...)
	}
	f.gone = false
	for f.more = true; f.more && !f.gone && len(*f.got) < f.q.Max; {
		if err := f.s.Locked(f.take); err != nil {
			return err
		}
	}
	return nil
}

// takeNow takes a slice. The mutex is held.
func (f *following) takeNow(m *machine.Machine, now queue.Time) error {
	if f.gone = m != f.Of; !f.gone {
		m.Seed(f.s.Queue.Seed())
		before := len(*f.got)
		f.more = f.s.Part().Take(f.q, f.br, &f.WindowScratch, min(f.q.Max, before+shell.SliceItems), now, f.got)
		if f.sweep && len(*f.got) == before {
			f.Kept.swept = f.next
		}
	}
	return nil
}

// The kinds of blocks that score.
const (
	pluginKind = iota
	scoreKind
	kinds
)

// Work counts the work of the scorers of one kind of block since the shard was opened.
type Work struct {
	Block    string // its name in the language of strategies
	Examined uint64 // candidates
	Unwanted uint64 // of them, those that the scorer left out
}

// Work is the work of scorers, by kind of block.
func (s *Scoring) Work() (list [kinds]Work) {
	for kind, block := range [kinds]string{pluginKind: "Plugin", scoreKind: "Score"} {
		w := &s.work[kind]
		list[kind] = Work{Block: block, Examined: w.examined.Load(), Unwanted: w.unwanted.Load()}
	}
	return list
}

// count counts a window that was scored. A scorer leaves a candidate out by the score NaN.
func (s *Scoring) count(br *strategy.Branch, w *WindowScratch) {
	unwanted := uint64(0)
	for _, score := range w.Scores[:w.Rows] {
		if math.IsNaN(score) {
			unwanted++
		}
	}
	kind := pluginKind
	if br.Scored.Expression != nil {
		kind = scoreKind
	}
	s.work[kind].examined.Add(uint64(w.Rows))
	s.work[kind].unwanted.Add(unwanted)
}
