package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// recallLetters counts and groups the dead letters of the history.
func recallLetters(ctx context.Context, from *store.Store, m *machine.Machine, letters *deadletters.Part) error {
	for before, more := queue.SubmissionID(0), true; more; {
		rows, err := from.History.ListEnded(ctx, before, []queue.SubmissionState{queue.CompletedWithDead}, machine.ListSlice)
		if err != nil {
			return err
		}
		for i := range rows {
			before = rows[i].ID
			if m.Record(before) != nil {
				continue // opened again, or what is in memory is younger
			}
			r, _, err := machine.EndedRecord(&rows[i])
			if err != nil {
				return err
			}
			if r.Dead > 0 {
				letters.Recall(r)
			}
		}
		more = len(rows) == machine.ListSlice
	}
	return nil
}
