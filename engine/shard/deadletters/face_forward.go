package deadletters

import (
	"context"
	"math"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/trouble"
)

// Forwarding is how dead letters leave a shard for other queues, and come from them.
type Forwarding struct {
	shell.Door[*Part]
	source uint64
	book   *trouble.Book
	intake Intake
}

// FaceForwarding is what the carrier of dead letters asks. source identifies the outbox for
// ever: no other one has had it, or will have it. The book knows which letters cannot be read.
func FaceForwarding(door shell.Door[*Part], source uint64, book *trouble.Book, intake Intake) *Forwarding {
	return &Forwarding{Door: door, source: source, book: book, intake: intake}
}

// Source identifies the outbox.
func (f *Forwarding) Source() uint64 { return f.source }

// Outgoing lists up to `most` dead letters that are on their way to another queue with a
// number above `after`, by number, but for those that are parked.
func (f *Forwarding) Outgoing(after uint64, most int) (list []queue.Outgoing) {
	f.Look(func(*machine.Machine) {
		box := &f.Part().Outbox
		at, there := box.At(after)
		if there {
			at++
		}
		for _, x := range box.List[at:] {
			if len(list) == most {
				break
			}
			if x.Queue != "" && (!x.Stuck || f.book.Parked[delivering(x)] == nil) {
				list = append(list, x)
			}
		}
	})
	return list
}

// Overtaken is how many dead letters on their way are stuck: they cannot be read, and
// those behind them have overtaken them.
func (f *Forwarding) Overtaken() (n int) {
	f.Look(func(*machine.Machine) {
		for i := range f.Part().Outbox.List {
			if o := &f.Part().Outbox.List[i]; o.Stuck && o.Queue != "" {
				n++
			}
		}
	})
	return n
}

// OutgoingTo is how many dead letters are on their way to a queue ("": to any), those to
// any queue included whose end is not committed yet.
func (f *Forwarding) OutgoingTo(name string) (n int) {
	f.Look(func(*machine.Machine) { n = f.Part().OutgoingTo(name) })
	return n
}

// Delivered takes entries out of the outbox, durably: the other queue has them. The numbers ascend. Numbers that are
// near each other share an op. A crash before the commit delivers the letters once more, and the other queue
// recognises them by their source and number.
func (f *Forwarding) Delivered(numbers []uint64) error {
	if len(numbers) == 0 {
		return nil
	}
	var at queue.Time
	err := shell.Change(f, func(m *machine.Machine, now queue.Time) error {
		at = now
		for start := 0; start < len(numbers); {
			op := journal.Move{Kind: journal.MoveDelivered, Number: numbers[start]}
			for ; start < len(numbers) && len(op.Indexes) < journal.MaxRedrive &&
				numbers[start]-op.Number < 1<<32; start++ {
				op.Indexes = append(op.Indexes, uint32(numbers[start]-op.Number))
			}
			m.Encode(now).Move(op)
		}
		return nil
	})
	if err == nil {
		f.Look(func(m *machine.Machine) { f.book.Done(m, machine.KindForward, at, len(numbers)) })
	}
	return err
}

// Parcel is a dead letter of the outbox as the other queue gets it, with its content. It reads the disk, without the
// mutex: the submission may end meanwhile, and is then found in the history.
func (f *Forwarding) Parcel(ctx context.Context, o queue.Outgoing) (n queue.NewSubmission, err error) {
	r, err := f.find(ctx, o.Chunk)
	if err != nil {
		return n, err
	}
	d := r.Details()
	n = queue.NewSubmission{
		Group: d.Group, Meta: r.Known, Priority: r.Priority, OperationsPerChunk: d.Operations, Trace: d.Trace,
		Chunks: queue.Chunks{Count: 1, Prefix: r.Prefix, Template: d.Template},
		Origin: &queue.Origin{Source: f.source, Number: o.Number, Queue: f.Queue.Name, Chunk: o.Chunk,
			First: r.First() + o.Chunk.Index},
	}
	if t := r.Tries[o.Chunk.Index]; t != nil {
		n.Origin.Attempts, n.Origin.Error = uint32(t.Attempts), t.Err
		if past := len(t.Past); past > 0 {
			n.Origin.Died = t.Past[past-1].Ended
		}
	}
	if r.Inline {
		if n.Chunks.Inline, err = f.intake.Bytes.Chunks(ctx, r, []uint32{o.Chunk.Index}, math.MaxInt); err != nil {
			return n, err
		}
	}
	if r.Attached {
		n.Attachment, err = f.intake.Bytes.Attachment(ctx, r)
	}
	return n, err
}

// find is a copy of a submission's record with the try of one chunk, wherever it is. A copy, as the record itself
// changes under the mutex.
func (f *Forwarding) find(ctx context.Context, chunk queue.ChunkID) (found *machine.Record, err error) {
	f.Look(func(m *machine.Machine) {
		r := m.Record(chunk.Submission)
		if r == nil {
			return
		}
		c := *r
		c.Known, c.Tries = r.Meta(), map[uint32]*machine.Try{}
		if t := r.Tries[chunk.Index]; t != nil {
			copied := *t
			c.Tries[chunk.Index] = &copied
		}
		found = &c
	})
	if found != nil {
		return found, nil
	}
	if found, _, err = past(ctx, f, chunk.Submission); err == nil {
		found.Known = found.Ended.Meta
	}
	return found, err
}
