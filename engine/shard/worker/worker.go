// Package worker is the life-cycle worker of a shard: it runs the timed work, a slice at a time, beside the calls of
// clients.
package worker

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/trouble"
)

// Worker is the life-cycle worker of one shard.
//
//	Tick: ─► common: all kinds that behave, in the batch that clients share ─┐
//	      ─► alone: each suspected kind, in a batch of its own               ├─► wait for the disk ─► Judge
//	      ─► again while something was left                                  ┘
//	      ─► chores: work that takes the mutex several times
//
// One pass runs at a time (pass). A slice waits for its commit before the next is made, so however
// much is due, a client waits for one slice at most. pass comes before the shard's mutex.
type Worker struct {
	shell.Shell
	Trouble *trouble.Book // the shard's mutex guards it
	queue   shell.Queue
	means   Means

	pass    locks.Mutex[shell.InPass] // one pass at a time
	running atomic.Bool
	passes  sync.WaitGroup
}

// Means has the dependencies of the worker beside its shard.
type Means struct {
	// Seal ends the open batch: later ops are in another one. The mutex is held.
	Seal func()
	// Steps do the kinds that are not the machine's alone: at most `most` actions. With
	// `most`, there may be more. The mutex is held.
	Steps map[machine.Kind]func(m *machine.Machine, now queue.Time, most int) (n int)
	// Chores are the actions that take the mutex several times, and wait. They run in this order.
	Chores []func()
}

// New is the worker of a shard. It does nothing by itself: Tick and Nudge start its passes.
func New(s shell.Shell, q shell.Queue, book *trouble.Book, means Means) *Worker {
	return &Worker{Shell: s, Trouble: book, queue: q, means: means}
}

// Nudge starts a pass in the background, unless one is running, or the shard cannot work.
func (w *Worker) Nudge() {
	if !w.running.CompareAndSwap(false, true) {
		return
	}
	err := w.Locked(func(*machine.Machine, queue.Time) error {
		w.passes.Add(1)
		return nil
	})
	if err != nil {
		w.running.Store(false)
		return
	}
	go func() {
		defer w.passes.Done()
		defer w.running.Store(false)
		w.Tick()
	}()
}

// Finish waits for the passes in the background. It is called when the shard serves no one
// any more, so none begins.
func (w *Worker) Finish() { w.passes.Wait() }

// Tick is one pass: it does everything that is due and returns when that is on the disk or has failed. A later pass
// tries failed actions again.
func (w *Worker) Tick() {
	w.pass.Lock()
	defer w.pass.Unlock()
	var slots [machine.TickMost]uint32
	for more := true; more; {
		more = w.common(slots[:])
		for kind := range machine.KindCount {
			more = w.alone(kind, slots[:]) || more
		}
	}
	for _, chore := range w.means.Chores {
		chore()
	}
}

// slice is the result of one slice.
type slice struct {
	kinds    [machine.KindCount]trouble.Slice
	now      queue.Time
	commit   *commit.Commit // it waits for this one; nil: nothing is on its way
	panicked bool           // an action broke off
}

// common makes a slice of all kinds that are not under suspicion, in the batch of the clients. more: actions may be
// left, or follow from those that are now on the disk.
func (w *Worker) common(slots []uint32) (more bool) {
	var done slice
	err := w.Locked(func(m *machine.Machine, now queue.Time) error {
		w.begin(m, &done, now)
		for kind := range machine.KindCount {
			t := &w.Trouble.Kinds[kind]
			if !kind.Apart() && t.Most() == machine.TickMost && t.May(now) {
				w.step(m, &done, kind, machine.TickMost, slots)
				more = more || done.kinds[kind].Looked == machine.TickMost
			}
		}
		w.end(&done)
		return nil
	})
	return err == nil && w.conclude(&done) && (more || done.commit != nil)
}

// alone makes a slice of a kind that is under suspicion, in a batch of its own.
func (w *Worker) alone(kind machine.Kind, slots []uint32) (more bool) {
	done, made, most := slice{}, false, 0
	err := w.Locked(func(m *machine.Machine, now queue.Time) error {
		t := &w.Trouble.Kinds[kind]
		if most = t.Most(); kind.Apart() || most == machine.TickMost || !t.May(now) {
			return nil
		}
		made = true
		w.begin(m, &done, now)
		w.means.Seal()
		w.step(m, &done, kind, most, slots)
		w.means.Seal()
		w.end(&done)
		return nil
	})
	return err == nil && made && w.conclude(&done) && (done.kinds[kind].Looked == most || done.commit != nil)
}

func (w *Worker) begin(m *machine.Machine, done *slice, now queue.Time) {
	done.now = now
	m.Seed(w.queue.Seed())
}

// end hands out the chunks that the slice made available. The mutex is held.
func (w *Worker) end(done *slice) {
	if !done.panicked {
		w.Wake(done.now)
	}
}

// step does actions of one kind. An action that panics is parked. It may have left the state half changed, so the open
// batch is refused, and the shard reloads. The mutex is held.
func (w *Worker) step(m *machine.Machine, done *slice, kind machine.Kind, most int, slots []uint32) {
	if done.panicked {
		return
	}
	before := m.Batch.Ops()
	defer func() {
		if p := recover(); p != nil {
			w.breakOff(m, done, fmt.Errorf("the action broke off: %v", p))
		}
	}()
	of := &done.kinds[kind]
	of.Stepped = true
	m.Lifecycle.Acting = machine.Action{Kind: kind}
	if step := w.means.Steps[kind]; step != nil {
		of.Looked = step(m, done.now, most)
	} else {
		of.Looked = m.Step(kind, done.now, most, slots, w.Trouble.Parked)
	}
	of.Last = m.Lifecycle.Acting
	if n := m.Batch.Ops() - before; n > 0 {
		of.Encoded, done.commit = n, m.Batch.Commit
	}
}

// breakOff handles the panic of the action that the machine is doing. The mutex is held.
func (w *Worker) breakOff(m *machine.Machine, done *slice, err error) {
	a := m.Lifecycle.Acting
	w.queue.Logger.Error("a life-cycle action panicked; the queue reloads", "kind", a.Kind, "submission", a.Submission,
		"index", a.Index, "error", err, "stack", string(debug.Stack()))
	done.panicked = true
	if !w.Trouble.Park(a, err, done.now) {
		w.Trouble.Fail(a.Kind, err, done.now)
	}
	done.commit = w.Distrust(err, done.now)
}

// conclude waits for a slice to be on the disk and records its result.
func (w *Worker) conclude(done *slice) (ok bool) {
	var err error
	if done.commit != nil {
		err = w.Wait(commit.Set{First: done.commit})
	}
	if done.panicked {
		return err == nil
	}
	w.Look(func(*machine.Machine) {
		for kind := range machine.KindCount {
			w.Trouble.Judge(kind, &done.kinds[kind], err, done.now)
		}
		w.Trouble.Assess()
	})
	return err == nil
}

// Retry lets the next pass try all parked actions again, and says how many. Pauses after failures end.
func (w *Worker) Retry() (n int) {
	w.Look(func(m *machine.Machine) { n = w.Trouble.Retry(m) })
	return n
}

// Lag is since when the oldest action is due that is not done yet; 0: nothing is overdue.
// The mutex is held.
func Lag(m *machine.Machine, now queue.Time) (most time.Duration) {
	for kind := range machine.KindCount {
		if at, there := m.OldestDue(kind, now); there {
			most = max(most, now.Sub(at))
		}
	}
	return most
}
