package plugins

import (
	"sync"
	"time"
)

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
