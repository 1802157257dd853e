package shard

// Work is how the life-cycle worker is doing.
type Work struct {
	Sweeping uint64 // reservations of ended submissions that are still to be removed
}

// Work tells how the life-cycle worker is doing.
func (s *Shard) Work() Work {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Work{Sweeping: s.m.stats.orphaned}
}
