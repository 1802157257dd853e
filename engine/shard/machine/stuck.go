package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// stuck applies that entries of the outbox are overtaken.
func (p *forwarding) stuck(op *journal.Move) {
	for _, distance := range op.Indexes {
		if o := p.Outbox.Find(op.Number + uint64(distance)); o != nil {
			o.Stuck = true
			p.m.Asides.Changed(asideStuck, o.Number)
		}
	}
}

// renumbered applies that a stuck entry takes its place behind all others.
func (p *forwarding) renumbered(op *journal.Move) {
	p.Outbox.Remove(op.Was)
	p.m.Asides.Changed(asideOutbox, op.Was)
	p.m.Asides.Changed(asideStuck, op.Was)
	p.Queued(queue.Outgoing{Number: op.Number, Queue: op.Queue, Chunk: queue.ChunkID{Submission: op.ID, Index: op.Indexes[0]}})
}
