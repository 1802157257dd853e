package shard

import (
	"github.com/quern-queue/quern/engine/shard/machine"
)

// drain removes what reservations an ended submission has left, in slices, so that its history row can be made.
func (s *Shard) drain(m *machine.Machine, r *machine.Record) {
	for more := true; more; {
		s.mu.Lock()
		m.Orphans.Shed(r, machine.TickMost)
		more = r.Holds.Len() > 0
		s.mu.Unlock()
	}
}
