package machine

import (
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// applyMove does what a Move says with every chunk that is still as it was when it was decided.
func (p *deadLetters) applyMove(op journal.Move) error {
	m := p.m
	switch op.Kind {
	case journal.MoveDelivered:
		m.Forwarding.delivered(&op)
		return nil
	case journal.MoveStuck:
		m.Forwarding.stuck(&op)
		return nil
	case journal.MoveRenumber:
		m.Forwarding.renumbered(&op)
		return nil
	}
	r := m.LiveSeq(op.Seq)
	if r != nil && m.Replay && m.AppliedAt <= r.AppliedAt && !r.Dirty {
		if op.Kind == journal.MoveForward {
			m.Forwarding.requeued(r, &op)
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
				m.Forwarding.requeued(known, &op)
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
		if t := r.Tries[index]; t != nil {
			p.move(r, t, &op, i)
		}
	}
	m.Touch(r)
	if finished != 0 { // it stays ended, as it was
		m.Stats.SubmissionEnd--
		m.Stats.EndedAs[queue.CompletedWithDead]--
		m.end(r, queue.CompletedWithDead, "")
		r.Ended.At = finished
		if r.Dead == 0 {
			m.free(finished)
		}
	}
	return nil
}

// move does it with the i-th chunk of the op.
func (p *deadLetters) move(r *Record, t *Try, op *journal.Move, i int) {
	index := op.Indexes[i]
	switch {
	case op.Kind == journal.MoveOffer:
		p.m.offer(r, index, t)
	case t.Reason != journal.Dead:
	case op.Kind == journal.MoveDiscard:
		t.Reason = journal.Skipped
		p.giveUp(r, index)
	case op.Kind == journal.MoveForward:
		p.m.Forwarding.sent(r, t, queue.Outgoing{Number: op.Number + uint64(i), Queue: op.Queue,
			Chunk: queue.ChunkID{Submission: r.ID, Index: index}})
	}
}

// giveUp counts a dead chunk that is given up here.
func (p *deadLetters) giveUp(r *Record, index uint32) {
	p.died(r, index, -1)
	r.Skips++
	p.m.Counting.tallied(r, r.Tries[index]).Skips++
	p.m.Stats.Skipped++
}

// offer ends the waiting of a chunk before its time. At a replay what its row tells waits only from the end of the replay on.
func (m *Machine) offer(r *Record, index uint32, t *Try) {
	switch {
	case t.Gone() || m.IsHeld(r, index):
	case t.Waiting:
		m.undelay(r, index, t)
		t.NotBefore = 0
		m.putBack(r, index)
	case m.Replay:
		t.NotBefore = 0
	}
}

// endedFor finds an ended submission for an op, with what its row tells: in memory, as it was read when the op was decided, or, at
// recovery, in the history. nil: there is none. At recovery its row may be younger than the op, and then in any state: the last of its
// dead letters may have left with this very op.
func (p *deadLetters) endedFor(seq uint32, id queue.SubmissionID) (row *checkpoint.Ended, known *Record, err error) {
	m := p.m
	v := p.Moving[seq]
	if v != nil {
		id = v.id
	}
	switch r := m.Ended[id]; {
	case r != nil:
		row = r.EndedRow() // nothing of it is reserved
	case v != nil:
		row = v.Row
	case m.Replay:
		found, err := m.History.Past(seq)
		if found == nil || err != nil {
			return nil, nil, err
		}
		return found.Row, found.Record, nil
	}
	if row == nil {
		return nil, nil, nil
	}
	known, _, err = EndedRecord(row)
	return row, known, err
}

// younger says that a record holds what the op that is being applied did, or more.
func (m *Machine) younger(known *Record) bool { return m.Replay && m.AppliedAt <= known.AppliedAt }
