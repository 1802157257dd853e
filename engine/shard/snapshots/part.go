// Package snapshots is the part of a shard's machine that remembers which snapshot of the
// store is outside the data directory.
package snapshots

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Part knows the newest snapshot.
type Part struct {
	m      *machine.Machine
	newest *journal.Snapshot
}

// New is the part of a machine that has no snapshot.
func New(m *machine.Machine) *Part { return &Part{m: m} }

// Newest is the last op about snapshots in the journal.
func (p *Part) Newest() (s journal.Snapshot) {
	if p.newest != nil {
		s = *p.newest
	}
	return s
}

// Apply takes over a snapshot.
func (p *Part) Apply(op journal.PartOp) (mine bool, err error) {
	made, mine := op.(*journal.Snapshot)
	if mine {
		own := *made
		p.newest = &own
		p.m.Asides.Changed(machine.AsideSnapshot, 0)
	}
	return mine, nil
}

// Intended has nothing to count: no decision depends on a snapshot before its op is on the disk.
func (p *Part) Intended(func(what string, n int)) {}

// Row returns the bytes for the row; nil: the row is not needed.
func (p *Part) Row(uint64) []byte {
	if p.newest == nil {
		return nil
	}
	return journal.AppendSnapshot(nil, p.newest)
}

// Load reads a row.
func (p *Part) Load(_ uint64, bytes []byte) error {
	made, err := journal.DecodeSnapshot(bytes)
	if err != nil {
		return machine.AsideError(machine.AsideSnapshot)
	}
	p.newest = &made
	return nil
}
