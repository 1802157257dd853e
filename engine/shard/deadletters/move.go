package deadletters

// The ops that change dead letters. An op names a submission, the indexes, and what happens to them. It passes over a
// chunk that is no longer dead, because another op may have come first in the same batch.
//
//	redrive   dead ─► ready, attempts 0         a submission that has ended opens again
//	offer     waiting ─► ready                  (the bulk action retry)
//	discard   dead ─► skipped                   a submission that has ended stays so, with its old end
//	forward   dead ─► forwarded, in the outbox  the same
//	delivered, stuck, renumber                  about the outbox alone

import (
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/marks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// redrive offers dead chunks again, and opens their submission if it has ended with dead ones.
// At a replay the row of the history may be younger than the op, and then the op is in effect already.
func (p *Part) redrive(op journal.Redrive) error {
	m := p.m
	r := m.LiveSeq(op.Seq)
	switch {
	case r == nil:
		row, known, err := p.endedFor(op.Seq, p.idOf(op.Seq))
		if row == nil || err != nil || p.younger(known) || row.State != queue.CompletedWithDead {
			return err
		}
		if r, err = p.reopen(row); err != nil {
			return err
		}
		machine.Reopened(r, m.Now)
	case m.Replay && m.AppliedAt <= r.AppliedAt && !r.Dirty:
		return nil
	}
	for _, index := range op.Indexes {
		t := r.Tries[index]
		if t == nil || t.Reason != journal.Dead {
			continue
		}
		t.Reason, t.Attempts, t.Expiries, t.NotBefore = journal.Redriven, 0, 0, 0
		t.Redrives = machine.OneMore(t.Redrives)
		machine.Died(m, r, index, -1)
		m.PutBack(r, index)
	}
	m.Touch(r)
	m.Finish(r) // perhaps nothing of it was dead any more
	return nil
}

// move does the action of a Move with every chunk that is still as it was at the decision. For discard and forward an
// ended submission is opened, changed and closed again within one op. No one can see it open, as the machine is locked,
// and its end keeps its time.
func (p *Part) move(op journal.Move) error {
	m := p.m
	switch op.Kind {
	case journal.MoveDelivered:
		p.delivered(&op)
		return nil
	case journal.MoveStuck:
		p.stuck(&op)
		return nil
	case journal.MoveRenumber:
		p.renumbered(&op)
		return nil
	}
	r := m.LiveSeq(op.Seq)
	if r != nil && m.Replay && m.AppliedAt <= r.AppliedAt && !r.Dirty {
		if op.Kind == journal.MoveForward {
			p.requeued(r, &op)
		}
		return nil
	}
	finished := queue.Time(0)
	if r == nil && op.Kind != journal.MoveOffer {
		row, known, err := p.endedFor(op.Seq, op.ID)
		if row == nil || err != nil {
			return err
		}
		if p.younger(known) {
			if op.Kind == journal.MoveForward {
				p.requeued(known, &op)
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
			p.moveOne(r, t, &op, i)
		}
	}
	m.Touch(r)
	if finished != 0 {
		marks.Hit("a submission stays ended while its dead letters go")
		machine.Reclose(m, r, finished)
	}
	return nil
}

// moveOne does it with the i-th chunk of the op.
func (p *Part) moveOne(r *machine.Record, t *machine.Try, op *journal.Move, i int) {
	index := op.Indexes[i]
	switch {
	case op.Kind == journal.MoveOffer:
		machine.Offer(p.m, r, index, t)
	case t.Reason != journal.Dead:
	case op.Kind == journal.MoveDiscard:
		t.Reason = journal.Skipped
		machine.GiveUp(p.m, r, index)
	case op.Kind == journal.MoveForward:
		p.sent(r, t, queue.Outgoing{Number: op.Number + uint64(i), Queue: op.Queue,
			Chunk: queue.ChunkID{Submission: r.ID, Index: index}})
	}
}

// reopen brings an ended submission back, from the row that endedFor found. Its letters are in their groups already, or
// will be. From here on memory has the submission, and is newer than the history until the next checkpoint.
func (p *Part) reopen(row *checkpoint.Ended) (*machine.Record, error) {
	if old := p.m.Endings.ByID[row.ID]; old != nil {
		marks.Hit("a submission is opened again before the history has it")
		p.Index.Remove(old)
	}
	r, err := machine.Reopen(p.m, row)
	if err != nil {
		return nil, err
	}
	p.Keep(r.ID, 0)
	if r.Dead > 0 {
		p.Index.Add(r)
	}
	return r, nil
}

// idOf finds the id of a submission that has ended, when it is in memory; 0: it is not.
// At a replay only the number is known. In operation `moving` has the id, as the caller read the row before it
// decided.
func (p *Part) idOf(seq uint32) queue.SubmissionID {
	m := p.m
	if !m.Replay {
		return 0 // the part's moving map has the id
	}
	for _, r := range m.Endings.InOrder {
		if r.Seq == seq && m.Endings.ByID[r.ID] == r {
			return r.ID
		}
	}
	return 0
}

// endedFor finds an ended submission for an op, with its row: in memory, as read when the op was decided, or, at
// recovery, in the history. nil: there is none. At recovery the row may be younger than the op, and in any state: this
// very op may have taken the submission's last dead letters.
func (p *Part) endedFor(seq uint32, id queue.SubmissionID) (row *checkpoint.Ended, known *machine.Record, err error) {
	m := p.m
	v := p.moving[seq]
	if v != nil {
		id = v.id
	}
	switch r := m.Endings.ByID[id]; {
	case r != nil:
		row = new(r.EndedRow()) // none of its chunks is reserved
	case v != nil:
		marks.Hit("a submission is opened again out of the history")
		row = v.row
	case m.Replay:
		found, err := m.Recovery.History.Past(seq)
		if found == nil || err != nil {
			return nil, nil, err
		}
		return found.Row, found.Record, nil
	}
	if row == nil {
		return nil, nil, nil
	}
	known, _, err = machine.EndedRecord(row)
	return row, known, err
}

// younger says that a record already has the op that is being applied: at recovery, if it comes from a row of the
// history. A record that ended in the replay itself has only the ops before this one, perhaps of the same batch.
func (p *Part) younger(known *machine.Record) bool {
	return p.m.Replay && p.m.Endings.ByID[known.ID] == nil && p.m.AppliedAt <= known.AppliedAt
}
