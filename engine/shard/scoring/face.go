package scoring

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/strategy"
)

// A scored branch is followed in three steps: under the mutex a window of candidates is copied into columns, outside of
// it they are scored, and under it again each pick is checked and taken. Whatever the scores are, a pick passes every
// filter and limit at the moment when it is taken.

// Scoring picks chunks for strategies with scores: windows of candidates are scored
// outside of the mutex. It outlives a reload.
type Scoring struct {
	shell.Door[*Part]
	scorers    strategy.Scorers
	views      Views
	stale      func(*machine.Request) error
	found      []*backlog.View // of the branches that are looked at. The mutex guards it
	followings sync.Pool       // *following
	work       [kinds]struct{ examined, unwanted atomic.Uint64 }
}

// Views are the standing views of a shard.
type Views interface {
	// Build builds a slice of a view. The error says that there is no room for it. The mutex is held.
	Build(ctx context.Context, b *backlog.Backlog, v *backlog.View) error
}

// Face is the scoring of a shard. stale returns an error when a request is not to be
// followed any more as it is, with the mutex held.
func Face(door shell.Door[*Part], scorers strategy.Scorers, views Views, stale func(*machine.Request) error) *Scoring {
	s := &Scoring{Door: door, scorers: scorers, views: views, stale: stale}
	s.followings.New = s.newFollowing
	return s
}

// Dry finds the scorer of a plan's block for a question, or the reason why there is none. Its use is not counted.
func (s *Scoring) Dry(scored *strategy.Scored) (strategy.Scorer, error) { return s.scorers.Dry(scored) }

// Pick appends up to q.Max chunks to got, by a plan that has scored branches; it may find none. After an error got is
// empty.
func (s *Scoring) Pick(ctx context.Context, q *machine.Request, got *[]machine.Pick) error {
	err := s.pick(ctx, q, got)
	if err == nil && len(*got) == 0 {
		err = s.borrow(ctx, q, got)
	}
	if err != nil {
		now := s.Now()
		s.Look(func(m *machine.Machine) {
			m.Undo(*got)
			s.Wake(now)
		})
		*got = (*got)[:0]
	}
	return err
}

// borrow follows the branches once more, with suspects lent to them, because they gave no other chunks.
func (s *Scoring) borrow(ctx context.Context, q *machine.Request, got *[]machine.Pick) error {
	lent := false
	_ = s.Locked(func(m *machine.Machine, now queue.Time) error { // a shard that cannot work lends nothing
		lent = m.Suspects.Borrow(q, q.Max, now)
		return nil
	})
	if !lent {
		return nil
	}
	err := s.pick(ctx, q, got)
	now := s.Now()
	// borrowed suspects that were not taken go back
	s.Look(func(m *machine.Machine) { m.Suspects.Lend(now, machine.TickMost) })
	return err
}

// pick follows the branches in their order. A branch OnFault follows a scored one, and is its fallback: it is asked
// only if the scorer was not there or failed, not if the scored branch gave nothing.
func (s *Scoring) pick(ctx context.Context, q *machine.Request, got *[]machine.Pick) error {
	fault := false // of the scored branch before
	for i := range q.Plan.Branches {
		br := &q.Plan.Branches[i]
		var err error
		switch {
		case len(*got) >= q.Max:
			return nil
		case br.OnFault && !fault:
		case br.Scored == nil:
			err = s.pickPlain(ctx, q, br.Plain(), got)
		default:
			fault, err = s.pickByScore(ctx, q, br, got)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pickPlain takes the chunks that a branch without scores gives, in slices: `tired` says that the slice ended before
// the branch did.
func (s *Scoring) pickPlain(ctx context.Context, q *machine.Request, br *strategy.Branch, got *[]machine.Pick) error {
	for ctx.Err() == nil {
		over := false
		err := s.Locked(func(m *machine.Machine, now queue.Time) error {
			views, ready, err := s.viewsOf(ctx, m, q, []strategy.Branch{*br})
			if err != nil || !ready {
				return err
			}
			m.Seed(s.Queue.Seed())
			most := min(q.Max-len(*got), shell.SliceItems)
			n, tired := m.ReserveBriefly(q, views, most, now, got)
			over = n < most && !tired || len(*got) >= q.Max
			return nil
		})
		if err != nil || over {
			return err
		}
	}
	return ctx.Err()
}

// viewsOf finds the views of branches, for the request q; nil: for a question. ready is false if it had to build a
// slice of one of them. The mutex is held.
func (s *Scoring) viewsOf(ctx context.Context, m *machine.Machine, q *machine.Request,
	branches []strategy.Branch) (views []*backlog.View, ready bool, err error) {
	plan := strategy.Plan{Branches: branches}
	admit, view := m.Backlog.Views.Admit, m.Backlog.Views.Of
	if q == nil {
		admit, view = m.Backlog.Views.AdmitQuestion, m.Backlog.Views.Ask
	}
	if err := admit(&plan); err != nil {
		return nil, false, err
	}
	views, unbuilt := machine.ViewsBy(&plan, view, s.found[:0])
	s.found = views
	if unbuilt != nil {
		err = s.views.Build(ctx, m.Backlog, unbuilt)
	}
	if err == nil && q != nil {
		err = s.stale(q)
	}
	return views, unbuilt == nil, err
}

// Candidates are the first `rows` candidates (1 to strategy.MaxWindow) of a plan without
// scores, with these columns. Nothing is reserved. The window is the caller's.
func (s *Scoring) Candidates(ctx context.Context, plan *strategy.Plan, about queue.Meta, reads []strategy.Column,
	rows int) (*strategy.Window, error) {
	all := &strategy.Branch{Scored: &strategy.Scored{}, Inner: plan.Branches}
	w := &WindowScratch{}
	for ready := false; !ready; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		seed := s.Queue.Seed()
		err := s.Locked(func(m *machine.Machine, now queue.Time) (err error) {
			var views []*backlog.View
			if views, ready, err = s.viewsOf(ctx, m, nil, all.Inner); err != nil || !ready {
				return err
			}
			m.Seed(seed)
			part := s.Part()
			w.Table = part.MakeTable(all, views, reads, rows, nil)
			w.Now, w.Seed, w.Want, w.Dry = now, seed, w.Rows, true
			part.Gather(w, all, reads, about, now)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	w.Submissions = make([]queue.SubmissionID, len(w.Table.Rows))
	for row, sub := range w.Table.Rows {
		w.Submissions[row] = sub.ID()
	}
	return &w.Window, nil
}
