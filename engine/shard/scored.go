package shard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/scoring"
	"github.com/quern-queue/quern/engine/strategy"
)

// A scored branch is followed in three steps: under the mutex a window of candidates is copied into columns, outside of it
// they are scored, and under it again each pick is checked and taken. Whatever the scores are, a pick passes every filter and
// limit at the moment it is taken.

// Scoring reserves for strategies with scores: windows of candidates are scored outside of the mutex.
type Scoring struct {
	s    *Shard
	work [scoredKinds]struct{ examined, unwanted atomic.Uint64 }
}

// reserve is Reserve for a plan that has scored branches. Who waits is not handed work but told to ask again, because
// no one scores under the mutex.
func (p *Scoring) reserve(ctx context.Context, q *machine.Request, dst []queue.Reservation) (machine.Reserved, error) {
	s := p.s
	got := s.takePicks()
	defer s.givePicks(got)
	for {
		err := p.pick(ctx, q, got)
		if err == nil && len(*got) == 0 {
			err = p.borrow(ctx, q, got)
		}
		if err != nil {
			p.takeBack(*got)
			return machine.Reserved{Reservations: dst}, err
		}
		if len(*got) > 0 {
			return s.fill(ctx, *got, dst)
		}
		now := s.now()
		s.mu.Lock()
		if q.Wait <= 0 {
			answer := s.m.Empty(q, now)
			s.mu.Unlock()
			answer.Reservations = dst
			return answer, nil
		}
		w := s.waiters.park(q)
		s.mu.Unlock()
		parked := s.options.Now()
		if q.Over == nil {
			q.Over = time.NewTimer(q.Wait)
		}
		again, err := p.wait(ctx, w, q.Over)
		q.Waited += s.options.Now().Sub(parked)
		if err != nil {
			return machine.Reserved{Reservations: dst}, err
		}
		if !again {
			q.Wait = 0 // once more, then say why
		}
	}
}

// borrow follows the branches once more with suspects lent to them, as they gave nothing else.
func (p *Scoring) borrow(ctx context.Context, q *machine.Request, got *[]machine.Pick) error {
	s := p.s
	now := s.now()
	s.mu.Lock()
	lent := s.usable() == nil && s.m.Suspects.Borrow(q, q.Max, now)
	s.mu.Unlock()
	if !lent {
		return nil
	}
	err := p.pick(ctx, q, got)
	now = s.now()
	s.mu.Lock()
	s.m.Suspects.Lend(now, machine.TickMost) // what was borrowed without success goes back
	s.mu.Unlock()
	return err
}

