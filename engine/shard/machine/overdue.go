package machine

import (
	"cmp"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// This file makes dead letters of the unfinished chunks of a submission: when its dead_deadline passes, if the queue's
// on_deadline says so, and when another submission that it waits for does not end as wanted, if its on_unmet says so. A
// dead letter takes memory, so a large submission is done in slices. From the first slice on it is hidden, so that no
// one begins unwanted work, and each slice follows when the one before is on the disk.
//
//	it is time           ─► overdue: hidden ─► a slice: each chunk that is held, waits or is ready dies ─► applied
//	                              ▲                                                                           │
//	                              └── something is left: the next slice ◄─────────────────────────────────────┤
//	                                                              nothing is left: completed_with_dead ◄──────┘
//
// A restart in between goes on: the dead letters of the first slice show the decision (goesOn). So it is made once,
// whatever has changed meanwhile: a redrive of the other submission, a rule that covers this one, the setting.

// overdue are the submissions whose chunks become dead letters now, by seq.
type overdue map[uint32]*lastSlices

// lastSlices is the progress of one of them.
type lastSlices struct {
	at    uint32 // up to which index the ready ones were looked at
	why   string // the error of the dead letters; "": errorOverdue
	begun bool   // the first slice is on the disk, so the decision is not taken back
}

// errorOverdue is the error of a dead letter whose dead_deadline passed.
const errorOverdue = "its dead_deadline passed"

// overdueLooks is how many chunks a slice looks at in search of ready ones.
const overdueLooks = 1 << 16

// Overdue says that all chunks of the submission become dead letters now.
func (p *tries) Overdue(r *Record) bool {
	_, is := p.overdue[r.Seq]
	return is
}

// Beginning says that this is decided, and that the first slice is not on the disk yet.
func (p *tries) Beginning(r *Record) bool {
	of := p.overdue[r.Seq]
	return of != nil && !of.begun
}

// goesOn makes a start go on with a submission some of whose chunks died in slices. If it waits for others, its chunks
// die in no other way. Otherwise only a passed dead_deadline does this, and its dead letters say so.
func (p *tries) goesOn(r *Record) {
	d := r.Details()
	waits := d.Waits.Some()
	if !waits && (d.DeadDeadline == 0 || d.DeadDeadline > p.m.Now) {
		return
	}
	for _, t := range r.Tries {
		if byDeadline := t.Err == errorOverdue; t.Gone() && (byDeadline || waits) {
			of := &lastSlices{why: t.Err, begun: true}
			if byDeadline {
				of.why = ""
			}
			p.overdue[r.Seq] = of
			return
		}
	}
}

// endOverdue encodes the death of up to `most` chunks of a submission, and says how many. why is the error of the dead
// letters; "": that its dead_deadline passed. Later slices use the error of the first one. Chunks with an op on its way
// to the disk are left to the next slice. Slices follow until the submission has ended.
func (p *tries) endOverdue(r *Record, why string, most int, now queue.Time) (n int) {
	m := p.m
	if r.Ending {
		return 0 // if its end fails, this is looked at again
	}
	of, hides := p.overdue[r.Seq], false
	began := of == nil
	if began {
		of = &lastSlices{why: why}
		p.overdue[r.Seq] = of
		if hides = !r.Parked; hides {
			park(m, r)
		}
	}
	n = p.endHeld(r, of, most, now)
	for _, index := range r.Delays.From(0, most-n, nil) {
		if !m.IsHeld(r, index) {
			p.dies(r, p.takeFree(r, index, waiting, journal.Overdue, of.why, now), now)
			n++
		}
	}
	for looks := overdueLooks; looks > 0 && n < most && r.Sub.Available() > 0; looks-- {
		if of.at == r.Chunks {
			of.at = 0 // chunks that came back since have smaller indexes
		}
		if r.Sub.IsAvailable(of.at) {
			p.dies(r, p.takeFree(r, of.at, free, journal.Overdue, of.why, now), now)
			n++
		}
		of.at++
	}
	m.Encode(now).End(journal.End{Seq: r.Seq, State: queue.CompletedWithDead})
	m.Batch.Intend(&slice{r, of, began, hides})
	return n
}

// endHeld is endOverdue for chunks that consumers hold. It leaves out those that already have a decision.
func (p *tries) endHeld(r *Record, of *lastSlices, most int, now queue.Time) (n int) {
	m := p.m
	m.Holds.Each(&r.Holds, func(slot uint32, h *reserver.Hold) bool {
		if h.State == reserver.Held {
			p.dies(r, p.takeHeld(r, slot, journal.Overdue, of.why, now), now)
			n++
		}
		return n < most
	})
	return n
}

// takeHeld takes a chunk from its holder for good. It returns the op: no try is counted.
func (p *tries) takeHeld(r *Record, slot uint32, reason journal.ReturnReason, why string,
	now queue.Time) journal.Returned {
	m := p.m
	h := m.Holds.At(slot)
	h.State = reserver.Dying
	m.Batch.Mark(slot, h.Sequence)
	op := journal.Returned{Seq: r.Seq, Index: h.Index, Reason: reason, Error: why,
		Epoch: h.Epoch, Sequence: h.Sequence, Consumer: m.Holds.Consumer(h), Held: heldFor(h, now)}
	if t := r.Tries[h.Index]; t != nil {
		op.Attempts, op.Expiries = t.Attempts, t.Expiries
	}
	return op
}

// takeFree is takeHeld for a chunk that no one holds. From now on no one can finish it.
func (p *tries) takeFree(r *Record, index uint32, s standing, reason journal.ReturnReason, why string,
	now queue.Time) journal.Returned {
	m := p.m
	op := journal.Returned{Seq: r.Seq, Index: index, Reason: reason, Error: why}
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
	return op
}

// dies encodes that a chunk becomes a dead letter while its submission goes on.
func (p *tries) dies(r *Record, op journal.Returned, now queue.Time) {
	m := p.m
	m.Encode(now).Return(op)
	m.Batch.Dies(r)
	p.letter(r, op.Index, cmp.Or(op.Error, errorOverdue), now)
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

// slice is a slice on its way to the disk.
type slice struct {
	r     *Record
	of    *lastSlices
	began bool // it is the first one
	hides bool // and it hid the submission, which does not wait for others
}

func (x *slice) Applied(m *Machine) {
	x.of.begun = true
	if m.LiveSeq(x.r.Seq) == nil {
		delete(m.Tries.overdue, x.r.Seq)
		if x.of.why == "" { // otherwise KindAfter counted it
			m.Stats.Acted(KindDeadDeadline, true)
		}
		return
	}
	m.Lifecycle.Schedule(KindDeadDeadline, Due{At: m.Now, Seq: x.r.Seq})
}

// Undo makes the worker look at this again. If the first slice failed, nothing has happened: the submission is shown
// again, and the cause is handled again, the deadline here, the end of another submission by concluded.
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

// Reopened removes the causes of dead letters from a submission that a redrive opened again: a dead_deadline that
// passed, and waits for others that did not end as wanted. A start must not find these waits again: it may replay the
// insert, and not the end.
func Reopened(r *Record, now queue.Time) {
	d := *r.Details()
	passed := d.DeadDeadline != 0 && d.DeadDeadline <= now
	if passed {
		d.DeadDeadline = 0
	}
	if d.After != nil && (passed || d.After.DeadLetter) {
		d.After, passed = nil, true
	}
	if passed {
		r.more, r.Reshaped = &d, true
	}
}
