package shard

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// This file is the life-cycle worker's side of recounts: when slices are made, and what is told of drifts.

// DefaultRecountEvery is how often everything that is kept as counters is recounted.
const DefaultRecountEvery = time.Hour

const (
	// recountMost is how many steps one slice has: a submission, a value, a try or a reservation each. It is some 100 µs.
	recountMost = 500
	// recountSlices bounds how many slices one pass of the worker makes: with 20 passes a second, 40,000 steps.
	recountSlices = 4
	// recountFirst is how long after the start the first round begins, so that it is not in the way of what waits for the start.
	recountFirst = time.Minute
	// loggedDrifts bounds how many drifts of one round are logged one by one.
	loggedDrifts = 20
)

// recounting is what the worker keeps of recounts.
type recounting struct {
	Recount
	opened queue.Time // the shard
	began  queue.Time // the round under way, or the last one; 0: none yet
	hurry  bool       // totals differed: the round that tells whether they do is made at once
	logged int        // drifts of this round
}

// recountDue makes the slices of recounts that are due: they are spread over RecountEvery, as many as keep pace.
func (s *Shard) recountDue() {
	for range recountSlices {
		now := s.now()
		s.mu.Lock()
		due := s.usable() == nil && s.recountIsDue(now)
		b := (*batch)(nil)
		if due {
			_, b = s.recountSlice(recountMost, now)
		}
		s.mu.Unlock()
		if b != nil { // it broke off, and the shard reloads
			if err := s.wait(commits{first: b}); err != nil {
				return
			}
		}
		if !due {
			return
		}
	}
}

// recountIsDue says whether a slice is due. The mutex is held.
func (s *Shard) recountIsDue(now queue.Time) bool {
	w := &s.worker.recount
	every := s.options.RecountEvery
	switch {
	case every < 0 || w.Stopped:
		return false
	case w.began == 0: // a clock that was set back meanwhile only brings it forward
		return now.Sub(w.opened) >= min(recountFirst, every) || w.opened > now
	case w.began > now, w.hurry: // the clock was set back, or there is a suspicion
		return true
	case s.m.recount.part == recountIdle:
		return now.Sub(w.began) >= every
	}
	return float64(now.Sub(w.began)) >= s.m.recount.progress()*float64(every)
}

// Recount takes about `most` steps of the round under way, or begins one, whatever the pace, and says whether a round is over. For tests
// and for looking into trouble.
func (s *Shard) Recount(most int) (over bool, err error) {
	now := s.now()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return false, err
	}
	over, b := s.recountSlice(most, now)
	s.mu.Unlock()
	if b != nil {
		err = s.wait(commits{first: b})
	}
	return over, err
}

// recountSlice makes a slice. One that panics is the last: what it may have left half changed goes with the state, as the shard
// reloads; b is the batch to wait for then. The mutex is held.
func (s *Shard) recountSlice(most int, now queue.Time) (over bool, b *batch) {
	w := &s.worker.recount
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("the recount broke off: %v", p)
			s.options.Logger.Error("a recount of counters panicked; the queue reloads, and makes "+
				"none until the next start", "queue", s.options.Queue, "error", err, "stack", string(debug.Stack()))
			w.Stopped = true
			s.m.encode(now) // so that the writer takes the batch
			s.m.batch.refused, s.broken = err, err
			b = s.m.batch
		}
	}()
	c := &s.m.recount
	if c.part == recountIdle || w.began > now {
		w.began = now
	}
	before := w.Drifted()
	c.compared = func(scope RecountScope, n int) { w.Checked[scope] += uint64(n) }
	c.skipped = func(reason RecountSkip, n int) { w.Skipped[reason] += uint64(n) }
	c.judged = func(_ Counter, d *Drift) { s.judgedDrift(d, now) }
	if _, over = s.m.recount.slice(most); over {
		w.Rounds++
		w.Last, w.logged = now, 0
		w.hurry = len(c.suspects) > 0
	}
	if w.Drifted() > before {
		s.serve(now)
	}
	return over, nil
}

// judgedDrift counts a drift and tells of it; nil is a total that differs for the first time. The mutex is held.
func (s *Shard) judgedDrift(d *Drift, now queue.Time) {
	w := &s.worker.recount
	if d == nil {
		w.Suspected++
		return
	}
	d.At = now
	w.Drifts[d.Counter]++
	w.Newest = d
	if w.logged++; w.logged > loggedDrifts {
		return
	}
	attrs := []any{"queue", s.options.Queue, "scope", d.Counter.Scope().String(), "counter", d.Counter.String()}
	switch d.Counter.Scope() {
	case OfSubmission:
		attrs = append(attrs, "submission", d.Submission.String())
	case OfValue:
		attrs = append(attrs, "key", d.Entry.Key, "value", d.Entry.Value.String())
	}
	s.options.Logger.Error("a kept counter was wrong", append(attrs, "kept", d.Kept, "recounted", d.Found, "corrected", d.Corrected)...)
	if w.logged == loggedDrifts {
		s.options.Logger.Error("more counters that are wrong are only counted until the recount is through", "queue", s.options.Queue)
	}
}

// recounted is how far recounts have come. The mutex is held.
func (s *Shard) recounted() Recount {
	r := s.worker.recount.Recount
	if s.m != nil {
		r.Progress = s.m.recount.progress()
	}
	if s.options.RecountEvery > 0 {
		r.Every = queue.Time(s.options.RecountEvery.Milliseconds())
	}
	return r
}
