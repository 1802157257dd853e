package shard

// The state of the life-cycle worker, for `quern lifecycle` and /readyz. All of it comes from counters that are kept
// anyway, so it costs the same however much is due.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inserts"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/recount"
	"github.com/quern-queue/quern/engine/shard/worker"
	"github.com/quern-queue/quern/sdk/api"
)

// Work is the state of the life-cycle worker.
type Work struct {
	Lag      time.Duration       // since when the oldest action is due that is not done yet; 0: nothing is overdue
	Degraded bool                // its commits fail again and again: inserts are refused
	Slices   uint64              // that succeeded, since the server's start
	Kinds    []api.LifecycleKind // by machine.Kind
	Suspects Suspects
	Parked   []api.ParkedAction // the oldest first
	Grace    queue.Time         // until when the restart grace runs, 0: it is over
	Recount  recount.State
}

// Suspects are the chunks whose last try used up a whole reservation, and how many of them may be lent beside other
// work.
type Suspects struct {
	api.Suspects
	Ready uint64 // of the lent, those that no one holds
}

// API is the state as JSON.
func (w *Work) API() api.Lifecycle {
	return api.Lifecycle{
		LagSeconds: w.Lag.Seconds(), Degraded: w.Degraded, GraceUntil: w.Grace.API(), Slices: w.Slices,
		Suspects: w.Suspects.Suspects,
		Kinds:    w.Kinds, Parked: w.Parked, Recount: w.Recount.API(),
	}
}

// Work returns the state of the life-cycle worker.
func (s *Shard) Work() (w Work) {
	now := s.now()
	s.mu.held(func() { w = s.work(now) })
	return w
}

// work is Work with the mutex held.
func (s *Shard) work(now queue.Time) Work {
	w := Work{Grace: s.m.ValueLimits.Grace.End(), Degraded: s.Worker.Trouble.Degraded, Slices: s.Worker.Trouble.Slices,
		Kinds: make([]api.LifecycleKind, machine.KindCount), Parked: s.Worker.Trouble.API()}
	for kind := range machine.KindCount {
		t, acts := &s.Worker.Trouble.Kinds[kind], s.m.Stats.Acts[kind]
		k := &w.Kinds[kind]
		*k = api.LifecycleKind{
			Kind: kind.String(), Pending: uint64(len(s.m.Lifecycle.Timers[kind])), Done: acts.Done, Stale: acts.Stale,
			Failed:   t.Failed,
			Failures: t.Failures,
		}
		if t.Success != 0 {
			k.LastSuccessAt = new(t.Success.API())
		}
		if t.Err != nil {
			k.Error = t.Err.Error()
		}
		at, there := s.m.OldestDue(kind, now)
		if kind == machine.KindRetention { // it makes no one wait, so it does not count for the health
			at, there = s.Retention.Since()
		}
		if there {
			lag := max(now.Sub(at), 0)
			k.LagSeconds, w.Lag = lag.Seconds(), max(w.Lag, lag)
		}
	}
	w.Recount = s.Recounts.Far()
	w.Suspects = Suspects{api.Suspects{
		Shelved: uint64(s.m.Suspects.Shelved), Lent: uint64(s.m.Suspects.Lent),
		Quota: uint64(s.m.Suspects.Quota(now)), Slots: s.m.Suspects.LiveSlots(now),
	}, uint64(s.m.Suspects.Ready)}
	// These kinds have no timers of their own: their work is counted in other places.
	w.Kinds[machine.KindSuspect].Pending, w.Kinds[machine.KindForward].Pending = w.Suspects.Shelved,
		uint64(s.parts.letters.Outbox.Len())
	w.Kinds[machine.KindExpiry].Pending, w.Kinds[machine.KindSweep].Pending = uint64(s.m.Holds.Len()),
		s.m.Stats.Orphaned
	w.Kinds[machine.KindRetention].Pending = s.Retention.Pending(s.m)
	w.Kinds[machine.KindAfter].Pending = uint64(s.m.Afters.Count)
	for a := range s.Worker.Trouble.Parked {
		w.Kinds[a.Kind].Parked++
	}
	return w
}

// lagMost is the lag of the life-cycle worker beyond which the shard is not ready. Shorter stalls, such as a slow
// disk during a checkpoint, must not take the server out of its load balancer.
const lagMost = 30 * time.Second

// takesIn says whether inserts can be served. The mutex is held. A shard that cannot write its timed work would only
// collect work that it cannot handle.
func (s *Shard) takesIn() error {
	switch err := s.usable(); {
	case err != nil:
		return err
	case s.retired:
		return errClosing
	case s.Worker.Trouble.Degraded:
		return inserts.ErrDegraded
	}
	return nil
}

// handsOut says whether reserves can be served. A degraded shard serves them as long as its reservations come back in
// time. The mutex is held.
func (s *Shard) handsOut(now queue.Time) error {
	if err := s.usable(); err != nil || !s.Worker.Trouble.Degraded ||
		worker.Lag(s.m, now) < s.m.Settings.ReservationTimeout {
		return err
	}
	return inserts.ErrDegraded
}

// Health is nil while the shard serves all calls, and its life-cycle worker keeps up.
func (s *Shard) Health() error {
	var lag time.Duration
	var err error
	now := s.now()
	s.mu.held(func() {
		lag, err = worker.Lag(s.m, now), errors.Join(s.lost, s.takesIn(), s.disk.Failing())
	})
	if err != nil {
		return err
	}
	if lag > lagMost {
		return fmt.Errorf("the life-cycle worker is %s behind; up to %s is well", lag.Round(time.Second), lagMost)
	}
	return nil
}

// CatchUp ticks until nothing is due any more and all consequences are committed. It also does actions that become due
// by a commit, such as offering an expired chunk without a back-off. An empty Begin joins the batch that the tick left
// open, so waiting for it waits for the ops of the tick.
func (s *Shard) CatchUp(ctx context.Context) error {
	for {
		s.Worker.Tick()
		b, err := (*doors)(s).Begin(func(*machine.Machine, queue.Time) error { return nil })
		if err != nil || b == nil {
			return err
		}
		if err := b.Wait(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
