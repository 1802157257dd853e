package shard

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// largeSnapshot is machine.Snapshot in slices. applying is held all the time.
func (p *checkpointer) largeSnapshot(m *machine.Machine, r *machine.Record) []byte {
	var left *backlog.Remains
	most := p.options.CheckpointItems
	p.Look(func(*machine.Machine) { left, m.Loose.Of = r.Sub.Copy(), r })
	state := r.AppendTries(nil, r.Outputs)
	var out []uint32
	for from, more := uint64(0), true; more; {
		var list []uint32
		p.Look(func(*machine.Machine) { list = r.Delays.From(from, most, nil) })
		if more = len(list) == most; more {
			from = uint64(list[len(list)-1]) + 1
		}
		out = append(out, list...)
	}
	for slot, more := uint32(0), true; more; {
		p.Look(func(*machine.Machine) {
			end := min(slot+uint32(most), m.Holds.Slots())
			more = end < m.Holds.Slots()
			for ; slot < end; slot++ {
				if h := m.Holds.At(slot); h != nil && h.Seq == r.Seq {
					out = append(out, h.Index)
				}
			}
		})
	}
	p.Look(func(*machine.Machine) {
		out = append(out, m.Loose.Indexes...)
		m.Loose = machine.Loosened{}
	})
	return left.AppendSnapshot(state, out)
}
