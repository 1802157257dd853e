// Package deletions is the part of a shard that deletes submissions because someone asked for it, before
// the retention of the queue would.
//
// The store deletes the rows. But a store can be older than the deletion: a crash may have lost its last
// transactions, and another node begins with a snapshot. So the journal has the order first. A replay lets
// the store delete once more, which does nothing if the rows are gone.
//
//	ordered    the op is durable         row of kind 14
//	deleted    by the call that ordered it, or by the next round of the cleaner
//	forgotten  the row goes with the next checkpoint
package deletions

import (
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Part knows the submissions that are to be deleted.
type Part struct {
	m       *machine.Machine
	ordered map[queue.SubmissionID]bool
}

// New is the part of a machine in which nothing is to be deleted.
func New(m *machine.Machine) *Part { return &Part{m: m, ordered: map[queue.SubmissionID]bool{}} }

// Ordered are the submissions that are to be deleted, the oldest first.
func (p *Part) Ordered() []queue.SubmissionID { return slices.Sorted(maps.Keys(p.ordered)) }

// Apply notes that a submission is to be deleted.
func (p *Part) Apply(op journal.PartOp) (mine bool, err error) {
	order, mine := op.(*journal.Deletion)
	if mine {
		p.ordered[order.ID] = true
		p.m.Asides.Changed(machine.AsideDeletion, uint64(order.ID))
	}
	return mine, nil
}

// done notes that the store has deleted a submission.
func (p *Part) done(id queue.SubmissionID) {
	delete(p.ordered, id)
	p.m.Asides.Changed(machine.AsideDeletion, uint64(id))
}

// Intended has nothing to count: no decision depends on an order before it is on the disk.
func (p *Part) Intended(func(what string, n int)) {}

// rowVersion is all that a row has: its key is the id.
const rowVersion = 1

// Row returns the bytes for the row of a submission; nil: it needs no row.
func (p *Part) Row(key uint64) []byte {
	if !p.ordered[queue.SubmissionID(key)] {
		return nil
	}
	return []byte{rowVersion}
}

// Load reads a row.
func (p *Part) Load(key uint64, row []byte) error {
	if len(row) != 1 || row[0] != rowVersion {
		return machine.AsideError(machine.AsideDeletion)
	}
	p.ordered[queue.SubmissionID(key)] = true
	return nil
}
