package machine

import (
	"encoding/binary"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file counts the dead chunks of submissions, and opens a submission again that ended
// with some. What can become of dead letters is the affair of their part.

// deaths is the part of the machine that counts the chunks of open submissions that are dead.
type deaths struct{ m *Machine }

// Died notes that a chunk of an open submission is dead, or (delta -1) no longer.
func (p *deaths) Died(r *Record, index uint32, delta int) {
	p.m.Counting.dies(r, index, delta)
	for _, died := range p.m.Joined.Died {
		died(r, index, delta)
	}
}

// recount counts the dead chunks of a submission that is open again, or was when the shard closed.
func (p *deaths) recount(r *Record) {
	r.Dead = 0
	for index, t := range r.Tries {
		if t.Reason == journal.Dead {
			p.m.Counting.dies(r, index, 1)
		}
	}
}

// GiveUp notes that a dead chunk is given up here, for the reason that is in its try already.
func (p *deaths) GiveUp(r *Record, index uint32) {
	p.Died(r, index, -1)
	p.m.Counting.skips(r, index)
}

// Offer ends the waiting of a chunk before its time. At a replay what its row tells waits
// only from the end of the replay on.
// During a replay the timers do not exist yet. It only clears the time; the end of the replay then sorts every chunk
// with a try into ready or waiting.
func (p *deaths) Offer(r *Record, index uint32, t *Try) {
	m := p.m
	switch {
	case t.Gone() || m.IsHeld(r, index):
	case t.Waiting:
		m.Delays.end(r, index, t)
		t.NotBefore = 0
		m.PutBack(r, index)
	case m.Replay:
		t.NotBefore = 0
	}
}

// Reopen brings an ended submission back, from its history row, or what that would be.
// The history row has all that an open record needs, so a redrive after a year costs one read. The row leaves the
// history in the checkpoint that writes the open one (Reopened): until then both exist, and the open one counts.
//
//	history row ─ restored ─► Record ─► tries counted again ─► shown to views, its unique key held again
func (p *deaths) Reopen(row *checkpoint.Ended) (*Record, error) {
	m := p.m
	state, err := finalState(row.Final)
	if err != nil {
		return nil, err
	}
	if old := m.Endings.ByID[row.ID]; old != nil { // its row is not to be written any more
		old.Ended.replaced = true
		m.Endings.Rowed(old)
		m.Order.Remove(old)
		delete(m.Endings.ByID, row.ID)
	}
	r, err := m.Recovery.restored(row.Spec, state)
	if err != nil {
		return nil, err
	}
	r.Reopened = true
	m.Endings.Opened++
	m.Stats.Completed += uint64(r.Done)
	m.Stats.Skipped += uint64(r.Skips)
	p.recount(r)
	if !m.Replay {
		m.expires(r)
		m.Uniques.opened(r)
		m.Backlog.ShrinkSkips(r.Sub)
		m.Backlog.Rules.SetSubmission(r.Sub, m.Joined.Rules.Own(r))
		m.show(r)
	}
	return r, nil
}

// Reclose ends a submission that was opened only to change what is dead in it: it stays ended, as it was.
// Ends are counted once: the counters go back by what m.end adds again. The time of the end stays, so that a deletion
// of its last letter does not make a submission look younger than it is.
func (p *deaths) Reclose(r *Record, finished queue.Time) {
	m := p.m
	m.Stats.SubmissionEnd--
	m.Stats.EndedAs[queue.CompletedWithDead]--
	m.end(r, queue.CompletedWithDead, "")
	r.Ended.At = finished
	if r.Dead == 0 {
		m.Endings.free(finished)
	}
}

// finalState is the state in the changing part of a history row, which begins with the reason of the end.
func finalState(final []byte) ([]byte, error) {
	n, size := binary.Uvarint(final)
	if size <= 0 || n > uint64(len(final)-size) {
		return nil, ErrSnapshot
	}
	return final[size+int(n):], nil
}
