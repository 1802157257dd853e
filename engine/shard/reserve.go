package shard

// A reserve, from the call to its answer.
//
//	restrict   orders to the consumer, restart grace (only if `special` is set)
//	pick       in slices of the mutex: views are built, chunks taken
//	  │ some ─► Answers.Fill, without the mutex: tokens are signed, contents read
//	  │ none, and the caller waits ─► park ─► served when work becomes available, or time is over
//	  └ none ─► Empty: why
//
// Nothing is written: a reservation is memory, and a crash gives the chunk back without an attempt.
//
// A waiter may be handed chunks at the very moment at which it gives up. stopWaiting looks once more, with the mutex
// held. If the caller is still there, it gets them. If not, they go back, and other waiters are served: no chunk may
// stay reserved without a consumer.

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/answers"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/waiters"
	"github.com/quern-queue/quern/engine/strategy"
)

// Reserve hands out up to q.Max chunks by the plan, waiting up to q.Wait for the first. With q.Max 0 it hands out
// nothing and only says why there is nothing: queue.NotEmpty if there is something.
// The reservations are appended to dst.
func (s *Shard) Reserve(ctx context.Context, q machine.Request, dst []queue.Reservation) (machine.Reserved, error) {
	asked := q.Plan
	defer func() {
		if q.Over != nil {
			q.Over.Stop()
		}
	}()
	for {
		q.Plan, q.Restrained = asked, false
		if s.special.Load() {
			q.Came = time.Time{} // it may wait
			if answer, over := s.restrict(&q, asked); over {
				answer.Reservations, answer.Waited = dst, q.Waited
				return answer, nil
			}
		}
		q.Numbered = q.Plan.Percents()
		q.Plan = s.Percents.PlanNow(q.Plan, q.Max)
		if answer, err := s.reserve(ctx, &q, dst); err != answers.ErrAgain {
			answer.Waited = q.Waited
			return answer, err
		}
	}
}

// ErrMoreShards tells a reserve that took the shard for the whole queue that it is one of several by now. One shard
// alone cannot keep a limit of the whole queue.
var ErrMoreShards = errors.New("shard: the queue has more shards")

// stale says why a request cannot be served as it is: ErrMoreShards, or answers.ErrAgain if restrict would decide
// otherwise now. The mutex is held.
//
// restrict decides outside of the hold of the mutex that picks. If an order or a grace comes in between, the picks
// would be wrong. ErrAgain begins again with the plan that was asked for.
func (s *Shard) stale(q *machine.Request) error {
	if q.Whole && s.m.Settings.Shards > 1 {
		return ErrMoreShards
	}
	if (s.m.ValueLimits.Grace != nil) != q.Restrained || s.roster.OrderOf(q.Consumer) != queue.NoOrder {
		return answers.ErrAgain
	}
	return nil
}

// reserve picks in slices, so that no caller waits for the mutex for long.
func (s *Shard) reserve(ctx context.Context, q *machine.Request, dst []queue.Reservation) (machine.Reserved, error) {
	got := s.pools.takePicks()
	var p picked
	var err error
	for err == nil && (len(*got) < q.Max || q.Max == 0) && !p.all {
		if machine.Scores(q.Plan) {
			err = s.pickScored(ctx, q, got, &p)
		} else {
			err = s.pick(ctx, q, got, &p)
		}
	}
	answer := machine.Reserved{Reservations: dst}
	if err == nil && len(*got) > 0 {
		answer, err = s.Answers.Fill(ctx, *got, dst, q.Answered)
	}
	s.pools.givePicks(got)
	switch {
	case p.waiter != nil:
		return s.await(ctx, q, p.waiter, dst)
	case p.empty != nil:
		answer, answer.Reservations = *p.empty, dst
	}
	return answer, err
}

// picked is the result of the slices of a reserve.
type picked struct {
	all    bool              // nothing more can be had
	empty  *machine.Reserved // nothing was had at all, and why
	waiter *waiters.Waiter   // nothing was had at all, and the caller waits
}

