package shard

import (
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// asides writes the rows that changed, of one kind or (0) of all. They are taken in
// slices: a later one may be further ahead, which does no harm. None is taken between two
// ops of one batch, as some rows say up to which batch they are true.
func (p *checkpointer) asides(ctx context.Context, m *machine.Machine, kind uint8) error {
	var keys []machine.Aside
	p.Look(func(*machine.Machine) { keys = m.Asides.Take(kind) })
	for start := 0; start < len(keys); start += checkpointMost {
		part := keys[start:min(start+checkpointMost, len(keys))]
		rows := make([]checkpoint.Aside, 0, len(part))
		p.between(func(*machine.Machine) {
			for _, a := range part {
				rows = append(rows, checkpoint.Aside{Kind: a.Kind, Key: a.Key, Bytes: m.Asides.Of(a.Kind).Row(a.Key)})
			}
		})
		if err := p.disk.Write(func() error { return p.Store().PutAside(ctx, rows) }); err != nil {
			p.putBackAsides(m, keys[start:])
			return err
		}
	}
	return nil
}

// putBackAsides leaves rows that were not written to the next checkpoint.
func (p *checkpointer) putBackAsides(m *machine.Machine, keys []machine.Aside) {
	for part := range slices.Chunk(keys, checkpointMost) {
		p.Look(func(*machine.Machine) {
			for _, a := range part {
				m.Asides.Changed(a.Kind, a.Key)
			}
		})
	}
}
