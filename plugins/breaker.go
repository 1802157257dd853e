package plugins

import (
	"sync"
	"time"
)

// The states of a breaker, as people and metrics read them.
const (
	breakerClosed      = "closed"
	breakerOpen        = "open"
	breakerHalfOpen    = "half_open" // its time is over: one batch is tried
	breakerThrottled   = "throttled" // open because the plugin used more than its share of the processor
	breakerQuarantined = "quarantined"
	breakerHeld        = "held"     // an operator took the plugin out of use
	breakerStarting    = "starting" // nothing failed: its sandbox is not ready yet
)

// breaker keeps a version with its configuration out of use after faults.
type breaker struct {
	limits *Limits
	mu     sync.Mutex
	circuit
}

// circuit is the state of a breaker, under its lock.
type circuit struct {
	faults    []time.Time   // the last ones, at most limits.Faults
	openings  []time.Time   // the last ones, at most limits.Quarantine
	until     time.Time     // open until then; zero: closed
	opened    time.Time     // the last time, for whatever reason
	wait      time.Duration // how long then
	reason    string
	throttled bool
	trial     bool // the one batch of half-open runs
	over      bool // quarantined
}

// ready says whether a batch would be let through. The clock is only asked when it matters: it takes as long as some candidates.
func (b *breaker) ready(now func() time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.over && (b.until.IsZero() || !b.trial && !now().Before(b.until))
}

// enter lets a batch through, or not. After true comes leave.
func (b *breaker) enter(now func() time.Time) (trial, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return false, false
	case b.until.IsZero():
		return false, true
	case b.trial || now().Before(b.until):
		return false, false
	}
	b.trial = true
	return true, true
}

// verdict is how a batch ended, for a breaker.
type verdict int

const (
	wentWell verdict = iota
	faulted
	unknown // it was not tried, or stopped from outside
)

// leave says how a batch ended. quarantined is true for the fault that was one too many.
func (b *breaker) leave(now time.Time, trial bool, v verdict, reason string) (opened, quarantined bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		b.trial = false
	}
	switch {
	case b.over || v == unknown:
		return false, false
	case v == wentWell:
		if trial {
			b.until, b.reason, b.throttled, b.faults = time.Time{}, "", false, b.faults[:0]
		}
		return false, false
	case trial:
		return b.open(now, reason, false)
	}
	b.faults = recent(append(b.faults, now), now, b.limits.FaultWindow, b.limits.Faults)
	if len(b.faults) < b.limits.Faults || !b.until.IsZero() {
		return false, false // batches that began before it opened end after
	}
	return b.open(now, reason, false)
}

// failed says that the start of a sandbox failed, which counts as a batch does.
func (b *breaker) failed(now time.Time, reason string) (opened, quarantined bool) {
	b.mu.Lock()
	halfOpen := !b.until.IsZero() && !b.trial && !now.Before(b.until)
	b.mu.Unlock()
	return b.leave(now, halfOpen, faulted, reason)
}

// throttle opens because of too much processor time, which counts for no quarantine.
func (b *breaker) throttle(now time.Time, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && (b.until.IsZero() || !now.Before(b.until)) {
		b.open(now, reason, true)
	}
}

// open opens the breaker: for longer each time, from the beginning again when it has been well for as long as a quarantine counts.
func (b *breaker) open(now time.Time, reason string, throttled bool) (opened, quarantined bool) {
	wait := b.limits.OpenFirst
	if !b.opened.IsZero() && now.Sub(b.opened) < b.limits.QuarantineTime {
		wait = min(2*b.wait, b.limits.OpenLongest)
	}
	b.opened, b.wait, b.until = now, wait, now.Add(wait)
	b.reason, b.throttled, b.faults = reason, throttled, b.faults[:0]
	if throttled {
		return true, false
	}
	b.openings = recent(append(b.openings, now), now, b.limits.QuarantineTime, b.limits.Quarantine)
	b.over = len(b.openings) >= b.limits.Quarantine
	return true, b.over
}

// reset closes it and forgets everything.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.circuit = circuit{}
}

// show is its state, why, and until when.
func (b *breaker) show(now time.Time) (state, reason string, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return breakerQuarantined, b.reason, time.Time{}
	case b.until.IsZero():
		return breakerClosed, "", time.Time{}
	case !now.Before(b.until):
		return breakerHalfOpen, b.reason, b.until
	case b.throttled:
		return breakerThrottled, b.reason, b.until
	}
	return breakerOpen, b.reason, b.until
}

// recent drops what is older than window, and the oldest beyond most.
func recent(times []time.Time, now time.Time, window time.Duration, most int) []time.Time {
	first := max(0, len(times)-most)
	for first < len(times) && now.Sub(times[first]) > window {
		first++
	}
	return append(times[:0], times[first:]...)
}

const shareSlots = 10

// share is the processor time of a plugin over a window that moves, in slots of a tenth of it.
type share struct {
	mu    sync.Mutex
	slot  time.Duration
	used  [shareSlots]time.Duration
	last  int64 // number of the slot that is filled now
	total time.Duration
}

func newShare(window time.Duration) *share { return &share{slot: max(window/shareSlots, 1)} }

// add counts time that was used now, and gives the share of one core over the window.
func (s *share) add(now, used time.Duration) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forward(now)
	s.used[s.last%shareSlots] += used
	s.total += used
	return float64(s.total) / float64(shareSlots*s.slot)
}

// of is the share now.
func (s *share) of(now time.Duration) float64 { return s.add(now, 0) }

func (s *share) forward(now time.Duration) {
	number := int64(now / s.slot)
	for n := max(s.last+1, number-shareSlots+1); n <= number; n++ {
		s.total -= s.used[n%shareSlots]
		s.used[n%shareSlots] = 0
	}
	s.last = max(s.last, number)
}

// reset forgets what was used.
func (s *share) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used, s.total = [shareSlots]time.Duration{}, 0
}
