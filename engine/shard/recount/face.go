package recount

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// This file decides when slices are made, and reports drifts.

// DefaultEvery is how often all counters are recounted.
const DefaultEvery = time.Hour

const (
	// SliceMost is how many steps one slice has: a submission, a value, a try or a
	// reservation each. It is some 100 µs.
	SliceMost = 500
	// passSlices bounds how many slices one pass of the worker makes: with 20 passes a
	// second, 40,000 steps.
	passSlices = 4
	// First is how long after the start the first round begins, so that it does not delay calls that wait for the
	// start.
	First = time.Minute
	// loggedDrifts bounds how many drifts of one round are logged one by one.
	loggedDrifts = 20
)

// Recounts are the recounts of a shard, as its worker and its callers see them. They outlive a reload.
type Recounts struct {
	shell.Door[*Part]
	State  // the shard's mutex guards it
	every  time.Duration
	opened queue.Time // the shard
	began  queue.Time // the round under way, or the last one; 0: none yet
	hurry  bool       // totals differed: the next round, which decides about them, begins at once
	logged int        // drifts of this round
}

// Face is the recounts of a shard that is opened now. every is how long one round takes,
// and how often one is made; below 0: none is.
func Face(door shell.Door[*Part], every time.Duration) *Recounts {
	r := &Recounts{Door: door, every: every, opened: door.Now()}
	r.State.Every = queue.Time(max(every, 0).Milliseconds())
	return r
}

// RunDue makes the slices that are due: they are spread evenly over the time of a round.
func (r *Recounts) RunDue() {
	for range passSlices {
		due, broke := false, (*commit.Commit)(nil)
		err := r.Locked(func(_ *machine.Machine, now queue.Time) error {
			if due = r.due(now); due {
				_, broke = r.slice(SliceMost, now)
			}
			return nil
		})
		if broke != nil {
			err = r.Wait(commit.Set{First: broke})
		}
		if err != nil || !due {
			return
		}
	}
}

// due says whether a slice is due. The mutex is held.
func (r *Recounts) due(now queue.Time) bool {
	switch {
	case r.every < 0 || r.Stopped:
		return false
	case r.began == 0: // a clock that was set back meanwhile only brings it forward
		return now.Sub(r.opened) >= min(First, r.every) || r.opened > now
	case r.began > now, r.hurry: // the clock was set back, or there is a suspicion
		return true
	case r.Part().Idle():
		return now.Sub(r.began) >= r.every
	}
	return float64(now.Sub(r.began)) >= r.Part().Progress()*float64(r.every)
}

// Step takes about `most` steps of the round under way, or begins one, whatever the pace,
// and says whether a round is over. For tests and for looking into trouble.
func (r *Recounts) Step(most int) (over bool, err error) {
	var broke *commit.Commit
	err = r.Locked(func(_ *machine.Machine, now queue.Time) error {
		over, broke = r.slice(most, now)
		return nil
	})
	if broke != nil {
		err = r.Wait(commit.Set{First: broke})
	}
	return over, err
}

// slice makes a slice. After a panic it is the last one: the shard reloads, because the state may be half changed;
// broke is the commit to wait for then. The mutex is held.
func (r *Recounts) slice(most int, now queue.Time) (over bool, broke *commit.Commit) {
	defer func() {
		if fault := recover(); fault != nil {
			err := fmt.Errorf("the recount broke off: %v", fault)
			r.Queue.Logger.Error("a recount of counters panicked; the queue reloads, and makes none until the next "+
				"start", "error", err, "stack", string(debug.Stack()))
			r.Stopped = true
			broke = r.Distrust(err, now)
		}
	}()
	part := r.Part()
	if part.Idle() || r.began > now {
		r.began = now
	}
	before := r.Drifted()
	part.Compared = func(scope Scope, n int) { r.Checked[scope] += uint64(n) }
	part.Skipped = func(reason Skip, n int) { r.State.Skipped[reason] += uint64(n) }
	part.Judged = func(_ Counter, d *Drift) { r.judged(d, now) }
	if _, over = part.Slice(most); over {
		r.Rounds++
		r.Last, r.logged = now, 0
		r.hurry = len(part.Suspects) > 0
	}
	if r.Drifted() > before {
		r.Wake(now)
	}
	return over, nil
}

// judged counts a drift and reports it; nil is a total that differs for the first time. The mutex is held.
func (r *Recounts) judged(d *Drift, now queue.Time) {
	if d == nil {
		r.Suspected++
		return
	}
	d.At = now
	r.Drifts[d.Counter]++
	r.Newest = d
	if r.logged++; r.logged > loggedDrifts {
		return
	}
	attrs := []any{"scope", d.Counter.Scope().String(), "counter", d.Counter.String()}
	switch d.Counter.Scope() {
	case OfSubmission:
		attrs = append(attrs, "submission", d.Submission.String())
	case OfValue:
		attrs = append(attrs, "key", d.Entry.Key, "value", d.Entry.Value.Quoted())
	}
	r.Queue.Logger.Error("a kept counter was wrong",
		append(attrs, "kept", d.Kept, "recounted", d.Found, "corrected", d.Corrected)...)
	if r.logged == loggedDrifts {
		r.Queue.Logger.Error("more counters that are wrong are only counted until the recount is through")
	}
}

// Far is the progress of recounts. The mutex is held.
func (r *Recounts) Far() State {
	s := r.State
	s.Progress = r.Part().Progress()
	return s
}
