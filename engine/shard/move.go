package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// applyMove does what a Move says with every chunk that is still as it was when it was decided.
func (p *deadLetters) applyMove(op journal.Move) error {
	m := p.m
	switch op.Kind {
	case journal.MoveDelivered:
		m.forwarding.delivered(&op)
		return nil
	case journal.MoveStuck:
		m.forwarding.stuck(&op)
		return nil
	case journal.MoveRenumber:
		m.forwarding.renumbered(&op)
		return nil
	}
	r := m.liveSeq(op.Seq)
	if r != nil && m.replay && m.applied <= r.applied && !r.dirty {
		if op.Kind == journal.MoveForward {
			m.forwarding.requeued(r, &op)
		}
		return nil
	}
	finished := queue.Time(0)
	if r == nil && op.Kind != journal.MoveOffer {
		row, known, err := p.endedFor(op.Seq, op.ID)
		if row == nil || err != nil {
			return err
		}
		if m.younger(known) {
			if op.Kind == journal.MoveForward {
				m.forwarding.requeued(known, &op)
			}
			return nil
		}
		if row.State != queue.CompletedWithDead {
			return nil
		}
		finished = row.Finished
		if r, err = p.reopen(row); err != nil {
			return err
		}
	}
	if r == nil {
		return nil
	}
	for i, index := range op.Indexes {
		if t := r.tries[index]; t != nil {
			p.move(r, t, &op, i)
		}
	}
	m.touch(r)
	if finished != 0 { // it stays ended, as it was
		m.stats.submissionEnd--
		m.stats.endedAs[queue.CompletedWithDead]--
		m.end(r, queue.CompletedWithDead, "")
		r.ended.at = finished
		if r.dead == 0 {
			m.free(finished)
		}
	}
	return nil
}

// move does it with the i-th chunk of the op.
func (p *deadLetters) move(r *record, t *try, op *journal.Move, i int) {
	index := op.Indexes[i]
	switch {
	case op.Kind == journal.MoveOffer:
		p.m.offer(r, index, t)
	case t.reason != journal.Dead:
	case op.Kind == journal.MoveDiscard:
		t.reason = journal.Skipped
		p.giveUp(r, index)
	case op.Kind == journal.MoveForward:
		p.m.forwarding.sent(r, t, queue.Outgoing{Number: op.Number + uint64(i), Queue: op.Queue,
			Chunk: queue.ChunkID{Submission: r.id, Index: index}})
	}
}

// giveUp counts a dead chunk that is given up here.
func (p *deadLetters) giveUp(r *record, index uint32) {
	p.died(r, index, -1)
	r.skips++
	p.m.recount.tallied(r, r.tries[index]).skips++
	p.m.stats.skipped++
}

// offer ends the waiting of a chunk before its time. At a replay what its row tells waits only from the end of the replay on.
func (m *machine) offer(r *record, index uint32, t *try) {
	switch {
	case t.gone() || m.isHeld(r, index):
	case t.waiting:
		m.undelay(r, index, t)
		t.notBefore = 0
		m.putBack(r, index)
	case m.replay:
		t.notBefore = 0
	}
}

// endedFor finds an ended submission for an op, with what its row tells: in memory, as it was read when the op was decided, or, at
// recovery, in the history. nil: there is none. At recovery its row may be younger than the op, and then in any state: the last of its
// dead letters may have left with this very op.
func (p *deadLetters) endedFor(seq uint32, id queue.SubmissionID) (row *store.Ended, known *record, err error) {
	m := p.m
	v := p.moving[seq]
	if v != nil {
		id = v.id
	}
	switch r := m.ended[id]; {
	case r != nil:
		row = r.endedRow() // nothing of it is reserved
	case v != nil:
		row = v.row
	case m.replay:
		found, err := m.history.past(seq)
		if found == nil || err != nil {
			return nil, nil, err
		}
		return found.row, found.record, nil
	}
	if row == nil {
		return nil, nil, nil
	}
	known, _, err = endedRecord(row)
	return row, known, err
}

// younger says that a record holds what the op that is being applied did, or more.
func (m *machine) younger(known *record) bool { return m.replay && m.applied <= known.applied }
