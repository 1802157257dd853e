package shard

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// What cannot be read on the disk must not stop what can. A chunk whose content is damaged becomes a dead letter,
// whatever the policy of its submission says: no one has tried it, and once the content is fixed it is redriven like
// any other. A submission whose attachment is damaged is paused by a rule, as none of its chunks can go out.

// errorDamaged begins the error of such a dead letter, and the reason of such a rule.
const errorDamaged = "damaged: "

// isDamage says whether a failure to read is for good: what was written is not there, or is not what it was.
func isDamage(err error) bool {
	_, format := errors.AsType[*queue.FormatError](err)
	return format || errors.Is(err, store.ErrMissing)
}

// withoutDamaged answers with those picks whose contents can be read, after the others were set aside. errAgain: none can.
func (c *contents) withoutDamaged(ctx context.Context, picks []machine.Pick, dst []queue.Reservation) (machine.Reserved, error) {
	var sound, bad []machine.Pick
	var causes []error
	held := map[*machine.Record]bool{} // paused for its attachment
	for i := range picks {
		p := picks[i : i+1]
		if r := p[0].R; r.Attached && !held[r] {
			if _, err := c.s.store.ReadAttachment(ctx, r.Seq); err != nil && isDamage(err) {
				if err := c.pause(r.ID, err); err != nil {
					c.unreserve(picks[i:])
					c.unreserve(append(sound, bad...))
					return machine.Reserved{Reservations: dst}, err
				}
				held[r] = true
			}
		}
		if held[p[0].R] {
			c.unreserve(p)
			continue
		}
		_, err := c.read(ctx, p, make([]queue.Reservation, 1))
		switch {
		case err == nil:
			sound = append(sound, p[0])
		case isDamage(err):
			bad, causes = append(bad, p[0]), append(causes, err)
		default:
			c.unreserve(picks[i:])
			c.unreserve(append(sound, bad...))
			return machine.Reserved{Reservations: dst}, err
		}
	}
	if err := c.setAside(bad, causes); err != nil {
		c.unreserve(sound)
		return machine.Reserved{Reservations: dst}, err
	}
	if len(sound) == 0 {
		return machine.Reserved{Reservations: dst}, errAgain
	}
	return c.s.fill(ctx, sound, dst)
}

// unreserve returns chunks that no one will get.
func (c *contents) unreserve(picks []machine.Pick) {
	s := c.s
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.Undo(picks)
	s.waiters.serve(now)
}

// setAside makes dead letters of reserved chunks, durably. Which of the store's rows is damaged is for the log; the letter says what was
// found. No try is counted.
func (c *contents) setAside(picks []machine.Pick, causes []error) error {
	s := c.s
	if len(picks) == 0 {
		return nil
	}
	now := s.now()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.m.Undo(picks)
		s.mu.Unlock()
		return err
	}
	for i := range picks {
		r, slot, is := s.m.Tokens.OfPick(&picks[i])
		if is != machine.Holder || r.Ending {
			continue
		}
		s.m.Mark(slot)
		op := s.m.Tries.Count(r, picks[i].Token.Index, journal.Dead, now)
		op.Attempts--
		op.Epoch, op.Sequence = picks[i].Token.Epoch, picks[i].Token.Sequence
		op.Error = errorDamaged + "the content cannot be read; the server's log says why. Fix it, then redrive the chunk"
		s.m.Encode(now).Return(op)
		s.m.Tries.Dies(r)
		s.m.Encode(now).End(journal.End{Seq: r.Seq, State: queue.CompletedWithDead})
		s.m.Stats.Damaged++
	}
	var waits commit.Set
	waits.Add(s.writer.pending())
	s.mu.Unlock()
	for i := range picks {
		s.options.Logger.Error("the content of a chunk is damaged: it is set aside as a dead letter, and can be redriven when it is fixed",
			"queue", s.options.Queue, "submission", picks[i].R.ID, "chunk", picks[i].Token.Index, "error", causes[i])
	}
	return s.writer.wait(waits)
}

// pause pauses a submission whose attachment is damaged.
func (c *contents) pause(id queue.SubmissionID, cause error) error {
	s := c.s
	_, created, err := s.Rules.Set(queue.Rule{
		Action: queue.Pause, Match: queue.RuleMatch{Submission: id}, Actor: queue.ServerActor,
		Reason: errorDamaged + "the attachment cannot be read; the server's log says why. Fix it, then lift this rule",
	})
	if created {
		s.options.Logger.Error("the attachment of a submission is damaged: the submission is paused, and can go on when it is fixed",
			"queue", s.options.Queue, "submission", id, "error", cause)
	}
	return err
}
