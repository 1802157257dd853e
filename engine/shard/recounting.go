package shard

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/recount"
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

// Recounts are the worker's recounts of everything that is kept as counters.
type Recounts struct {
	s *Shard
	Recount
	opened queue.Time // the shard
	began  queue.Time // the round under way, or the last one; 0: none yet
	hurry  bool       // totals differed: the round that tells whether they do is made at once
	logged int        // drifts of this round
}

// runDue makes the slices of recounts that are due: they are spread over RecountEvery, as many as keep pace.
func (p *Recounts) runDue() {
	s := p.s
	for range recountSlices {
		now := s.now()
		s.mu.Lock()
		due := s.usable() == nil && p.due(now)
		var b *commit.Commit
		if due {
			_, b = p.slice(recountMost, now)
		}
		s.mu.Unlock()
		if b != nil { // it broke off, and the shard reloads
			if err := s.writer.wait(commit.Set{First: b}); err != nil {
				return
			}
		}
		if !due {
			return
		}
	}
}

// due says whether a slice is due. The mutex is held.
func (p *Recounts) due(now queue.Time) bool {
	s := p.s
	every := s.options.RecountEvery
	switch {
	case every < 0 || p.Stopped:
		return false
	case p.began == 0: // a clock that was set back meanwhile only brings it forward
		return now.Sub(p.opened) >= min(recountFirst, every) || p.opened > now
	case p.began > now, p.hurry: // the clock was set back, or there is a suspicion
		return true
	case s.parts.recount.Idle():
		return now.Sub(p.began) >= every
	}
	return float64(now.Sub(p.began)) >= s.parts.recount.Progress()*float64(every)
}

// Step takes about `most` steps of the round under way, or begins one, whatever the pace, and says whether a round is over. For tests
// and for looking into trouble.
func (p *Recounts) Step(most int) (over bool, err error) {
	err = p.s.writer.change(func(_ *machine.Machine, now queue.Time) (b *commit.Commit, _ error) {
		over, b = p.slice(most, now)
		return b, nil
	})
	return over, err
}

// slice makes a slice. One that panics is the last: what it may have left half changed goes with the state, as the shard
// reloads; b is the batch to wait for then. The mutex is held.
func (p *Recounts) slice(most int, now queue.Time) (over bool, b *commit.Commit) {
	s := p.s
	defer func() {
		if fault := recover(); fault != nil {
			err := fmt.Errorf("the recount broke off: %v", fault)
			s.options.Logger.Error("a recount of counters panicked; the queue reloads, and makes "+
				"none until the next start", "queue", s.options.Queue, "error", err, "stack", string(debug.Stack()))
			p.Stopped = true
			s.m.Encode(now) // so that the writer takes the batch
			s.m.Batch.Refused, s.broken = err, err
			b = s.m.Batch.Commit
		}
	}()
	c := s.parts.recount
	if c.Idle() || p.began > now {
		p.began = now
	}
	before := p.Drifted()
	c.Compared = func(scope recount.Scope, n int) { p.Checked[scope] += uint64(n) }
	c.Skipped = func(reason recount.Skip, n int) { p.Skipped[reason] += uint64(n) }
	c.Judged = func(_ recount.Counter, d *recount.Drift) { p.judged(d, now) }
	if _, over = c.Slice(most); over {
		p.Rounds++
		p.Last, p.logged = now, 0
		p.hurry = len(c.Suspects) > 0
	}
	if p.Drifted() > before {
		s.waiters.serve(now)
	}
	return over, nil
}

// judged counts a drift and tells of it; nil is a total that differs for the first time. The mutex is held.
func (p *Recounts) judged(d *recount.Drift, now queue.Time) {
	s := p.s
	if d == nil {
		p.Suspected++
		return
	}
	d.At = now
	p.Drifts[d.Counter]++
	p.Newest = d
	if p.logged++; p.logged > loggedDrifts {
		return
	}
	attrs := []any{"queue", s.options.Queue, "scope", d.Counter.Scope().String(), "counter", d.Counter.String()}
	switch d.Counter.Scope() {
	case recount.OfSubmission:
		attrs = append(attrs, "submission", d.Submission.String())
	case recount.OfValue:
		attrs = append(attrs, "key", d.Entry.Key, "value", d.Entry.Value.Quoted())
	}
	s.options.Logger.Error("a kept counter was wrong", append(attrs, "kept", d.Kept, "recounted", d.Found, "corrected", d.Corrected)...)
	if p.logged == loggedDrifts {
		s.options.Logger.Error("more counters that are wrong are only counted until the recount is through", "queue", s.options.Queue)
	}
}

// state is how far recounts have come. The mutex is held.
func (p *Recounts) state() Recount {
	s := p.s
	r := p.Recount
	if s.m != nil {
		r.Progress = s.parts.recount.Progress()
	}
	if s.options.RecountEvery > 0 {
		r.Every = queue.Time(s.options.RecountEvery.Milliseconds())
	}
	return r
}
