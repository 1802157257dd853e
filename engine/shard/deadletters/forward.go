package deadletters

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/marks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Dying forwards a chunk whose death was just encoded, if the queue has a queue for its dead letters.
func (p *Part) Dying(r *machine.Record, index uint32, now queue.Time) {
	if to := p.m.Settings.DeadLetterQueue; to != "" {
		p.send(r, []uint32{index}, to, now)
		p.intend(r, nil, []uint32{index})
	}
}

// send encodes that dead letters of a submission leave for another queue. Indexes ascend.
func (p *Part) send(r *machine.Record, indexes []uint32, to string, now queue.Time) {
	p.m.Encode(now).Move(journal.Move{Kind: journal.MoveForward, Seq: r.Seq, ID: r.ID, Number: p.Outbox.Last + 1,
		Queue: to, Indexes: indexes})
	p.Outbox.Last += uint64(len(indexes))
	p.sending += len(indexes)
	p.m.Batch.Intend(sending{p, len(indexes)})
}

// sending is how many dead letters an op puts into the outbox.
type sending struct {
	p *Part
	n int
}

func (x sending) Applied(*machine.Machine) { x.p.sending -= x.n }
func (x sending) Undo(*machine.Machine)    { x.p.sending -= x.n }

// OutgoingTo is how many dead letters are on their way to a queue ("": to any). Letters whose end is not committed yet
// count for any queue.
func (p *Part) OutgoingTo(name string) (n int) {
	n = p.sending
	if name == "" {
		return n + p.Outbox.Len()
	}
	for i := range p.Outbox.List {
		if p.Outbox.List[i].Queue == name {
			n++
		}
	}
	return n
}

// Posted says whether the outbox got letters since the last call.
func (p *Part) Posted() (posted bool) {
	posted, p.posted = p.posted, false
	return posted
}

// sent applies a forward to one chunk: it is over here, and in the outbox.
func (p *Part) sent(r *machine.Record, t *machine.Try, o queue.Outgoing) {
	t.Reason, t.To, t.Number = journal.Forwarded, o.Queue, o.Number
	r.Forwards++
	p.m.Stats.Forwarded++
	machine.GiveUp(p.m, r, o.Chunk.Index)
	p.queued(o)
}

// queued notes an entry of the outbox.
func (p *Part) queued(o queue.Outgoing) {
	p.Outbox.Add(o)
	p.m.Asides.Changed(machine.AsideOutbox, o.Number)
	p.m.Asides.Changed(machine.AsideLast, 0)
	p.posted = true
}

// requeued puts chunks of a Forward into the outbox, if a row that is younger than the op says that this op forwarded
// them.
func (p *Part) requeued(r *machine.Record, op *journal.Move) {
	for i, index := range op.Indexes {
		if t := r.Tries[index]; t != nil && t.Reason == journal.Forwarded && t.Number == op.Number+uint64(i) {
			marks.Hit("a forwarded letter is put into the outbox by a replay that its row has overtaken")
			p.queued(queue.Outgoing{Number: t.Number, Queue: op.Queue,
				Chunk: queue.ChunkID{Submission: r.ID, Index: index}})
		}
	}
}

// delivered takes entries out of the outbox.
func (p *Part) delivered(op *journal.Move) {
	for _, distance := range op.Indexes {
		p.remove(op.Number + uint64(distance))
	}
}

func (p *Part) remove(number uint64) {
	p.Outbox.Remove(number)
	p.m.Asides.Changed(machine.AsideOutbox, number)
	p.m.Asides.Changed(machine.AsideStuck, number)
}

// stuck applies that entries of the outbox are overtaken.
func (p *Part) stuck(op *journal.Move) {
	for _, distance := range op.Indexes {
		if o := p.Outbox.Find(op.Number + uint64(distance)); o != nil {
			o.Stuck = true
			p.m.Asides.Changed(machine.AsideStuck, o.Number)
		}
	}
}

// renumbered applies that a stuck entry takes its place behind all others.
func (p *Part) renumbered(op *journal.Move) {
	p.remove(op.Was)
	p.queued(queue.Outgoing{Number: op.Number, Queue: op.Queue,
		Chunk: queue.ChunkID{Submission: op.ID, Index: op.Indexes[0]}})
}

// pinMost is how many dead letters on their way retention looks at; while there are more, it waits.
const pinMost = 1000

// Pinned lists the submissions with letters in the outbox, whose contents the other queue still
// needs. known is false if there are too many to list.
func (p *Part) Pinned() (ids map[queue.SubmissionID]bool, known bool) {
	ids = map[queue.SubmissionID]bool{}
	if p.Outbox.Len() > pinMost {
		return ids, false
	}
	for i := range p.Outbox.List {
		if o := &p.Outbox.List[i]; o.Queue != "" {
			ids[o.Chunk.Submission] = true
		}
	}
	return ids, true
}