// pick takes the next slice of picks, in one hold of the mutex. After an error earlier picks are given back.
func (s *Shard) pick(ctx context.Context, q *machine.Request, got *[]machine.Pick, p *picked) (err error) {
	moment, seed := q.LookAt(s.options.Now), s.options.Seed()
	s.mu.held(func() {
		if err = s.pickHeld(ctx, q, got, p, moment, seed); err != nil {
			s.m.Undo(*got)
		}
	})
	return err
}

// pickHeld is pick with the mutex held.
func (s *Shard) pickHeld(ctx context.Context, q *machine.Request, got *[]machine.Pick, p *picked,
	moment time.Time, seed uint64) error {
	now := queue.At(moment)
	if err := s.handsOut(now); err != nil {
		return err
	}
	if err := s.stale(q); err != nil {
		return err
	}
	views, unbuilt, err := machine.Admitted(s.m, q.Plan)
	if err != nil {
		return err
	}
	if unbuilt != nil {
		return s.Views.Build(ctx, s.m.Backlog, unbuilt)
	}
	if s.alarm.advanceFrom(moment) && s.waiters.Len() > 0 {
		s.waiters.Serve(now) // the waiters came first
	}
	s.m.Seed(seed)
	most := min(q.Max-len(*got), shell.SliceItems)
	if q.Max == 0 {
		most = 1
	}
	n, tired := s.m.ReserveBriefly(q, views, most, now, got)
	if p.all = n < most && !tired; p.all && len(*got) == 0 {
		p.nothing(s, q, now)
	}
	if q.Max == 0 && len(*got) > 0 { // there is something, so there is no reason to give
		s.m.Undo(*got)
		*got, p.all, p.empty = (*got)[:0], true, new(machine.Reserved)
	}
	return nil
}

// nothing makes the caller wait, or says why there is nothing. The mutex is held.
func (p *picked) nothing(s *Shard, q *machine.Request, now queue.Time) {
	switch {
	case q.Turn != nil && !q.Turn.Why:
		p.empty = new(machine.Reserved) // other shards may have something: the reason is asked for when none has
	case q.Wait > 0:
		p.waiter = s.waiters.Park(q)
	default:
		p.empty = new(s.m.Empty(q, now))
	}
}

// pickScored is pick for a plan that has scored branches: it takes all available chunks, up to q.Max, at once.
func (s *Shard) pickScored(ctx context.Context, q *machine.Request, got *[]machine.Pick, p *picked) error {
	q.Came, p.all = time.Time{}, true
	err := s.Scoring.Pick(ctx, q, got)
	if err == nil && len(*got) == 0 {
		now := s.now()
		s.mu.held(func() { p.nothing(s, q, now) })
	}
	return err
}

// await waits for work, as long as the caller does.
func (s *Shard) await(ctx context.Context, q *machine.Request, w *waiters.Waiter,
	dst []queue.Reservation) (machine.Reserved, error) {
	if q.Over == nil {
		q.Over = time.NewTimer(q.Wait)
	}
	parked := s.options.Now()
	answer, err := s.waitFor(ctx, q, w, dst)
	q.Waited += s.options.Now().Sub(parked)
	return answer, err
}

// waitFor waits until the waiter is served or its time is over. A waiter whose request Rechecks is not handed work, but
// has to ask again; it also asks from time to time.
func (s *Shard) waitFor(ctx context.Context, q *machine.Request, w *waiters.Waiter,
	dst []queue.Reservation) (machine.Reserved, error) {
	var retry <-chan time.Time
	if q.Rechecks() {
		timer := time.NewTimer(machine.RetryScored)
		defer timer.Stop()
		retry = timer.C
	}
	select {
	case picks, ok := <-w.Served:
		switch {
		case !ok:
			return machine.Reserved{Reservations: dst}, errClosing
		case len(picks) == 0:
			return machine.Reserved{Reservations: dst}, answers.ErrAgain
		}
		return s.Answers.Fill(ctx, picks, dst, 0)
	case <-retry:
	case <-q.Over.C:
		if retry != nil {
			q.Wait = 0 // asks once more, for the reason
		}
	case <-ctx.Done():
	}
	return s.stopWaiting(ctx, w, dst)
}

