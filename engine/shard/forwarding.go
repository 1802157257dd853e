package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Forwarding is how dead letters leave a shard for other queues, and come from them.
type Forwarding struct{ s *Shard }

// Outgoing lists up to `most` dead letters that are on their way to another queue with a number above `after`, by number, but for those
// that are parked.
func (p *Forwarding) Outgoing(after uint64, most int) (list []queue.Outgoing) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	at, there := s.parts.letters.Outbox.At(after)
	if there {
		at++
	}
	for _, x := range s.parts.letters.Outbox.List[at:] {
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
	for i := range s.parts.letters.Outbox.List {
		if o := &s.parts.letters.Outbox.List[i]; o.Stuck && o.Queue != "" {
			n++
		}
	}
	return n
}

// OutgoingTo is how many dead letters are on their way to a queue ("": to any), those to any queue included whose end is not
// committed yet.
func (p *Forwarding) OutgoingTo(name string) int {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.letters.OutgoingTo(name)
}

// Delivered takes entries out of the outbox, durably: the other queue has them. The numbers ascend.
func (p *Forwarding) Delivered(numbers []uint64) error {
	s := p.s
	if len(numbers) == 0 {
		return nil
	}
	var at queue.Time
	err := s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
		at = now
		for start := 0; start < len(numbers); {
			op := journal.Move{Kind: journal.MoveDelivered, Number: numbers[start]}
			for ; start < len(numbers) && len(op.Indexes) < journal.MaxRedrive && numbers[start]-op.Number < 1<<32; start++ {
				op.Indexes = append(op.Indexes, uint32(numbers[start]-op.Number))
			}
			m.Encode(now).Move(op)
		}
		return m.Batch.Commit, nil
	})
	if err == nil {
		s.mu.held(func() {
			s.Worker.kinds[machine.KindForward].pass(at, len(numbers))
			s.m.Stats.Acts[machine.KindForward].Done += uint64(len(numbers))
		})
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
	d := r.Details()
	n = queue.NewSubmission{
		Group: d.Group, Meta: r.Known, Priority: r.Priority, OperationsPerChunk: d.Operations, Trace: d.Trace,
		Chunks: queue.Chunks{Count: 1, Prefix: r.Prefix, Template: d.Template},
		Origin: &queue.Origin{Source: p.Source(), Number: o.Number, Queue: s.options.Queue, Chunk: o.Chunk,
			First: r.First() + o.Chunk.Index},
	}
	if t := r.Tries[o.Chunk.Index]; t != nil {
		n.Origin.Attempts, n.Origin.Error = uint32(t.Attempts), t.Err
		if past := len(t.Past); past > 0 {
			n.Origin.Died = t.Past[past-1].Ended
		}
	}
	if r.Inline {
		content, err := s.store.ReadContent(ctx, r.Seq, o.Chunk.Index)
		if err != nil {
			return n, err
		}
		n.Chunks.Inline = [][]byte{content}
	}
	if r.Attached {
		n.Attachment, err = s.store.ReadAttachment(ctx, r.Seq)
	}
	return n, err
}

// find is a copy of a submission's record with the try of one chunk, wherever it is.
func (p *Forwarding) find(ctx context.Context, chunk queue.ChunkID) (*machine.Record, error) {
	s := p.s
	s.mu.Lock()
	if r := s.m.Record(chunk.Submission); r != nil {
		c := *r
		c.Known, c.Tries = r.Meta(), map[uint32]*machine.Try{}
		if t := r.Tries[chunk.Index]; t != nil {
			copied := *t
			c.Tries[chunk.Index] = &copied
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
	r, _, err := machine.EndedRecord(&row)
	if err == nil {
		r.Known = r.Ended.Meta
	}
	return r, err
}