// wait waits until there may be something to score, and says whether the caller may wait once more.
func (p *Scoring) wait(ctx context.Context, w *waiter, over *time.Timer) (again bool, err error) {
	s := p.s
	retry := time.NewTimer(machine.RetryScored)
	defer retry.Stop()
	again = true
	select {
	case _, ok := <-w.served:
		if !ok {
			return false, errClosing
		}
		return true, nil
	case <-retry.C:
	case <-over.C:
		again = false
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	s.waiters.unpark(w, nil)
	s.mu.Unlock()
	return again, err
}

// takeBack gives picks back that no one will get.
func (p *Scoring) takeBack(picks []machine.Pick) {
	s := p.s
	now := s.now()
	s.mu.Lock()
	s.m.Undo(picks)
	s.waiters.serve(now)
	s.mu.Unlock()
}

// pick follows the branches in their order.
func (p *Scoring) pick(ctx context.Context, q *machine.Request, got *[]machine.Pick) error {
	fault := false // of the scored branch before
	for i := range q.Plan.Branches {
		br := &q.Plan.Branches[i]
		var err error
		switch {
		case len(*got) >= q.Max:
			return nil
		case br.OnFault && !fault:
		case br.Scored == nil:
			err = p.pickPlain(ctx, q, br.Plain(), got)
		default:
			fault, err = p.pickByScore(ctx, q, br, got)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pickPlain takes what a branch without scores gives.
func (p *Scoring) pickPlain(ctx context.Context, q *machine.Request, br *strategy.Branch, got *[]machine.Pick) error {
	s := p.s
	for ctx.Err() == nil {
		now := s.now()
		s.mu.Lock()
		views, ready, err := p.viewsOf(ctx, []strategy.Branch{*br}, false)
		if err == nil && s.stale(q) {
			err = errAgain
		}
		if err != nil || !ready {
			s.mu.Unlock()
			if err != nil {
				return err
			}
			continue
		}
		s.m.Seed(s.options.Seed())
		most := min(q.Max-len(*got), sliceItems)
		n, tired := s.m.ReserveBriefly(q, views, most, now, got)
		s.mu.Unlock()
		if n < most && !tired || len(*got) >= q.Max {
			return nil
		}
	}
	return ctx.Err()
}

// viewsOf finds the views of branches, asked: for a question; ready is false if one had to be built, of which a slice is done now. The
// mutex is held.
func (p *Scoring) viewsOf(ctx context.Context, branches []strategy.Branch, asked bool) (views []*backlog.View, ready bool, err error) {
	s := p.s
	if err := s.usable(); err != nil {
		return nil, false, err
	}
	plan := strategy.Plan{Branches: branches}
	admit, view := s.m.Backlog.Views.Admit, s.m.Backlog.Views.Of
	if asked {
		admit, view = s.m.Backlog.Views.AdmitQuestion, s.m.Backlog.Views.Ask
	}
	if err := admit(&plan); err != nil {
		return nil, false, err
	}
	views, unbuilt := machine.ViewsBy(&plan, view, s.views[:0])
	s.views = views
	if unbuilt != nil {
		return nil, false, s.Views.build(ctx, unbuilt)
	}
	return views, true, nil
}

// pickByScore takes what a scored branch gives. fault says that no one scored, or the scorer failed.
func (p *Scoring) pickByScore(ctx context.Context, q *machine.Request, br *strategy.Branch, got *[]machine.Pick) (fault bool, err error) {
	s := p.s
	scorer, ready := s.options.Scorers.Scorer(br.Scored)
	if !ready {
		return true, nil
	}
	rows := scoring.RowsOf(br, scorer)
	w := p.scratch()
	defer s.pools.windows.Put(w)
	w.Seen, w.Seed = nil, s.options.Seed() // one for all windows of the request: by it a canary is chosen
	for range scoring.MaxWindows {
		ready := false
		for !ready {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			if ready, err = p.look(ctx, q, br, scorer, rows, len(*got), w); err != nil {
				return false, err
			}
		}
		if w.Rows == 0 {
			return false, nil
		}
		w.Sampler = nil
		if err := scorer.Score(ctx, &w.Window, w.Scores); err != nil {
			return true, ctx.Err()
		}
		p.count(br, w)
		gone, err := p.takeByScore(q, br, scorer, w, got)
		if w.Sampler != nil && err == nil && !gone {
			w.Sampler.Taken(w.Scores, w.Taken)
		}
		if err != nil {
			return false, err
		}
		if gone {
			w.Seen = nil
			continue
		}
		if len(*got) >= q.Max || w.Rows < rows {
			return false, nil
		}
		w.See()
	}
	return false, nil
}

// look copies the next window of candidates; ready is false if a view has to be built first.
func (p *Scoring) look(ctx context.Context, q *machine.Request, br *strategy.Branch, scorer strategy.Scorer, rows, have int,
	w *scoring.WindowScratch) (ready bool, err error) {
	s := p.s
	now, seed := s.now(), s.options.Seed()
	s.mu.Lock()
	defer s.mu.Unlock()
	views, ready, err := p.viewsOf(ctx, br.Inner, false)
	if err == nil && s.stale(q) {
		err = errAgain
	}
	if err != nil || !ready {
		return false, err
	}
	s.m.Seed(seed)
	w.Of = s.m
	w.Standing = s.parts.scoring.Of(br)
	w.Views = append(w.Views[:0], views...)
	w.Frame = s.parts.scoring.Frame(w.Standing, br, views, scorer, rows, w.Seen)
	w.Now, w.Want = now, q.Max-have
	s.parts.scoring.Gather(w, br, scorer.Reads(), q.Context, now)
	return true, nil
}

// takeByScore takes chunks in the order of the scores, slice by slice. gone says that the state was made again meanwhile, after a
// commit that failed: the candidates are those of the old one, of which nothing may be taken any more.
func (p *Scoring) takeByScore(q *machine.Request, br *strategy.Branch, scorer strategy.Scorer, w *scoring.WindowScratch,
	got *[]machine.Pick) (gone bool, err error) {
	s := p.s
	w.Begin(scorer.Spread())
	if w.Sampler != nil {
		w.Taken = append(w.Taken[:0], make([]uint32, w.Rows)...)
	}
	for more := true; more && len(*got) < q.Max; {
		now := s.now()
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return false, err
		}
		if s.m != w.Of {
			s.mu.Unlock()
			return true, nil
		}
		s.m.Seed(s.options.Seed())
		most := min(q.Max, len(*got)+sliceItems)
		more = s.parts.scoring.Take(q, br, w, most, now, got)
		s.mu.Unlock()
	}
	return false, nil
}

// Candidates are the first `rows` candidates (1 to strategy.MaxWindow) of a plan without scores, with these columns. Nothing is
// reserved. The window is the caller's.
func (p *Scoring) Candidates(ctx context.Context, plan *strategy.Plan, about queue.Meta, reads []strategy.Column,
	rows int) (*strategy.Window, error) {
	all := &strategy.Branch{Scored: &strategy.Scored{}, Inner: plan.Branches}
	w := &scoring.WindowScratch{}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ready, err := p.lookAt(ctx, all, about, reads, rows, w)
		if err != nil {
			return nil, err
		}
		if ready {
			return &w.Window, nil
		}
	}
}

func (p *Scoring) lookAt(ctx context.Context, all *strategy.Branch, about queue.Meta, reads []strategy.Column, rows int,
	w *scoring.WindowScratch) (ready bool, err error) {
	s := p.s
	now, seed := s.now(), s.options.Seed()
	s.mu.Lock()
	defer s.mu.Unlock()
	views, ready, err := p.viewsOf(ctx, all.Inner, true)
	if err != nil || !ready {
		return false, err
	}
	s.m.Seed(seed)
	w.Frame = s.parts.scoring.MakeFrame(all, views, reads, rows, nil)
	w.Now, w.Seed, w.Want, w.Dry = now, seed, w.Rows, true
	s.parts.scoring.Gather(w, all, reads, about, now)
	w.Submissions = make([]queue.SubmissionID, len(w.Frame.Rows))
	for row, sub := range w.Frame.Rows {
		w.Submissions[row] = sub.ID()
	}
	return true, nil
}
