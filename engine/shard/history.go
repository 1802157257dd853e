package shard

import (
	"context"
	"encoding/binary"

	"github.com/quern-queue/quern/engine/queue"
)

// finalState is the state in the changing part of a history row, which begins with the reason of the end.
func finalState(final []byte) ([]byte, error) {
	n, size := binary.Uvarint(final)
	if size <= 0 || n > uint64(len(final)-size) {
		return nil, errSnapshot
	}
	return final[size+int(n):], nil
}

// Retain removes ended submissions that finished before the given time from the history, at most `most`, with all that
// belongs to them, their dead letters too.
func (s *Shard) Retain(ctx context.Context, finishedBefore queue.Time, most int) error {
	s.aging.Lock()
	defer s.aging.Unlock()
	s.mu.Lock()
	m := s.m
	fold := m.opened > 0 // then the history still has rows of submissions that are open again
	fold = fold || len(m.gone) > 0 && m.gone[0].ended.at < finishedBefore
	s.mu.Unlock()
	if fold {
		if err := s.Fold(); err != nil {
			return err
		}
	}
	finishedBefore, err := s.pinned(ctx, finishedBefore)
	if err != nil {
		return err
	}
	ids, err := s.store.Retain(ctx, finishedBefore, most)
	s.mu.Lock()
	for _, id := range ids {
		s.m.entomb(id, 0)
	}
	s.mu.Unlock()
	return err
}

// pinMost is how many dead letters on their way are looked up for the retention; with more of them it waits.
const pinMost = 1000

// pinned moves the time before which ended submissions go, so that none goes of which the outbox still has something: the other queue
// needs its content.
func (s *Shard) pinned(ctx context.Context, before queue.Time) (queue.Time, error) {
	list := s.Outgoing(0, pinMost)
	if len(list) == pinMost {
		return 0, nil
	}
	last := queue.SubmissionID(0)
	for _, o := range list {
		if o.Chunk.Submission == last {
			continue
		}
		last = o.Chunk.Submission
		row, found, err := s.store.Ended(ctx, last)
		if err != nil {
			return 0, err
		}
		if found {
			before = min(before, row.Finished)
		}
	}
	return before, nil
}

// recallLetters counts the dead letters of the history.
func (s *Shard) recallLetters(ctx context.Context, m *machine) error {
	for before, more := queue.SubmissionID(0), true; more; {
		rows, err := s.store.ListEnded(ctx, before, []queue.SubmissionState{queue.CompletedWithDead}, listSlice)
		if err != nil {
			return err
		}
		for i := range rows {
			before = rows[i].ID
			if m.record(before) != nil {
				continue // opened again, or what is in memory is younger
			}
			r, _, err := endedRecord(&rows[i])
			if err != nil {
				return err
			}
			if r.dead > 0 {
				m.letters[r.id] = r.dead
			}
		}
		more = len(rows) == listSlice
	}
	return nil
}
