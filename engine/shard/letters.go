package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// This file keeps what the machine knows of dead letters: dead chunks of open submissions, and of those that completed with
// dead ones.

// died notes that a chunk of an open submission is dead, or (delta -1) no longer.
func (m *machine) died(r *record, index uint32, delta int) {
	m.countDead(r, index, delta)
	if m.replay {
		return // settle groups the letters
	}
	switch t := r.tries[index]; {
	case delta < 0:
		m.groups.remove(r.id, queue.Fingerprint(t.err), t.died())
	default:
		m.groups.add(r.id, queue.Fingerprint(t.err), t.err, t.died())
	}
}

func (m *machine) countDead(r *record, index uint32, delta int) {
	m.changing(r)
	r.dead += uint32(delta)
	m.tallied(r, r.tries[index]).dead += uint32(delta)
	m.stats.dead += uint64(delta)
	if delta < 0 {
		r.deads.remove(index)
		if r.dead == 0 {
			m.graves.remove(r)
		}
		return
	}
	if r.deads == nil {
		r.deads = &indexes{}
	}
	r.deads.add(index)
	if r.dead == 1 {
		m.graves.add(r)
	}
}

// exhume finds the dead chunks of a submission that is open again, or was when the shard closed. They are in their groups already, or will be.
func (m *machine) exhume(r *record) {
	r.dead = 0
	for index, t := range r.tries {
		if t.reason == journal.Dead {
			m.countDead(r, index, 1)
		}
	}
}

// bury counts the dead chunks of a submission that ends. Only those of one that completed can be redriven.
func (m *machine) bury(r *record, state queue.SubmissionState) {
	m.stats.dead -= uint64(r.dead)
	if state == queue.CompletedWithDead {
		m.entomb(r.id, r.dead)
		return
	}
	m.graves.remove(r)
	if r.dead > 0 && !m.replay {
		m.groups.drop(r.id, r.dead)
	}
}

// entomb notes how many dead letters an ended submission has.
func (m *machine) entomb(id queue.SubmissionID, letters uint32) {
	m.stats.buried += uint64(letters) - uint64(m.letters[id])
	if letters == 0 {
		delete(m.letters, id)
		return
	}
	m.letters[id] = letters
}

// deleted gives a dead chunk up for good. Anything else that comes for a chunk that is gone is late, and changes nothing.
func (m *machine) deleted(r *record, index uint32, t *try, reason journal.ReturnReason) {
	if reason != journal.Skipped || t.reason != journal.Dead {
		return
	}
	t.reason = journal.Skipped
	m.bear(r, index)
	m.touch(r)
}

// ApplyRedrive offers dead chunks again, and opens their submission if it has ended with dead ones.
func (m *machine) ApplyRedrive(op journal.Redrive) error {
	r := m.liveSeq(op.Seq)
	switch {
	case r == nil:
		row, told, err := m.fallen(op.Seq, m.idOf(op.Seq))
		if row == nil || err != nil || m.younger(told) {
			return err
		}
		if r, err = m.reopen(row); err != nil {
			return err
		}
	case m.replay && m.applied <= r.applied && !r.dirty:
		return nil
	}
	for _, index := range op.Indexes {
		t := r.tries[index]
		if t == nil || t.reason != journal.Dead {
			continue
		}
		t.reason, t.attempts, t.expiries, t.notBefore = journal.Redriven, 0, 0, 0
		t.redrives++
		m.died(r, index, -1)
		m.putBack(r, index)
	}
	m.touch(r)
	if r.over() {
		m.finish(r) // nothing of it was dead any more
	}
	return nil
}

// reopen brings an ended submission back, from what fallen found.
func (m *machine) reopen(row *store.Ended) (*record, error) {
	state, err := finalState(row.Final)
	if err != nil {
		return nil, err
	}
	if old := m.ended[row.ID]; old != nil { // its row is not to be written any more
		old.replaced = true
		m.rowed(old)
		m.order.remove(old)
		m.graves.remove(old)
		delete(m.ended, row.ID)
	}
	r, err := m.restored(row.Spec, state)
	if err != nil {
		return nil, err
	}
	m.entomb(r.id, 0)
	r.reopened = true
	m.opened++
	m.stats.completed += uint64(r.done)
	m.stats.skipped += uint64(r.skips)
	m.exhume(r)
	if !m.replay {
		m.expires(r)
		m.backlog.Settle(r.sub)
		m.show(r)
	}
	return r, nil
}

// idOf finds the id of a submission that has ended, when it is in memory; 0: it is not.
func (m *machine) idOf(seq uint32) queue.SubmissionID {
	if !m.replay {
		return 0 // moving knows it
	}
	for _, r := range m.gone {
		if r.seq == seq && m.ended[r.id] == r {
			return r.id
		}
	}
	return 0
}

// rowed notes that the history has no older row of this record any more.
func (m *machine) rowed(r *record) {
	if r.reopened {
		r.reopened = false
		m.opened--
	}
}

// expires has the submission end at its dead deadline.
func (m *machine) expires(r *record) {
	if at := r.details().deadDeadline; at != 0 {
		m.schedule(KindDeadDeadline, due{at: at, seq: r.seq})
	}
}
