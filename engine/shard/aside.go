package shard

import (
	"context"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// asides writes the rows that changed. They are taken in slices: a later one may be further ahead, which does no harm.
func (p *checkpointer) asides(ctx context.Context, m *machine.Machine) error {
	s := p.s
	s.mu.Lock()
	for part, changed := range m.Tokens.Recent.Changed {
		if changed {
			m.Asides.Changed(machine.AsideRecent, uint64(part))
		}
	}
	m.Tokens.Recent.Changed = [machine.RecentParts]bool{}
	taken := m.Asides.Rows
	m.Asides.Rows = map[machine.Aside]struct{}{}
	s.mu.Unlock()
	keys := slices.Collect(maps.Keys(taken))
	for start := 0; start < len(keys); start += checkpointMost {
		part := keys[start:min(start+checkpointMost, len(keys))]
		rows := make([]checkpoint.Aside, 0, len(part))
		s.mu.Lock()
		for _, a := range part {
			rows = append(rows, checkpoint.Aside{Kind: a.Kind, Key: a.Key, Bytes: m.Asides.Row(a)})
		}
		s.mu.Unlock()
		if err := s.disk.write(func() error { return s.store.PutAside(ctx, rows) }); err != nil {
			p.putBackAsides(m, keys[start:])
			return err
		}
	}
	return nil
}

// putBackAsides leaves rows that were not written to the next checkpoint.
func (p *checkpointer) putBackAsides(m *machine.Machine, keys []machine.Aside) {
	for part := range slices.Chunk(keys, checkpointMost) {
		p.s.mu.Lock()
		for _, a := range part {
			m.Asides.Changed(a.Kind, a.Key)
		}
		p.s.mu.Unlock()
	}
}
