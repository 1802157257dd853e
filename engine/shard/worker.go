package shard

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Worker is the life-cycle worker: it does what time demands.
type Worker struct {
	s       *Shard
	pass    locks.Mutex[inPass] // one pass at a time
	running atomic.Bool
	passes  sync.WaitGroup

	// The shard's mutex guards the following.
	kinds    [machine.KindCount]trouble
	parked   map[machine.Action]*machine.Parking
	slices   uint64
	degraded bool // some kind fails again and again: nothing new is taken in
	// how often what is tried alone failed since it last came through: schedules, large rules, letters that cannot be
	// read
	blamed  map[machine.Action]int
	overdue overdue
}

// Nudge has the worker pass in the background, unless it is at it.
func (w *Worker) Nudge() {
	s := w.s
	if !w.running.CompareAndSwap(false, true) {
		return
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		w.passes.Add(1)
	}
	s.mu.Unlock()
	if closed {
		return
	}
	go func() {
		defer w.passes.Done()
		defer w.running.Store(false)
		w.Tick()
	}()
}

// Tick is one pass: it does everything that is due and returns when that is on the disk or has failed. What failed is tried
// again by a later pass.
func (w *Worker) Tick() {
	s := w.s
	w.pass.Lock()
	defer w.pass.Unlock()
	var slots [machine.TickMost]uint32
	for more := true; more; {
		more = w.common(slots[:])
		for kind := range machine.KindCount {
			more = w.alone(kind, slots[:]) || more
		}
	}
	for s.Rules.endLarge() {
	}
	for s.Schedules.emit() {
	}
	s.Recounts.runDue()
}

// slice is what one slice did: how many actions of each kind were looked at, and how many of them are on their way to the disk.
type slice struct {
	stepped         [machine.KindCount]bool
	looked, encoded [machine.KindCount]int
	now             queue.Time
	last            machine.Action
	commit          *commit.Commit // it waits for this one; nil: nothing is on its way
	panicked        bool           // an action broke off
}

// common makes a slice of all kinds that are not under suspicion, beside what clients do. more: something may be left, or follow
// from what is on the disk now.
func (w *Worker) common(slots []uint32) (more bool) {
	s := w.s
	var done slice
	s.mu.Lock()
	if !w.begin(&done) {
		s.mu.Unlock()
		return false
	}
	for kind := range machine.KindCount {
		t := &w.kinds[kind]
		if !kind.Apart() && t.most() == machine.TickMost && t.may(done.now) {
			w.step(&done, kind, machine.TickMost, slots)
			more = more || done.looked[kind] == machine.TickMost
		}
	}
	if !done.panicked {
		s.waiters.serve(done.now)
	}
	s.mu.Unlock()
	return w.conclude(&done) && (more || done.commit != nil)
}

// alone makes a slice of a kind that is under suspicion, in a batch that no one else is in.
func (w *Worker) alone(kind machine.Kind, slots []uint32) (more bool) {
	s := w.s
	t := &w.kinds[kind]
	s.mu.Lock()
	done := slice{}
	if kind.Apart() || t.most() == machine.TickMost || !w.begin(&done) || !t.may(done.now) {
		s.mu.Unlock()
		return false
	}
	most := t.most()
	s.writer.seal()
	w.step(&done, kind, most, slots)
	s.writer.seal()
	if !done.panicked {
		s.waiters.serve(done.now)
	}
	s.mu.Unlock()
	return w.conclude(&done) && (done.looked[kind] == most || done.commit != nil)
}

// begin says whether a slice can be made now. The mutex is held.
func (w *Worker) begin(done *slice) bool {
	s := w.s
	done.now = s.now()
	s.m.Seed(s.options.Seed())
	return s.usable() == nil
}

// step does actions of one kind. An action that panics is parked, and with it goes the state that it may have left half
// changed: the open batch is refused, and the shard reloads. The mutex is held.
func (w *Worker) step(done *slice, kind machine.Kind, most int, slots []uint32) {
	s := w.s
	if done.panicked {
		return
	}
	before := s.m.Batch.Ops()
	defer func() {
		if p := recover(); p != nil {
			w.breakOff(done, fmt.Errorf("the action broke off: %v", p))
		}
	}()
	done.stepped[kind] = true
	done.looked[kind] = w.stepKind(kind, done.now, most, slots)
	done.last = s.m.Lifecycle.Acting
	if n := s.m.Batch.Ops() - before; n > 0 {
		done.encoded[kind], done.commit = n, s.m.Batch.Commit
	}
}

// stepKind does what is due of one kind, and says how many actions that were: with `most`, there may be more.
func (w *Worker) stepKind(kind machine.Kind, now queue.Time, most int, slots []uint32) (n int) {
	s := w.s
	s.m.Lifecycle.Acting = machine.Action{Kind: kind}
	more := false
	switch kind {
	case machine.KindLost:
		before := s.m.Batch.Ops()
		more = w.lose(now, most)
		n = s.m.Batch.Ops() - before
	case machine.KindGrace:
		more = s.endGrace(now, most)
	default:
		return s.m.Lifecycle.Step(kind, now, most, slots, w.parked)
	}
	if more {
		return most
	}
	return min(n, most-1)
}

// breakOff is what follows when the action that the machine is at panicked. The mutex is held.
func (w *Worker) breakOff(done *slice, err error) {
	s := w.s
	a := s.m.Lifecycle.Acting
	s.options.Logger.Error("a life-cycle action panicked; the queue reloads", "queue", s.options.Queue, "kind", a.Kind,
		"submission", a.Submission, "index", a.Index, "error", err, "stack", string(debug.Stack()))
	done.panicked = true
	if !w.park(a, err, done.now) {
		w.kinds[a.Kind].fail(err, done.now, s.options.Seed())
	}
	s.m.Encode(done.now) // so that the writer takes the batch
	s.m.Batch.Refused, s.broken = err, err
	done.commit = s.m.Batch.Commit
}

// conclude waits for a slice to be on the disk and notes what came of it.
func (w *Worker) conclude(done *slice) (ok bool) {
	s := w.s
	var err error
	if done.commit != nil {
		err = s.writer.wait(commit.Set{First: done.commit})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !done.panicked {
		w.judge(done, err)
	}
	return err == nil
}
