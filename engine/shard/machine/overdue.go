package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// This file makes dead letters of what a submission has left when its dead_deadline passes, where the queue's
// on_deadline says so. A dead letter takes memory, so a large submission is done in slices: from the first one on it is
// hidden, so that no one begins what no one wants any more, and each slice follows when the one before is on the disk.
//
//	dead_deadline passes ─► overdue: hidden ─► a slice: each chunk that is held, waits or is ready dies ─► applied
//	                              ▲                                                                           │
//	                              └── something is left: the next slice ◄─────────────────────────────────────┤
//	                                                              nothing is left: completed_with_dead ◄──────┘
//
// A restart in between begins again: what is dead stays so.

// overdue are the submissions of which chunks die by their dead_deadline now, by seq: up to which index the ready ones
// were looked at.
type overdue map[uint32]uint32

// errorOverdue is what a dead letter says that its dead_deadline made.
const errorOverdue = "its dead_deadline passed"

// overdueLooks is how many chunks a slice looks at in search of ready ones.
const overdueLooks = 1 << 16

// Overdue says that chunks of the submission become dead letters now, because its dead_deadline passed.
func (p *tries) Overdue(r *Record) bool {
	_, is := p.overdue[r.Seq]
	return is
}

// endOverdue encodes the death of up to `most` chunks of a submission whose dead_deadline passed, and says how many.
// Those of which something is on its way to the disk are left to the next slice. There is one until the submission
// has ended.
func (p *tries) endOverdue(r *Record, most int, now queue.Time) (n int) {
	m := p.m
	if r.Ending {
		return 0 // if that fails, its dead_deadline is looked at again
	}
	began, hides := !p.Overdue(r), false
	if began {
		p.overdue[r.Seq] = 0
		if hides = !r.Parked; hides {
			park(m, r)
		}
	}
	n = p.endHeld(r, most, now)
	for _, index := range r.Delays.From(0, most-n, nil) {
		if !m.IsHeld(r, index) {
			p.endFree(r, index, waiting, now)
			n++
		}
	}
	at := p.overdue[r.Seq]
	for looks := overdueLooks; looks > 0 && n < most && r.Sub.Available() > 0; looks-- {
		if at == r.Chunks {
			at = 0 // what came back since is before it
		}
		if r.Sub.IsAvailable(at) {
			p.endFree(r, at, free, now)
			n++
		}
		at++
	}
	p.overdue[r.Seq] = at
	m.Encode(now).End(journal.End{Seq: r.Seq, State: queue.CompletedWithDead})
	m.Batch.Intend(&slice{r, began, hides})
	return n
}

// endHeld is endOverdue for what consumers hold. What of it was decided already comes first.
func (p *tries) endHeld(r *Record, most int, now queue.Time) (n int) {
	m := p.m
	m.Holds.Each(&r.Holds, func(slot uint32, h *reserver.Hold) bool {
		if h.State == reserver.Held {
			h.State = reserver.Dying
			m.Batch.Mark(slot, h.Sequence)
			op := journal.Returned{Seq: r.Seq, Index: h.Index, Reason: journal.Overdue, Epoch: h.Epoch,
				Sequence: h.Sequence, Consumer: m.Holds.Consumer(h), Held: heldFor(h, now)}
			if t := r.Tries[h.Index]; t != nil {
				op.Attempts, op.Expiries = t.Attempts, t.Expiries
			}
			p.dies(r, op, now)
			n++
		}
		return n < most
	})
	return n
}

// endFree is endOverdue for a chunk that no one holds. From now on no one can finish it.
func (p *tries) endFree(r *Record, index uint32, s standing, now queue.Time) {
	m := p.m
	op := journal.Returned{Seq: r.Seq, Index: index, Reason: journal.Overdue}
	if t := r.Tries[index]; t != nil {
		op.Epoch, op.Sequence, op.Attempts, op.Expiries = t.epoch, t.sequence, t.Attempts, t.Expiries
	}
	if s == free {
		m.Withdraw(r, index, false)
	}
	sequence := max(op.Sequence, 1) // the table of reservations has none of 0
	token := queue.Token{Submission: r.ID, Index: index, Epoch: op.Epoch, Sequence: sequence}
	slot, _ := m.Tokens.claim(r, &token, waiting, now)
	m.Batch.Mark(slot, sequence)
	p.dies(r, op, now)
}

// dies encodes that a chunk becomes a dead letter while its submission goes on.
func (p *tries) dies(r *Record, op journal.Returned, now queue.Time) {
	m := p.m
	m.Encode(now).Return(op)
	m.Batch.Dies(r)
	p.letter(r, op.Index, errorOverdue, now)
}

// letter tells the parts that the death of a chunk was encoded.
func (p *tries) letter(r *Record, index uint32, why string, now queue.Time) {
	if r.Dead+r.Dying == 1 {
		p.m.Joined.failing(r, why, now)
	}
	for _, dying := range p.m.Joined.Dying {
		dying(r, index, now)
	}
}

// slice is one on its way to the disk.
type slice struct {
	r     *Record
	began bool // it is the first one
	hides bool // and it hid the submission, which does not wait for others
}

func (x *slice) Applied(m *Machine) {
	if m.LiveSeq(x.r.Seq) == nil {
		delete(m.Tries.overdue, x.r.Seq)
		m.Stats.Acted(KindDeadDeadline, true)
		return
	}
	m.Lifecycle.Schedule(KindDeadDeadline, Due{At: m.Now, Seq: x.r.Seq})
}

// Undo has the deadline looked at again. After a first slice nothing has happened, so the submission is shown again.
func (x *slice) Undo(m *Machine) {
	if x.began {
		delete(m.Tries.overdue, x.r.Seq)
	}
	if m.LiveSeq(x.r.Seq) == nil {
		return // a batch before has finished it
	}
	if x.hides {
		unpark(m, x.r)
	}
	m.expires(x.r)
}

// ForgetDeadline lets go of a dead_deadline that has done its work: a redrive opened the submission again.
func ForgetDeadline(r *Record) {
	d := *r.Details()
	d.DeadDeadline = 0
	r.more, r.Reshaped = &d, true
}
