package answers

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// Contents that cannot be read must not stop those that can. A chunk whose content is damaged becomes a dead letter,
// whatever the policy of its submission says: no one has tried it. Once the content is fixed, the letter is redriven
// like any other. A submission whose attachment is damaged is paused by a rule, as none of its chunks can go out.

// errorDamaged begins the error of such a dead letter, and the reason of such a rule.
const errorDamaged = "damaged: "

// IsDamage reports whether a read failed for good: the bytes are missing, or differ from those that
// were written.
func IsDamage(err error) bool {
	_, format := errors.AsType[*queue.FormatError](err)
	return format || errors.Is(err, store.ErrMissing)
}

// withoutDamaged answers with the picks whose contents can be read, after the others became dead letters. ErrAgain: no
// content can be read. It is the slow way, taken after a read of all picks together failed: each pick is read by
// itself, so that one damaged chunk costs the others only time. Whatever happens, every pick ends in one of three
// places:
//
//	picks ─┬─ readable ──► sound ──► the answer
//	       ├─ damaged  ──► bad   ──► dead letters
//	       └─ a failure that may pass, or a held attachment ──► given back, as if it had not been picked
func (a *Answers) withoutDamaged(ctx context.Context, picks []machine.Pick,
	dst []queue.Reservation, answered int) (machine.Reserved, error) {
	var sound, bad []machine.Pick
	var causes []error
	held := map[*machine.Record]bool{} // paused for its attachment
	for i := range picks {
		p := picks[i : i+1]
		if r := p[0].R; r.Attached && !held[r] {
			if _, err := a.Bytes.Attachment(ctx, r); err != nil && IsDamage(err) {
				if err := a.pause(r.ID, err); err != nil {
					a.giveBack(picks[i:])
					a.giveBack(append(sound, bad...))
					return machine.Reserved{Reservations: dst}, err
				}
				held[r] = true
			}
		}
		if held[p[0].R] {
			a.giveBack(p)
			continue
		}
		_, err := a.read(ctx, p, 0, make([]queue.Reservation, 1))
		switch {
		case err == nil:
			sound = append(sound, p[0])
		case IsDamage(err):
			bad, causes = append(bad, p[0]), append(causes, err)
		default:
			a.giveBack(picks[i:])
			a.giveBack(append(sound, bad...))
			return machine.Reserved{Reservations: dst}, err
		}
	}
	if err := a.makeLetters(bad, causes); err != nil {
		a.giveBack(sound)
		return machine.Reserved{Reservations: dst}, err
	}
	if len(sound) == 0 {
		return machine.Reserved{Reservations: dst}, ErrAgain
	}
	return a.Fill(ctx, sound, dst, answered)
}

// makeLetters makes dead letters of reserved chunks, durably. The letter says only that the content cannot be read; the
// log says which row of the store is damaged. If the commit fails, the chunks are offered again, as no one got them. No
// try is counted: the op takes back the attempt that Tries.Count added, because a retry would find the same damage, and
// the consumer is not to blame.
func (a *Answers) makeLetters(picks []machine.Pick, causes []error) error {
	if len(picks) == 0 {
		return nil
	}
	dead := uint64(0)
	c, err := a.Begin(func(m *machine.Machine, now queue.Time) error {
		for i := range picks {
			r, slot, is := m.Tokens.OfPick(&picks[i])
			if is != machine.Holder || r.Ending {
				continue
			}
			m.Mark(slot)
			op := m.Tries.Count(r, picks[i].Token.Index, journal.Dead, now)
			op.Attempts--
			op.Epoch, op.Sequence = picks[i].Token.Epoch, picks[i].Token.Sequence
			op.Error = errorDamaged +
				"the content cannot be read; the server's log says why. Fix it, then redrive the chunk"
			m.Encode(now).Return(op)
			m.Batch.Dies(r)
			m.Encode(now).End(journal.End{Seq: r.Seq, State: queue.CompletedWithDead})
			dead++
		}
		return nil
	})
	if err == nil {
		err = a.Wait(commit.Set{First: c})
	}
	if err != nil {
		a.giveBack(picks)
		return err
	}
	a.Look(func(m *machine.Machine) { m.Stats.Damaged += dead })
	for i := range picks {
		a.queue.Logger.Error("the content of a chunk is damaged: it becomes a dead letter, and can be "+
			"redriven when it is fixed", "submission", picks[i].R.ID, "chunk", picks[i].Token.Index, "error", causes[i])
	}
	return nil
}

// pause pauses a submission whose attachment is damaged.
// A rule, and not a dead letter for each chunk: there may be billions of them, and once the attachment is repaired one
// call lifts the rule. The log has it once, as the rule is there already for the next pick.
func (a *Answers) pause(id queue.SubmissionID, cause error) error {
	_, created, err := a.rules.Set(queue.Rule{
		Action: queue.Pause, Match: queue.RuleMatch{Submission: id}, Actor: queue.ServerActor,
		Reason: errorDamaged + "the attachment cannot be read; the server's log says why. Fix it, then lift this rule",
	}, nil)
	if created {
		a.queue.Logger.Error("the attachment of a submission is damaged: the submission is paused, and can go on "+
			"when it is fixed", "submission", id, "error", cause)
	}
	return err
}
