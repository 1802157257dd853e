package machine

import (
	"encoding/binary"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file counts the dead chunks of submissions, and reopens a submission that ended with some. The part deadletters
// does the rest: redrive, delete and forward.

// Died notes that a chunk of an open submission is dead, or (delta -1) no longer.
func Died(m *Machine, r *Record, index uint32, delta int) {
	m.Counting.dies(r, index, delta)
	for _, died := range m.Joined.Died {
		died(r, index, delta)
	}
}

// recountDead counts the dead chunks of a submission that is open again, or was when the shard closed.
func recountDead(m *Machine, r *Record) {
	r.Dead = 0
	for index, t := range r.Tries {
		if t.Reason == journal.Dead {
			m.Counting.dies(r, index, 1)
		}
	}
}

// GiveUp notes that a dead chunk is given up here, for the reason that is in its try already.
func GiveUp(m *Machine, r *Record, index uint32) {
	Died(m, r, index, -1)
	m.Counting.skips(r, index)
}

// Offer ends the waiting of a chunk before its time. During a replay there are no timers yet, so it only clears the
// time; the end of the replay then sorts every chunk with a try into ready or waiting.
func Offer(m *Machine, r *Record, index uint32, t *Try) {
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

// Reopen brings an ended submission back, from its history row, written or not. The row has all that an open record
// needs, so a redrive after a year costs one read. The row leaves the history in the checkpoint that writes the open
// one (Reopened): until then both exist, and the open one counts.
//
//	history row ─ restored ─► Record ─► tries counted again ─► shown to views, its unique key held again
func Reopen(m *Machine, row *checkpoint.Ended) (*Record, error) {
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
	recountDead(m, r)
	if !m.Replay {
		m.expires(r)
		m.Uniques.opened(r)
		m.Backlog.ShrinkSkips(r.Sub)
		m.Backlog.Rules.SetSubmission(r.Sub, m.Joined.Rules.Own(r))
		m.show(r)
	}
	return r, nil
}

// Reclose ends a submission that was opened only to change its dead letters: its end stays as it was. Ends are counted
// once, so it first takes back the counts that m.end adds again. The time of the end stays, so that a deletion of its
// last letter does not make a submission look younger than it is.
func Reclose(m *Machine, r *Record, finished queue.Time) {
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
