package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/outbox"
)

// Dead letters go on to another queue in three steps, each durable before the next one begins, so that a crash anywhere leaves
// exactly one copy: a Move puts them into the outbox in the very commit that ends them here; the other queue's shard inserts them,
// and with them the number up to which it has those of this outbox (arrive.go), so that it knows what it is given again; and a
// second Move takes them out. Numbers grow, and those for one queue are delivered in their order.

// forwarding is the part of the machine that knows which dead letters left for other queues, and how far those of other queues have come.
type forwarding struct {
	m        *Machine
	Outbox   outbox.Outbox     // dead letters on their way to another queue
	Sending  int               // chunks whose way into the outbox is on its way to the disk
	Posted   bool              // the outbox got something since someone looked
	Inbox    map[uint64]uint64 // by source: the last number that arrived out of that outbox
	Arriving map[uint64]uint64 // the same, with what is on its way to the disk
}

func newForwarding(m *Machine) forwarding {
	return forwarding{m: m, Inbox: map[uint64]uint64{}, Arriving: map[uint64]uint64{}}
}

// send encodes that dead letters of a submission leave for another queue. Indexes ascend.
func (p *forwarding) send(r *Record, indexes []uint32, to string, now queue.Time) {
	p.m.Encode(now).Move(journal.Move{Kind: journal.MoveForward, Seq: r.Seq, ID: r.ID, Number: p.Outbox.Last + 1,
		Queue: to, Indexes: indexes})
	p.Outbox.Last += uint64(len(indexes))
	p.Sending += len(indexes)
	p.m.Intend(sending(len(indexes)))
}

// sending is how many dead letters an op puts into the outbox.
type sending int

func (n sending) Applied(m *Machine) { m.Forwarding.Sending -= int(n) }

func (n sending) Undo(m *Machine) { m.Forwarding.Sending -= int(n) }

// sent applies it to one chunk: it is over here, and in the outbox.
func (p *forwarding) sent(r *Record, t *Try, o queue.Outgoing) {
	t.Reason, t.to, t.number = journal.Forwarded, o.Queue, o.Number
	r.forwards++
	p.m.Stats.Forwarded++
	p.m.Letters.giveUp(r, o.Chunk.Index)
	p.Queued(o)
}

// Queued notes an entry of the outbox.
func (p *forwarding) Queued(o queue.Outgoing) {
	p.Outbox.Add(o)
	p.m.Asides.Changed(asideOutbox, o.Number)
	p.m.Asides.Changed(asideLast, 0)
	p.Posted = true
}

// requeued puts those chunks of a Forward into the outbox that a row which is younger than the op says to have gone by it.
func (p *forwarding) requeued(r *Record, op *journal.Move) {
	for i, index := range op.Indexes {
		if t := r.Tries[index]; t != nil && t.Reason == journal.Forwarded && t.number == op.Number+uint64(i) {
			p.Queued(queue.Outgoing{Number: t.number, Queue: op.Queue, Chunk: queue.ChunkID{Submission: r.ID, Index: index}})
		}
	}
}

// delivered takes entries out of the outbox.
func (p *forwarding) delivered(op *journal.Move) {
	for _, distance := range op.Indexes {
		p.Outbox.Remove(op.Number + uint64(distance))
		p.m.Asides.Changed(asideOutbox, op.Number+uint64(distance))
		p.m.Asides.Changed(asideStuck, op.Number+uint64(distance))
	}
}

// First is the index that the content of chunk 0 has in the prefix or template.
func (r *Record) First() uint32 {
	if o := r.Details().origin; o != nil {
		return o.First
	}
	return 0
}

// intended counts what intents have left.
func (p *forwarding) intended(count func(what string, n int)) {
	count("dead letters about to leave", p.Sending)
	count("dead letters about to arrive", len(p.Arriving))
}
