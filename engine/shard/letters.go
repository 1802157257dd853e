package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// This file keeps what the machine knows of dead letters: dead chunks of open submissions, and of those that completed with
// dead ones.

// died counts dead chunks of an open submission, or (less than 0) no longer.
func (m *machine) died(r *record, delta int) {
	before := r.dead
	r.dead += uint32(delta)
	m.stats.dead += uint64(delta)
	switch {
	case before == 0 && r.dead > 0:
		m.graves.add(r)
	case before > 0 && r.dead == 0:
		m.graves.remove(r)
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
func (m *machine) deleted(r *record, t *try, reason journal.ReturnReason) {
	t.deciding = false
	if reason != journal.Skipped || t.reason != journal.Dead {
		return
	}
	t.reason = journal.Skipped
	m.died(r, -1)
	r.skips++
	m.stats.skipped++
	m.touch(r)
}

// revival is an ended submission that is about to be opened again.
type revival struct {
	row   *store.Ended
	taken map[uint32]bool // chunks that redrives on their way to the disk are for
}

// ApplyRedrive offers dead chunks again, and opens their submission if it has ended with dead ones.
func (m *machine) ApplyRedrive(op journal.Redrive) error {
	r := m.liveSeq(op.Seq)
	switch {
	case r == nil:
		var err error
		if r, err = m.reopen(op.Seq); r == nil {
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
		t.reason, t.attempts, t.expiries, t.notBefore, t.deciding = journal.Redriven, 0, 0, 0, false
		t.redrives++
		m.died(r, -1)
		m.putBack(r, index)
	}
	m.touch(r)
	if r.over() {
		m.finish(r) // nothing of it was dead any more
	}
	return nil
}

// reopen brings an ended submission back. nil: it ended otherwise, or what its row tells is younger than the op.
func (m *machine) reopen(seq uint32) (*record, error) {
	row, err := m.endedRow(seq)
	if row == nil || err != nil || row.State != queue.CompletedWithDead {
		return nil, err
	}
	told, _, err := endedRecord(row)
	if err != nil || m.replay && m.applied <= told.applied {
		return nil, err
	}
	old := m.ended[row.ID]
	state, err := finalState(row.Final)
	if err != nil {
		return nil, err
	}
	r, err := m.restored(row.Spec, state)
	if err != nil {
		return nil, err
	}
	if old != nil { // only at recovery: its row is not to be written any more
		old.folded = true
		m.order.remove(old)
		delete(m.ended, row.ID)
	}
	m.entomb(r.id, 0)
	r.reopened = true
	m.opened++
	delete(m.revive, seq)
	m.stats.completed += uint64(r.done)
	m.stats.skipped += uint64(r.skips)
	dead := r.dead
	r.dead = 0
	m.died(r, int(dead))
	if !m.replay {
		m.expires(r)
		m.backlog.Settle(r.sub)
		m.show(r)
	}
	return r, nil
}

// endedRow is the history row of an ended submission: as it was read for this redrive, or, at recovery, from where it is.
func (m *machine) endedRow(seq uint32) (*store.Ended, error) {
	if v := m.revive[seq]; v != nil {
		return v.row, nil
	}
	if !m.replay {
		return nil, nil
	}
	for _, r := range m.gone {
		if r.seq == seq && m.ended[r.id] == r {
			return r.endedRow(), nil
		}
	}
	return m.row(seq)
}

// rowed notes that the history has no older row of this record any more.
func (m *machine) rowed(r *record) {
	if r.reopened {
		r.reopened = false
		m.opened--
	}
}

// undecide forgets what a failed batch was to do with dead letters.
func (m *machine) undecide(b *batch) {
	for _, r := range b.dying {
		r.dying--
	}
	for _, t := range b.letter {
		t.deciding = false
	}
	m.unbusy(b)
	for _, seq := range b.revive {
		delete(m.revive, seq)
	}
}

// expires has the submission end at its dead deadline.
func (m *machine) expires(r *record) {
	if at := r.details().deadDeadline; at != 0 {
		m.schedule(KindDeadDeadline, due{at: at, seq: r.seq})
	}
}
