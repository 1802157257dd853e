package shard

import (
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Dead letters go on to another queue in three steps, each durable before the next one begins, so that a crash anywhere leaves
// exactly one copy: a Move puts them into the outbox in the very commit that ends them here; the other queue's shard inserts them,
// and with them the number up to which it has those of this outbox (arrive.go), so that it knows what it is given again; and a
// second Move takes them out. Numbers grow, and those for one queue are delivered in their order.

// outbox is what is on its way, by number.
type outbox struct {
	list  []queue.Outgoing // ascending; removed ones are holes with an empty Queue
	holes int
	last  uint64 // number given out
}

func (o *outbox) at(number uint64) (int, bool) {
	return slices.BinarySearchFunc(o.list, number, func(x queue.Outgoing, number uint64) int {
		switch {
		case x.Number < number:
			return -1
		case x.Number > number:
			return 1
		}
		return 0
	})
}

func (o *outbox) find(number uint64) *queue.Outgoing {
	if at, there := o.at(number); there && o.list[at].Queue != "" {
		return &o.list[at]
	}
	return nil
}

// add puts one in; one that is there already changes nothing.
func (o *outbox) add(x queue.Outgoing) {
	o.last = max(o.last, x.Number)
	at, there := o.at(x.Number)
	switch {
	case !there:
		o.list = slices.Insert(o.list, at, x)
	case o.list[at].Queue == "": // a replay that begins before its removal
		o.list[at] = x
		o.holes--
	}
}

func (o *outbox) remove(number uint64) {
	at, there := o.at(number)
	if !there || o.list[at].Queue == "" {
		return
	}
	o.list[at].Queue = ""
	if o.holes++; o.holes == len(o.list) || o.holes > 1024 && o.holes > len(o.list)/2 {
		o.list = slices.DeleteFunc(o.list, func(x queue.Outgoing) bool { return x.Queue == "" })
		o.holes = 0
	}
}

func (o *outbox) len() int { return len(o.list) - o.holes }

// forwarding is the part of the machine that knows which dead letters left for other queues, and how far those of other queues have come.
type forwarding struct {
	m        *machine
	outbox   outbox            // dead letters on their way to another queue
	sending  int               // chunks whose way into the outbox is on its way to the disk
	posted   bool              // the outbox got something since someone looked
	inbox    map[uint64]uint64 // by source: the last number that arrived out of that outbox
	arriving map[uint64]uint64 // the same, with what is on its way to the disk
}

func newForwarding(m *machine) forwarding {
	return forwarding{m: m, inbox: map[uint64]uint64{}, arriving: map[uint64]uint64{}}
}

// send encodes that dead letters of a submission leave for another queue. Indexes ascend.
func (p *forwarding) send(r *record, indexes []uint32, to string, now queue.Time) {
	p.m.encode(now).Move(journal.Move{Kind: journal.MoveForward, Seq: r.seq, ID: r.id, Number: p.outbox.last + 1,
		Queue: to, Indexes: indexes})
	p.outbox.last += uint64(len(indexes))
	p.sending += len(indexes)
	p.m.intend(sending(len(indexes)))
}

// sending is how many dead letters an op puts into the outbox.
type sending int

func (n sending) Applied(m *machine) { m.forwarding.sending -= int(n) }
func (n sending) Undo(m *machine)    { m.forwarding.sending -= int(n) }

// sent applies it to one chunk: it is over here, and in the outbox.
func (p *forwarding) sent(r *record, t *try, o queue.Outgoing) {
	t.reason, t.to, t.number = journal.Forwarded, o.Queue, o.Number
	r.forwards++
	p.m.stats.forwarded++
	p.m.letters.giveUp(r, o.Chunk.Index)
	p.queued(o)
}

// queued notes an entry of the outbox.
func (p *forwarding) queued(o queue.Outgoing) {
	p.outbox.add(o)
	p.m.asides.changed(asideOutbox, o.Number)
	p.m.asides.changed(asideLast, 0)
	p.posted = true
}

// requeued puts those chunks of a Forward into the outbox that a row which is younger than the op says to have gone by it.
func (p *forwarding) requeued(r *record, op *journal.Move) {
	for i, index := range op.Indexes {
		if t := r.tries[index]; t != nil && t.reason == journal.Forwarded && t.number == op.Number+uint64(i) {
			p.queued(queue.Outgoing{Number: t.number, Queue: op.Queue, Chunk: queue.ChunkID{Submission: r.id, Index: index}})
		}
	}
}

// delivered takes entries out of the outbox.
func (p *forwarding) delivered(op *journal.Move) {
	for _, distance := range op.Indexes {
		p.outbox.remove(op.Number + uint64(distance))
		p.m.asides.changed(asideOutbox, op.Number+uint64(distance))
		p.m.asides.changed(asideStuck, op.Number+uint64(distance))
	}
}

// Forwarding is how dead letters leave a shard for other queues, and come from them.
type Forwarding struct{ s *Shard }

// Outgoing lists up to `most` dead letters that are on their way to another queue with a number above `after`, by number, but for those
// that are parked.
func (p *Forwarding) Outgoing(after uint64, most int) (list []queue.Outgoing) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	at, there := s.m.forwarding.outbox.at(after)
	if there {
		at++
	}
	for _, x := range s.m.forwarding.outbox.list[at:] {
		if len(list) == most {
			break
		}
		if x.Queue != "" && (!x.Stuck || s.Worker.parked[letter(x)] == nil) {
			list = append(list, x)
		}
	}
	return list
}

