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

// recallLetters counts and groups the dead letters of the history, and calls each for every submission that has some.
func (s *Shard) recallLetters(ctx context.Context, m *machine, each func(*record)) error {
	for before, more := queue.SubmissionID(0), true; more; {
		rows, err := s.store.History.ListEnded(ctx, before, []queue.SubmissionState{queue.CompletedWithDead}, listSlice)
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
				m.letters.ofEnded[r.id] = r.dead
				m.letters.groups.addAll(r)
				each(r)
			}
		}
		more = len(rows) == listSlice
	}
	return nil
}
