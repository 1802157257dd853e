package shard

import "github.com/quern-queue/quern/engine/shard/machine"

// largeSnapshot is machine.snapshot in slices. applying is held all the time; so is the mutex at the beginning and at the end.
func (s *Shard) largeSnapshot(m *machine.Machine, r *machine.Record) []byte {
	left, outputs, most := r.Sub.Copy(), r.Outputs, s.options.CheckpointItems
	m.Loose.Of = r
	s.mu.Unlock()
	state := r.AppendTries(nil, outputs)
	var out []uint32
	for from, more := uint64(0), true; more; {
		s.mu.Lock()
		list := r.Delays.From(from, most, nil)
		s.mu.Unlock()
		if more = len(list) == most; more {
			from = uint64(list[len(list)-1]) + 1
		}
		out = append(out, list...)
	}
	for slot, more := uint32(0), true; more; {
		s.mu.Lock()
		end := min(slot+uint32(most), m.Holds.Slots())
		more = end < m.Holds.Slots()
		for ; slot < end; slot++ {
			if h := m.Holds.At(slot); h != nil && h.Seq == r.Seq {
				out = append(out, h.Index)
			}
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	out = append(out, m.Loose.Indexes...)
	m.Loose = machine.Loosened{}
	s.mu.Unlock()
	state = left.AppendSnapshot(state, out)
	s.mu.Lock()
	return state
}
