package deadletters

import (
	"context"
	"errors"
	"math"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/trouble"
	"github.com/quern-queue/quern/engine/store"
)

// Forwarding has the calls by which dead letters leave a shard for other queues, and arrive from them.
type Forwarding struct {
	shell.Door[*Part]
	source uint64
	book   *trouble.Book
	intake Intake
}

// FaceForwarding has the calls for the carrier of dead letters. source identifies the outbox for ever: no other outbox
// ever has the same one. The book knows which letters cannot be read.
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

// Overtaken is how many dead letters on their way are stuck: they cannot be read, and later letters have overtaken
// them.
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

// OutgoingTo is how many dead letters are on their way to a queue ("": to any). Letters whose end is not committed yet
// count for any queue.
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

// A dead letter whose content cannot be read any more must not hold up those behind it. But the other queue only knows
// the last number that it has from an outbox, so it could not distinguish an overtaken letter from one that arrived.
// Therefore the letter is first marked as stuck, durably, which says that it did not arrive, and only then overtaken.
// When it can be read again, it gets a new number, behind those that overtook it, before it is delivered.

// Unread handles a letter for which Parcel gave an error other than the end of the context. If the content is damaged
// or missing, the letter is parked at once, with any other error at the third time: it is left alone, as an action of
// the kind KindForward, and later letters may be delivered. false: it has to be read again first, and no later letter
// may be delivered. The caller knows that it did not arrive. It returns after the commit.
func (f *Forwarding) Unread(o queue.Outgoing, cause error) (parked bool, err error) {
	a, late := delivering(o), false
	var at queue.Time
	err = shell.Change(f, func(m *machine.Machine, now queue.Time) error {
		switch at = now; {
		case f.Part().Outbox.Find(o.Number) == nil: // the state was made again
		case o.Stuck:
			f.book.Park(a, cause, now)
			parked = true
		default:
			f.book.Fail(machine.KindForward, cause, now)
			if late = f.book.Suspect(a) || lasting(cause); late {
				m.Encode(now).Move(journal.Move{Kind: journal.MoveStuck, Number: o.Number, Indexes: []uint32{0}})
			}
		}
		return nil
	})
	if err != nil || !late {
		return parked, err
	}
	f.Look(func(*machine.Machine) { f.book.Park(a, cause, at) })
	return true, nil
}

// Unstick puts a stuck letter that can be read again behind all others, under another number. It returns after the
// commit.
func (f *Forwarding) Unstick(o queue.Outgoing) error {
	return shell.Change(f, func(m *machine.Machine, now queue.Time) error {
		box := &f.Part().Outbox
		if known := box.Find(o.Number); known == nil || !known.Stuck {
			return nil
		}
		box.Last++
		m.Encode(now).Move(journal.Move{
			Kind: journal.MoveRenumber, ID: o.Chunk.Submission, Number: box.Last, Queue: o.Queue,
			Was: o.Number, Indexes: []uint32{o.Chunk.Index},
		})
		return nil
	})
}

// delivering is the action of delivering a letter.
func delivering(o queue.Outgoing) machine.Action {
	return machine.Action{Kind: machine.KindForward, Submission: o.Chunk.Submission, Index: o.Chunk.Index}
}

// lasting says that another try will fail to read it, too.
func lasting(err error) bool {
	if _, damaged := errors.AsType[*queue.FormatError](err); damaged {
		return true
	}
	return errors.Is(err, store.ErrMissing) || errors.Is(err, machine.ErrSnapshot) ||
		queue.CodeOf(err) == queue.CodeUnknownSubmission
}