// Overtaken is how many dead letters on their way are stuck: they cannot be read, and those behind them have overtaken them.
func (p *Forwarding) Overtaken() (n int) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.m.forwarding.outbox.list {
		if o := &s.m.forwarding.outbox.list[i]; o.Stuck && o.Queue != "" {
			n++
		}
	}
	return n
}

// OutgoingTo is how many dead letters are on their way to a queue ("": to any), those to any queue included whose end is not
// committed yet.
func (p *Forwarding) OutgoingTo(name string) (n int) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	n = s.m.forwarding.sending
	if name == "" {
		return n + s.m.forwarding.outbox.len()
	}
	for i := range s.m.forwarding.outbox.list {
		if s.m.forwarding.outbox.list[i].Queue == name {
			n++
		}
	}
	return n
}

// Delivered takes entries out of the outbox, durably: the other queue has them. The numbers ascend.
func (p *Forwarding) Delivered(numbers []uint64) error {
	s := p.s
	if len(numbers) == 0 {
		return nil
	}
	now := s.now()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	for start := 0; start < len(numbers); {
		op := journal.Move{Kind: journal.MoveDelivered, Number: numbers[start]}
		for ; start < len(numbers) && len(op.Indexes) < journal.MaxRedrive && numbers[start]-op.Number < 1<<32; start++ {
			op.Indexes = append(op.Indexes, uint32(numbers[start]-op.Number))
		}
		s.m.encode(now).Move(op)
	}
	b := s.m.batch
	s.mu.Unlock()
	err := s.writer.wait(commits{first: b})
	if err == nil {
		s.mu.Lock()
		s.Worker.kinds[KindForward].pass(now, len(numbers))
		s.m.stats.acts[KindForward].done += uint64(len(numbers))
		s.mu.Unlock()
	}
	return err
}

// Source identifies this outbox for ever: no other one has had, or will have, the same shard and the same birth.
func (p *Forwarding) Source() uint64 {
	return uint64(p.s.options.Born)*queue.MaxShards + uint64(p.s.options.ID)
}

// Parcel is a dead letter of the outbox as the other queue gets it, with its content.
func (p *Forwarding) Parcel(ctx context.Context, o queue.Outgoing) (n queue.NewSubmission, err error) {
	s := p.s
	r, err := p.find(ctx, o.Chunk)
	if err != nil {
		return n, err
	}
	d := r.details()
	n = queue.NewSubmission{
		Group: d.group, Meta: r.known, Priority: r.priority, OperationsPerChunk: d.operations, Trace: d.trace,
		Chunks: queue.Chunks{Count: 1, Prefix: r.prefix, Template: d.template},
		Origin: &queue.Origin{Source: p.Source(), Number: o.Number, Queue: s.options.Queue, Chunk: o.Chunk,
			First: r.first() + o.Chunk.Index},
	}
	if t := r.tries[o.Chunk.Index]; t != nil {
		n.Origin.Attempts, n.Origin.Error = uint32(t.attempts), t.err
		if past := len(t.past); past > 0 {
			n.Origin.Died = t.past[past-1].Ended
		}
	}
	if r.inline {
		content, err := s.store.ReadContent(ctx, r.seq, o.Chunk.Index)
		if err != nil {
			return n, err
		}
		n.Chunks.Inline = [][]byte{content}
	}
	if r.attached {
		n.Attachment, err = s.store.ReadAttachment(ctx, r.seq)
	}
	return n, err
}

// find is a copy of a submission's record with the try of one chunk, wherever it is.
func (p *Forwarding) find(ctx context.Context, chunk queue.ChunkID) (*record, error) {
	s := p.s
	s.mu.Lock()
	if r := s.m.record(chunk.Submission); r != nil {
		c := *r
		c.known, c.tries = r.meta(), map[uint32]*try{}
		if t := r.tries[chunk.Index]; t != nil {
			copied := *t
			c.tries[chunk.Index] = &copied
		}
		s.mu.Unlock()
		return &c, nil
	}
	s.mu.Unlock()
	row, found, err := s.store.History.Ended(ctx, chunk.Submission)
	if err == nil && !found {
		err = unknownSubmission(chunk.Submission)
	}
	if err != nil {
		return nil, err
	}
	r, _, err := endedRecord(&row)
	if err == nil {
		r.known = r.ended.meta
	}
	return r, err
}

// first is the index that the content of chunk 0 has in the prefix or template.
func (r *record) first() uint32 {
	if o := r.details().origin; o != nil {
		return o.First
	}
	return 0
}

// intended counts what intents have left.
func (p *forwarding) intended(count func(what string, n int)) {
	count("dead letters about to leave", p.sending)
	count("dead letters about to arrive", len(p.arriving))
}
