package engine

import (
	"maps"
	"sync"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// saturations says since when values have been at their limits, as the frames saw it. A value with short chunks is below its limit for a
// moment whenever one of them ends, which does not count. Only a HeatStep below the limit does, so that this report agrees with the heat
// strips.
type saturations struct {
	mu sync.Mutex // the last to be taken
	of map[queue.MetaEntry]saturation
}

// saturation is a time in which a value was at its limit: when it was seen there first and last.
type saturation struct{ since, seen queue.Time }

// over says that a value has not been seen at its limit for too long, or that the clock was set back.
func (s *saturation) over(now queue.Time) bool { return now.Sub(s.seen) > HeatStep || now < s.seen }

// look notes which of the counted values of a key are at their limits. It first forgets those that are over.
func (s *saturations) look(key queue.MetaKey, counted []backlog.ValueCount, set *values, now queue.Time) {
	set.mu.RLock()
	defer set.mu.RUnlock()
	if set.none(key) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, count := range counted {
		entry := queue.MetaEntry{Key: key, Value: count.Value}
		if !saturated(count.InFlight, set.limit(entry)) {
			continue
		}
		known, is := s.of[entry]
		if !is {
			known.since = now
		}
		known.seen = now
		if s.of == nil {
			s.of = map[queue.MetaEntry]saturation{}
		}
		s.of[entry] = known
	}
}

// forget drops those that are over, so that no more are kept than there are values at their limits.
func (s *saturations) forget(now queue.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for entry, known := range s.of {
		if known.over(now) {
			delete(s.of, entry)
		}
	}
}

// drop starts over for the values whose limit was changed.
func (s *saturations) drop(of queue.ValueTarget) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.All {
		maps.DeleteFunc(s.of, func(entry queue.MetaEntry, _ saturation) bool { return entry.Key == of.Key })
		return
	}
	delete(s.of, of.MetaEntry)
}

// since is from when on a value has been at its limit; 0 when it is not, or was not looked at.
func (s *saturations) since(entry queue.MetaEntry) queue.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[entry].since
}
