package machine

import (
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/indexset"
	"github.com/quern-queue/quern/engine/shard/lettergroups"
)

// This file keeps what the machine knows of dead letters: dead chunks of open submissions, and of those that completed with
// dead ones.

// deadLetters is the part of the machine that knows the dead letters.
type deadLetters struct {
	m       *Machine
	Index   *ordered                      // the submissions that have some, open or not yet in the history, by id
	OfEnded map[queue.SubmissionID]uint32 // how many the ended ones have
	Groups  *lettergroups.Groups          // all by what went wrong; during a replay nothing
	Moving  map[uint32]*moving            // by seq: the submissions with ops on their way to the disk about what is dead in them
}

func newDeadLetters(m *Machine) deadLetters {
	return deadLetters{m: m, Index: &ordered{}, OfEnded: map[queue.SubmissionID]uint32{},
		Groups: lettergroups.New(lettergroups.Max), Moving: map[uint32]*moving{}}
}

// GroupLetters adds the dead chunks of a submission to groups.
func GroupLetters(g *lettergroups.Groups, r *Record) {
	for _, t := range r.Tries {
		if t.Reason == journal.Dead {
			g.Add(r.ID, queue.Fingerprint(t.Err), t.Err, t.died())
		}
	}
}

// Group adds the dead chunks of a submission to the queue's groups.
func (p *deadLetters) Group(r *Record) { GroupLetters(p.Groups, r) }

// died notes that a chunk of an open submission is dead, or (delta -1) no longer.
func (p *deadLetters) died(r *Record, index uint32, delta int) {
	p.count(r, index, delta)
	if p.m.Replay {
		return // settle groups the letters
	}
	switch t := r.Tries[index]; {
	case delta < 0:
		p.Groups.Remove(r.ID, queue.Fingerprint(t.Err), t.died())
	default:
		p.Groups.Add(r.ID, queue.Fingerprint(t.Err), t.Err, t.died())
	}
}

func (p *deadLetters) count(r *Record, index uint32, delta int) {
	m := p.m
	m.Changing(r)
	r.Dead += uint32(delta)
	m.Counting.tallied(r, r.Tries[index]).Dead += uint32(delta)
	m.Stats.Dead += uint64(delta)
	if delta < 0 {
		r.Deads.Remove(index)
		if r.Dead == 0 {
			p.Index.Remove(r)
		}
		return
	}
	if r.Deads == nil {
		r.Deads = &indexset.Set{}
	}
	r.Deads.Add(index)
	if r.Dead == 1 {
		p.Index.add(r)
	}
}

// reindex finds the dead chunks of a submission that is open again, or was when the shard closed. They are in their
// groups already, or will be.
func (p *deadLetters) reindex(r *Record) {
	r.Dead = 0
	for index, t := range r.Tries {
		if t.Reason == journal.Dead {
			p.count(r, index, 1)
		}
	}
}

// ended counts the dead chunks of a submission that ends. Only those of one that completed can be redriven.
func (p *deadLetters) ended(r *Record, state queue.SubmissionState) {
	p.m.Stats.Dead -= uint64(r.Dead)
	if state == queue.CompletedWithDead {
		p.Keep(r.ID, r.Dead)
		return
	}
	p.Index.Remove(r)
	if r.Dead > 0 && !p.m.Replay {
		p.Groups.Drop(r.ID, r.Dead)
	}
}

// Correct sets how many dead chunks an open submission has, after they were counted again, and lists it if it has any.
func (p *deadLetters) Correct(r *Record, n uint32) {
	r.Dead = n
	switch at := p.Index.below(r.ID); {
	case n == 0:
		p.Index.Remove(r)
	case at >= len(p.Index.ids) || p.Index.List[at] != r:
		p.Index.add(r)
	}
}

// Keep notes how many dead letters an ended submission has.
func (p *deadLetters) Keep(id queue.SubmissionID, letters uint32) {
	p.m.Stats.EndedLetters += uint64(letters) - uint64(p.OfEnded[id])
	if letters == 0 {
		delete(p.OfEnded, id)
		return
	}
	p.OfEnded[id] = letters
}

// deleted gives a dead chunk up for good. Anything else that comes for a chunk that is gone is late, and changes nothing.
func (p *deadLetters) deleted(r *Record, index uint32, t *Try, reason journal.ReturnReason) {
	if reason != journal.Skipped || t.Reason != journal.Dead {
		return
	}
	t.Reason = journal.Skipped
	p.giveUp(r, index)
	p.m.Touch(r)
}

// ApplyRedrive offers dead chunks again, and opens their submission if it has ended with dead ones.
func (p *deadLetters) ApplyRedrive(op journal.Redrive) error {
	m := p.m
	r := m.LiveSeq(op.Seq)
	switch {
	case r == nil:
		row, known, err := p.endedFor(op.Seq, p.idOf(op.Seq))
		if row == nil || err != nil || m.younger(known) || row.State != queue.CompletedWithDead {
			return err
		}
		if r, err = p.reopen(row); err != nil {
			return err
		}
	case m.Replay && m.AppliedAt <= r.AppliedAt && !r.Dirty:
		return nil
	}
	for _, index := range op.Indexes {
		t := r.Tries[index]
		if t == nil || t.Reason != journal.Dead {
			continue
		}
		t.Reason, t.Attempts, t.expiries, t.NotBefore = journal.Redriven, 0, 0, 0
		t.redrives++
		p.died(r, index, -1)
		m.putBack(r, index)
	}
	m.Touch(r)
	m.Finish(r) // perhaps nothing of it was dead any more
	return nil
}

// reopen brings an ended submission back, from what endedFor found.
func (p *deadLetters) reopen(row *checkpoint.Ended) (*Record, error) {
	m := p.m
	state, err := finalState(row.Final)
	if err != nil {
		return nil, err
	}
	if old := m.Ended[row.ID]; old != nil { // its row is not to be written any more
		old.replaced = true
		m.Rowed(old)
		m.Order.Remove(old)
		p.Index.Remove(old)
		delete(m.Ended, row.ID)
	}
	r, err := m.restored(row.Spec, state)
	if err != nil {
		return nil, err
	}
	p.Keep(r.ID, 0)
	r.Reopened = true
	m.Opened++
	m.Stats.Completed += uint64(r.Done)
	m.Stats.Skipped += uint64(r.Skips)
	p.reindex(r)
	if !m.Replay {
		m.expires(r)
		m.Backlog.Settle(r.Sub)
		m.show(r)
	}
	return r, nil
}

// idOf finds the id of a submission that has ended, when it is in memory; 0: it is not.
func (p *deadLetters) idOf(seq uint32) queue.SubmissionID {
	m := p.m
	if !m.Replay {
		return 0 // moving knows it
	}
	for _, r := range m.Gone {
		if r.Seq == seq && m.Ended[r.ID] == r {
			return r.ID
		}
	}
	return 0
}

// Rowed notes that the history has no older row of this record any more.
func (m *Machine) Rowed(r *Record) {
	if r.Reopened {
		r.Reopened = false
		m.Opened--
	}
}

// expires has the submission end at its dead deadline.
func (m *Machine) expires(r *Record) {
	if at := r.Details().deadDeadline; at != 0 {
		m.Lifecycle.Schedule(KindDeadDeadline, Due{At: at, Seq: r.Seq})
	}
}

// intended counts what intents have left.
func (p *deadLetters) intended(count func(what string, n int)) {
	count("submissions with moving dead letters", len(p.Moving))
}