// stopWaiting ends a wait. Chunks that were handed over at the last moment are delivered if the caller is still there,
// and given back if not.
func (s *Shard) stopWaiting(ctx context.Context, w *waiters.Waiter, dst []queue.Reservation) (machine.Reserved, error) {
	var (
		now    = s.now()
		picks  []machine.Pick
		answer machine.Reserved
		err    error
	)
	s.mu.held(func() {
		s.waiters.Unpark(w)
		select {
		case picks = <-w.Served:
		default:
		}
		switch err = ctx.Err(); {
		case err != nil:
			s.m.Undo(picks)
			s.waiters.Serve(now)
		case len(picks) > 0:
		case w.Request.Rechecks():
			err = answers.ErrAgain
		default:
			answer = s.m.Empty(&w.Request, now)
		}
	})
	if err == nil && len(picks) > 0 {
		return s.Answers.Fill(ctx, picks, dst, 0)
	}
	answer.Reservations = dst
	return answer, err
}

// Reserves of a queue that has several shards. The queue looks at the heads of all shards, and takes from the one whose
// turn it is (package merge). When there is nothing it waits in all shards at once:
//
//	Heads of 1, 2, 3 ─► turns ─► Reserve with Request.Turn ─► Heads …
//	     nothing ─► Heads of 1, 2, 3, listening ─► a sign of any of them ─► Heads …
//
// A call that listens gets a sign and not a chunk, because only the queue knows whose turn it is. The look and the wait
// begin in one hold of the mutex, so no chunk can become available between the two.

// Listening is a call that waits in several shards. Each sends one sign at most through Signs, which has room for all.
type Listening struct {
	Request machine.Request
	Signs   chan []machine.Pick
	parked  []func()
}

// Stop ends the wait in all shards.
func (l *Listening) Stop() {
	for _, unpark := range l.parked {
		unpark()
	}
}

// Heads are the next candidates of the branches of a plan in this shard, in their order; the zero Head: none. The
// branches are neither fair nor scored. If there are no candidates at all, the listening call waits in this shard from
// then on; nil: no call does.
func (s *Shard) Heads(ctx context.Context, plan *strategy.Plan,
	listening *Listening) (heads []backlog.Head, err error) {
	err = overViews(ctx, s, plan, func(views []*backlog.View) (again bool) {
		heads, again = machine.Heads(s.m, views, nil)
		if listening != nil && !again && nothingIn(heads) {
			listening.Request.Asks = true
			w := s.waiters.ParkAt(&listening.Request, listening.Signs)
			listening.parked = append(listening.parked, func() { s.mu.held(func() { s.waiters.Unpark(w) }) })
		}
		return again
	})
	return heads, err
}

func nothingIn(heads []backlog.Head) bool {
	return !slices.ContainsFunc(heads, func(h backlog.Head) bool { return h != backlog.Head{} })
}

// overViews calls fn with the views of a plan and the mutex held, as soon as they are built, again and again until fn
// returns false.
func overViews(ctx context.Context, s *Shard, plan *strategy.Plan, fn func([]*backlog.View) (again bool)) (err error) {
	for again := true; err == nil && again; {
		now := s.options.Now()
		s.mu.held(func() { again, err = overViewsOnce(ctx, s, plan, now, fn) })
	}
	return err
}

// overViewsOnce is one hold of the mutex. The mutex is held.
func overViewsOnce(ctx context.Context, s *Shard, plan *strategy.Plan, moment time.Time,
	fn func([]*backlog.View) (again bool)) (again bool, err error) {
	now := queue.At(moment)
	if err := s.handsOut(now); err != nil {
		return false, err
	}
	views, unbuilt, err := machine.Admitted(s.m, plan)
	if err != nil {
		return false, err
	}
	if unbuilt != nil {
		return true, s.Views.Build(ctx, s.m.Backlog, unbuilt)
	}
	if s.alarm.advanceFrom(moment) {
		s.mu.change()
		s.waiters.Serve(now)
	}
	s.m.Seed(s.options.Seed())
	return fn(views), nil
}
