package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// takeOld takes the keys of a file from before version 10 out of its submissions, whose specs had them. The migration leaves an empty row
// that says that this is yet to be done.
func (k *Keys) takeOld(ctx context.Context) error {
	if !k.old {
		return nil
	}
	var list []checkpoint.Key
	last := queue.SubmissionID(1)
	take := func(id queue.SubmissionID, spec []byte) error {
		last = max(last, id)
		s, err := journal.DecodeInsert(spec)
		if err == nil && s.IdempotencyKey != "" {
			list = append(list, checkpoint.Key{Hash: queue.HashKey(s.IdempotencyKey), Fingerprint: s.Fingerprint, ID: id, At: id.Time()})
		}
		return err
	}
	err := k.s.Load(ctx, func(row checkpoint.Row) error { return take(row.ID, row.Spec) })
	if err == nil {
		since := queue.MakeSubmissionID(max(last.Time().Add(-2*queue.IdempotencyWindow), 1), 0, 0)
		err = k.s.History.EndedKeyed(ctx, since, func(e *checkpoint.Ended) error { return take(e.ID, e.Spec) })
	}
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b checkpoint.Key) int { return cmp.Compare(a.ID, b.ID) })
	since := last.Time().Add(-queue.IdempotencyWindow)
	list = slices.DeleteFunc(list, func(key checkpoint.Key) bool { return key.At < since })
	if err := k.Put(ctx, list); err != nil {
		return err
	}
	return k.s.tx(ctx, func(w *writer) error {
		_, err := w.dropKeySlot.Exec(int64(0))
		return err
	})
}
