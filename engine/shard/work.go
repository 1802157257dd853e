package shard

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// Work is how the life-cycle worker is doing.
type Work struct {
	Lag      time.Duration       // since when the oldest action is due that is not done yet; 0: nothing is overdue
	Degraded bool                // its commits fail again and again: nothing new is taken in
	Slices   uint64              // that came through, since the server's start
	Kinds    []api.LifecycleKind // by machine.Kind
	Suspects Suspects
	Parked   []api.ParkedAction // the oldest first
	Grace    queue.Time         // until when the restart grace runs, 0: it is over
	Recount  Recount
}

// Suspects are the chunks whose last try burnt a reservation, and how many of them may be worked on beside other work.
type Suspects struct {
	api.Suspects
	Ready uint64 // of the lent, those that no one holds
}

// API is it as JSON carries it.
func (w *Work) API() api.Lifecycle {
	return api.Lifecycle{
		LagSeconds: w.Lag.Seconds(), Degraded: w.Degraded, GraceUntil: w.Grace.API(), Slices: w.Slices, Suspects: w.Suspects.Suspects,
		Kinds: w.Kinds, Parked: w.Parked, Recount: w.Recount.API(),
	}
}

// Work tells how the life-cycle worker is doing.
func (s *Shard) Work() Work {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := Work{Grace: s.m.ValueLimits.Grace.End(), Degraded: s.Worker.degraded, Slices: s.Worker.slices,
		Kinds: make([]api.LifecycleKind, machine.KindCount), Parked: s.Worker.parkedActions()}
	for kind := range machine.KindCount {
		t, acts := &s.Worker.kinds[kind], s.m.Stats.Acts[kind]
		k := &w.Kinds[kind]
		*k = api.LifecycleKind{
			Kind: kind.String(), Pending: uint64(len(s.m.Lifecycle.Timers[kind])), Done: acts.Done, Stale: acts.Stale, Failed: t.failed,
			Failures: t.failures,
		}
		if t.success != 0 {
			k.LastSuccessAt = new(t.success.API())
		}
		if t.err != nil {
			k.Error = t.err.Error()
		}
		at, there := s.m.Lifecycle.OldestDue(kind, now)
		if kind == machine.KindRetention { // it makes no one wait, so it does not count for the health
			at, there = s.Worker.overdue.since()
		}
		if there {
			lag := max(now.Sub(at), 0)
			k.LagSeconds, w.Lag = lag.Seconds(), max(w.Lag, lag)
		}
	}
	w.Recount = s.Recounts.state()
	w.Suspects = Suspects{api.Suspects{
		Shelved: uint64(s.m.Suspects.Shelved), Lent: uint64(s.m.Suspects.Lent),
		Quota: uint64(s.m.Suspects.Quota(now)), Slots: s.m.Suspects.LiveSlots(now),
	}, uint64(s.m.Suspects.Ready)}
	w.Kinds[machine.KindSuspect].Pending, w.Kinds[machine.KindForward].Pending = w.Suspects.Shelved, uint64(s.parts.letters.Outbox.Len())
	w.Kinds[machine.KindExpiry].Pending, w.Kinds[machine.KindSweep].Pending = uint64(s.m.Holds.Len()), s.m.Stats.Orphaned
	w.Kinds[machine.KindRetention].Pending = s.Worker.retained()
	for a := range s.Worker.parked {
		w.Kinds[a.Kind].Parked++
	}
	return w
}

// parkedActions are those that are left alone after they failed again and again, or broke off: the oldest first. The mutex is held.
func (w *Worker) parkedActions() []api.ParkedAction {
	list := []api.ParkedAction{}
	for _, a := range slices.SortedFunc(maps.Keys(w.parked), func(a, b machine.Action) int {
		return cmp.Or(cmp.Compare(w.parked[a].Since, w.parked[b].Since), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	}) {
		p := w.parked[a]
		one := api.ParkedAction{Kind: a.Kind.String(), Schedule: a.Schedule, Error: p.Err.Error(), Since: p.Since.API()}
		switch {
		case a.Rule != 0:
			one.Rule = strconv.FormatUint(uint64(a.Rule), 10)
		case a.Submission != 0:
			one.Submission = a.Submission.String()
		}
		if a.Kind.OfChunks() {
			one.Index = &a.Index
		}
		list = append(list, one)
	}
	return list
}

// lagMost is the lag of the life-cycle worker beyond which the shard is not ready.
const lagMost = 30 * time.Second

var errDegraded = &queue.Error{Code: queue.CodeUnavailable, Message: "The queue's life-cycle worker cannot write to " +
	"the disk: nothing new is taken in until it can. Complete, fail, extend and release go on. Ask again in a " +
	"moment; the server's log says what is wrong."}

// takesIn says whether inserts can be served. The mutex is held.
func (s *Shard) takesIn() error {
	if err := s.usable(); err != nil || !s.Worker.degraded {
		return err
	}
	return errDegraded
}

// handsOut says whether reserves can be served: also by a degraded shard, as long as what was handed out comes back in time.
// The mutex is held.
func (s *Shard) handsOut(now queue.Time) error {
	if err := s.usable(); err != nil || !s.Worker.degraded || s.Worker.lag(now) < s.m.Settings.ReservationTimeout {
		return err
	}
	return errDegraded
}

// lag is since when the oldest action is due that is not done yet. The mutex is held.
func (w *Worker) lag(now queue.Time) (most time.Duration) {
	for kind := range machine.KindCount {
		if at, there := w.s.m.Lifecycle.OldestDue(kind, now); there {
			most = max(most, now.Sub(at))
		}
	}
	return most
}

// Health is nil while the shard serves all calls, and its life-cycle worker keeps up.
func (s *Shard) Health() error {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.lost, s.takesIn(), s.disk.failing()); err != nil {
		return err
	}
	if lag := s.Worker.lag(now); lag > lagMost {
		return fmt.Errorf("the life-cycle worker is %s behind; up to %s is well", lag.Round(time.Second), lagMost)
	}
	return nil
}
