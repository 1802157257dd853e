package shard

import (
	"errors"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// This file is what the life-cycle worker does about failures. A slice whose commit failed has done nothing, and is made again
// later. When a kind's slices go on failing, its next ones are smaller and in batches of their own, so that the action that is
// to blame is found by bisecting while the others, and everybody else's calls, get through; found, it is parked: left alone until
// an operator has it tried again.

// What the worker makes of failures.
const (
	degradedAfter = 3 // slices of one kind that failed in a row, after which nothing new is taken in
	parkAfter     = 2 // failures of one action alone, in a row, after which it is parked

	firstPause  = 500 * time.Millisecond
	longestWait = 5 * time.Second // no kind sleeps longer, whatever it believes
	pauseFactor = 1.5
	pauseJitter = 0.2
)

// trouble is how a kind has fared lately.
type trouble struct {
	limit    int        // of actions in a slice while what fails is looked for; 0: tickMost
	failures int        // in a row
	alone    int        // of them, those of the same single action
	again    queue.Time // no slice before
	err      error      // of the last failure; nil after a success
	failed   uint64     // slices, since the start
	success  queue.Time // of the last slice that came through; 0: none yet
}

// most is how many actions the next slice has.
func (t *trouble) most() int {
	if t.limit == 0 {
		return machine.TickMost
	}
	return t.limit
}

// may says whether the pause after the last failure is over. A clock that was set back does not make it longer.
func (t *trouble) may(now queue.Time) bool {
	return t.again <= now || t.again > now.Add(longestWait)
}

// fail notes a failed slice. seed is for the jitter.
func (t *trouble) fail(err error, now queue.Time, seed uint64) {
	t.failures++
	t.failed++
	t.err = err
	pause := float64(firstPause)
	for n := 1; n < t.failures && pause < float64(longestWait); n++ {
		pause *= pauseFactor
	}
	jitter := 1 - pauseJitter + 2*pauseJitter*float64(seed>>11)/(1<<53)
	t.again = now.Add(time.Duration(min(pause*jitter, float64(longestWait))))
}

// narrow has the next slices be smaller, and says whether there is only one action left that can be to blame, which has had
// its tries.
func (t *trouble) narrow(looked int) (blamed bool) {
	if looked > 1 {
		t.limit, t.alone = looked/2, 0
		return false
	}
	t.limit = 1
	t.alone++
	return t.alone > parkAfter
}

// pass notes a slice that came through with so many actions looked at. When nothing is left the search for what fails is over.
func (t *trouble) pass(now queue.Time, looked int) {
	if looked < t.most() {
		t.limit = 0
	}
	if looked > 0 {
		t.success = now
	}
	t.failures, t.alone, t.again, t.err = 0, 0, 0, nil
}

// judge notes what came of a slice. The mutex is held.
func (w *Worker) judge(done *slice, err error) {
	for kind := range machine.KindCount {
		t := &w.kinds[kind]
		switch {
		case !done.stepped[kind]:
		case err == nil && t.limit > 0 && done.looked[kind] > 0 && done.encoded[kind] == 0:
			// what was looked at needed no commit: that says nothing about the one that fails
		case err == nil:
			t.pass(done.now, done.looked[kind])
			if done.looked[kind] > 0 {
				w.slices++
			}
		case done.encoded[kind] > 0:
			t.fail(err, done.now, w.s.options.Seed())
			if !errors.Is(err, journal.ErrFull) && t.narrow(done.looked[kind]) { // of a full disk no action is guilty
				w.park(done.last, err, done.now)
			}
		}
	}
	w.assess()
}

// assess finds out whether the shard is degraded. The mutex is held.
func (w *Worker) assess() {
	s := w.s
	was := w.degraded
	w.degraded = false
	for kind := range machine.KindCount {
		if t := &w.kinds[kind]; !kind.Housekeeping() && t.failures >= degradedAfter {
			w.degraded = true
		}
	}
	if is := w.degraded; is != was {
		s.options.Logger.Warn("the life-cycle worker's commits fail again and again, or no longer", "queue",
			s.options.Queue, "degraded", is)
	}
}

// parkedMost bounds how many actions are parked. Beyond it they are tried again and again.
const parkedMost = 10_000

// park leaves an action alone from now on. false: there are too many already, or it is not about anything. The mutex is held.
func (w *Worker) park(a machine.Action, err error, now queue.Time) bool {
	s := w.s
	if len(w.parked) >= parkedMost || !a.About() {
		return false
	}
	t := &w.kinds[a.Kind]
	t.failures, t.alone, t.again = 0, 0, 0
	t.limit = machine.TickMost / 2 // there may be more of its kind
	w.parked[a] = &machine.Parking{Err: err, Since: now}
	s.options.Logger.Error("a life-cycle action is parked; have it tried again when its cause is fixed", "queue", s.options.Queue,
		"kind", a.Kind, "submission", a.Submission, "index", a.Index, "rule", a.Rule, "schedule", a.Schedule, "error", err)
	return true
}

// blame notes that an action failed that no one shared its batch with, and parks it if it did so again and again. The mutex is held.
func (w *Worker) blame(a machine.Action, err error, now queue.Time) {
	if errors.Is(err, journal.ErrFull) {
		return // no action is guilty of that
	}
	if w.blamed[a]++; w.blamed[a] > parkAfter {
		delete(w.blamed, a)
		w.park(a, err, now)
	}
}

// unpark has an action looked at again, as what it is about was changed by an operator. The mutex is held.
func (w *Worker) unpark(a machine.Action) {
	if w.parked[a] != nil {
		delete(w.parked, a)
		w.s.m.LookAgain(a)
	}
}

// Retry has all parked actions tried again, with the next pass, and says how many. Pauses after failures end.
func (w *Worker) Retry() (n int) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range w.parked {
		delete(w.parked, a)
		n++
		s.m.LookAgain(a)
	}
	for kind := range machine.KindCount {
		w.kinds[kind].again = 0
	}
	return n
}
