package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Work is how the life-cycle worker is doing.
type Work struct {
	Lag      time.Duration // since when the oldest action is due that is not done yet; 0: nothing is overdue
	Degraded bool          // its commits fail again and again: nothing new is taken in
	Slices   uint64        // that came through, since the server's start
	Sweeping uint64        // reservations of ended submissions that are still to be removed
	Kinds    []KindWork    // every kind
	Suspects Suspects
	Parked   []ParkedWork // actions that are left alone, the oldest first
	Grace    queue.Time   // until when the restart grace runs, 0: it is over
	Recount  Recount
}

// Suspects are the chunks whose last try burnt a reservation, and how many of them may be worked on beside other work.
type Suspects struct {
	Shelved uint64  // due, and held back
	Lent    uint64  // offered or held
	Ready   uint64  // of the lent, those that no one holds
	Quota   uint64  // of the lent, while there is other work
	Slots   float64 // live consumer slots, that the quota is a share of
}

// KindWork is how one kind is doing. The totals count from the server's start.
type KindWork struct {
	Kind        machine.Kind
	Pending     uint64 // entries that wait for their time
	Lag         time.Duration
	Done, Stale uint64 // actions that were done, and those that were not needed any more when their turn came
	Parked      uint64 // actions that are left alone now
	Failed      uint64 // slices
	Failures    int    // of them, in a row
	Error       string // of the last failure; "" after a success
	Success     queue.Time
}

// ParkedWork is an action that is left alone after it failed again and again, or broke off.
type ParkedWork struct {
	machine.Action
	Error string
	Since queue.Time
}

// Work tells how the life-cycle worker is doing.
func (s *Shard) Work() Work {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := Work{Grace: s.m.ValueLimits.Grace.End(), Degraded: s.Worker.degraded, Slices: s.Worker.slices,
		Sweeping: s.m.Stats.Orphaned, Kinds: make([]KindWork, machine.KindCount)}
	for kind := range machine.KindCount {
		t, acts := &s.Worker.kinds[kind], s.m.Stats.Acts[kind]
		k := &w.Kinds[kind]
		*k = KindWork{
			Kind: kind, Pending: uint64(len(s.m.Lifecycle.Timers[kind])), Done: acts.Done, Stale: acts.Stale, Failed: t.failed,
			Failures: t.failures, Success: t.success,
		}
		if t.err != nil {
			k.Error = t.err.Error()
		}
		if at, there := s.m.Lifecycle.OldestDue(kind, now); there {
			k.Lag = now.Sub(at)
			w.Lag = max(w.Lag, k.Lag)
		}
	}
	w.Recount = s.Recounts.state()
	w.Suspects = Suspects{
		Shelved: uint64(s.m.Suspects.Shelved), Lent: uint64(s.m.Suspects.Lent), Ready: uint64(s.m.Suspects.Ready),
		Quota: uint64(s.m.Suspects.Quota(now)), Slots: s.m.Suspects.LiveSlots(now),
	}
	w.Kinds[machine.KindSuspect].Pending, w.Kinds[machine.KindForward].Pending = w.Suspects.Shelved, uint64(s.parts.letters.Outbox.Len())
	w.Kinds[machine.KindExpiry].Pending, w.Kinds[machine.KindSweep].Pending = uint64(s.m.Holds.Len()), s.m.Stats.Orphaned
	for a, p := range s.Worker.parked {
		w.Kinds[a.Kind].Parked++
		w.Parked = append(w.Parked, ParkedWork{Action: a, Error: p.Err.Error(), Since: p.Since})
	}
	slices.SortFunc(w.Parked, func(a, b ParkedWork) int {
		if a.Since != b.Since {
			return int(a.Since - b.Since)
		}
		return strings.Compare(fmt.Sprint(a.Action), fmt.Sprint(b.Action))
	})
	return w
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
