package shard

import (
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// A dead letter whose content cannot be read any more must not hold up those behind it. But the other queue only knows up to which
// number it has the letters of an outbox, so one that is overtaken could not be told from one that arrived. Therefore it is first noted
// durably that it is stuck, which says that it did not arrive, then it is overtaken; and when it can be read again it gets a new number,
// behind those that overtook it, before it is delivered.

// Unread is what the outbox does about a letter that Parcel gave an error for, other than the end of the context. One whose content is
// damaged or missing is parked at once, with any other error at the third time: it is left alone, as an action of the kind KindForward,
// and those behind it may be delivered. false: it has to be read again first, and nothing behind it may be delivered. The caller knows
// that it did not arrive. It returns after the commit.
func (p *Forwarding) Unread(o queue.Outgoing, cause error) (parked bool, err error) {
	s := p.s
	now := s.now()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return false, err
	}
	if s.parts.letters.Outbox.Find(o.Number) == nil {
		s.mu.Unlock()
		return false, nil // the state was made again
	}
	a := letter(o)
	if o.Stuck {
		p.park(a, cause, now)
		s.mu.Unlock()
		return true, nil
	}
	s.Worker.kinds[machine.KindForward].fail(cause, now, s.options.Seed())
	if s.Worker.blamed[a]++; s.Worker.blamed[a] <= parkAfter && !lasting(cause) {
		s.mu.Unlock()
		return false, nil
	}
	s.m.Encode(now).Move(journal.Move{Kind: journal.MoveStuck, Number: o.Number, Indexes: []uint32{0}})
	b := s.m.Batch.Commit
	s.mu.Unlock()
	if err := s.writer.wait(commit.Set{First: b}); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.park(a, cause, now)
	return true, nil
}

// park leaves a letter alone. Beyond parkedMost actions it is read again and again, and holds up no one all the same. The mutex is
// held.
func (p *Forwarding) park(a machine.Action, cause error, now queue.Time) {
	delete(p.s.Worker.blamed, a)
	p.s.Worker.park(a, cause, now)
}

// Unstick has a stuck letter that can be read again take its place behind all others, under another number. It returns after the commit.
func (p *Forwarding) Unstick(o queue.Outgoing) error {
	return p.s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
		outbox := &p.s.parts.letters.Outbox
		if known := outbox.Find(o.Number); known == nil || !known.Stuck {
			return nil, nil
		}
		outbox.Last++
		m.Encode(now).Move(journal.Move{
			Kind: journal.MoveRenumber, ID: o.Chunk.Submission, Number: outbox.Last, Queue: o.Queue,
			Was: o.Number, Indexes: []uint32{o.Chunk.Index},
		})
		return m.Batch.Commit, nil
	})
}

// Arrived is up to which number the dead letters of an outbox have arrived here. It is an error while that is not known.
func (p *Forwarding) Arrived(source uint64) (uint64, error) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return 0, err
	}
	return s.parts.letters.Arrived(source), nil
}

// letter is the action of delivering a letter.
func letter(o queue.Outgoing) machine.Action {
	return machine.Action{Kind: machine.KindForward, Submission: o.Chunk.Submission, Index: o.Chunk.Index}
}

// lasting says that what could not be read will not be there at the next try either.
func lasting(err error) bool {
	if _, damaged := errors.AsType[*queue.FormatError](err); damaged {
		return true
	}
	return errors.Is(err, store.ErrMissing) || errors.Is(err, machine.ErrSnapshot) || queue.CodeOf(err) == queue.CodeUnknownSubmission
}
