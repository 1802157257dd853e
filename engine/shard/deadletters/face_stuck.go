package deadletters

import (
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/store"
)

// A dead letter whose content cannot be read any more must not hold up those behind it. But
// the other queue only knows up to which number it has the letters of an outbox, so one that
// is overtaken could not be told from one that arrived. Therefore it is first noted durably
// that it is stuck, which says that it did not arrive, then it is overtaken; and when it can
// be read again it gets a new number, behind those that overtook it, before it is delivered.

// Unread is what the outbox does about a letter that Parcel gave an error for, other than the
// end of the context. One whose content is damaged or missing is parked at once, with any
// other error at the third time: it is left alone, as an action of the kind KindForward, and
// those behind it may be delivered. false: it has to be read again first, and nothing behind
// it may be delivered. The caller knows that it did not arrive. It returns after the commit.
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

// Unstick has a stuck letter that can be read again take its place behind all others,
// under another number. It returns after the commit.
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

// lasting says that what could not be read will not be there at the next try either.
func lasting(err error) bool {
	if _, damaged := errors.AsType[*queue.FormatError](err); damaged {
		return true
	}
	return errors.Is(err, store.ErrMissing) || errors.Is(err, machine.ErrSnapshot) ||
		queue.CodeOf(err) == queue.CodeUnknownSubmission
}
