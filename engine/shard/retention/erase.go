package retention

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/store"
)

// errPinned says that a submission stays for now, because another queue needs the contents of forwarded chunks.
var errPinned = &queue.Error{Code: queue.CodeUnavailable, RetryAfter: time.Second, Message: "Chunks of the " +
	"submission are being forwarded to another queue. It is deleted as soon as they have arrived."}

// errRedriven says that a submission was opened again at the last moment.
var errRedriven = &queue.Error{Code: queue.CodeUnavailable, RetryAfter: time.Second, Message: "Chunks of the " +
	"submission were redriven meanwhile. It is ended again and deleted within seconds."}

// Erase removes one submission with all that belongs to it, whatever its age: it ends it if it is open, gives up its
// dead letters, and deletes it from the history. For an unknown submission it does nothing. After CodeUnavailable it is
// to be called again.
func (r *Retention) Erase(ctx context.Context, id queue.SubmissionID) error {
	if err := r.end(id); err != nil {
		return err
	}
	if err := r.giveUp(ctx, id); err != nil {
		return err
	}
	r.History.Lock()
	defer r.History.Unlock()
	var due bool
	var stays error
	r.Look(func(m *machine.Machine) {
		pinned, known := r.Part().Pinned()
		switch {
		case m.Live(id) != nil || r.Part().Holders()[id] > 0:
			stays = errRedriven
		case pinned[id] || !known:
			stays = errPinned
		}
		due = m.Endings.ByID[id] != nil || m.Endings.Opened > 0
	})
	if stays != nil {
		return stays
	}
	if due || r.Ahead() { // as in Retain
		if err := r.Checkpoint(); err != nil {
			return err
		}
	}
	return r.erase(ctx, id)
}

// erase deletes a submission from the history, if it is there. History is held.
func (r *Retention) erase(ctx context.Context, id queue.SubmissionID) error {
	row, found, err := r.Store().History.Ended(ctx, id)
	if err != nil || !found {
		return err
	}
	others := func(other queue.SubmissionID, _ queue.Time) bool { return other != id }
	list, err := r.Store().History.Outlived(ctx, row.Finished, row.Finished+1, 1, others)
	if err != nil {
		return err
	}
	return r.forget(ctx, list)
}

func (r *Retention) forget(ctx context.Context, list []store.Outlived) error {
	removed, err := r.Store().History.Forget(ctx, list)
	r.Look(func(m *machine.Machine) {
		for _, gone := range list[:removed] {
			r.Part().Keep(gone.ID, 0)
			r.Part().Forget(gone.ID)
			m.Uniques.Release(gone.Seq)
		}
	})
	return err
}

// end ends a submission that is open: it was redriven after it was ordered to be deleted.
func (r *Retention) end(id queue.SubmissionID) error {
	return shell.Change(r, func(m *machine.Machine, now queue.Time) error {
		if live := m.Live(id); live != nil {
			m.EndSubmission(live, queue.Cancelled, "", now)
		}
		return nil
	})
}

// giveUp gives up all dead letters of a submission.
func (r *Retention) giveUp(ctx context.Context, id queue.SubmissionID) error {
	for f := (queue.BulkFilter{Dead: queue.DeadFilter{Submission: id}}); ; {
		page, err := r.Letters.List(ctx, f, queue.ChunkID{}, ageLook)
		if err != nil || len(page) == 0 {
			return err
		}
		indexes := make([]uint32, 0, len(page))
		for i := range page {
			indexes = append(indexes, page[i].Chunk.Index)
		}
		if n, err := r.giveUpPage(ctx, id, indexes); err != nil || n == 0 {
			return err // the letters are moving: Erase looks again
		}
	}
}

func (r *Retention) giveUpPage(ctx context.Context, id queue.SubmissionID, indexes []uint32) (n int, err error) {
	r.History.RLock()
	defer r.History.RUnlock()
	n, c, err := r.Letters.GiveUp(ctx, id, indexes)
	if err == nil {
		err = r.Wait(commit.Set{First: c})
	}
	if queue.CodeOf(err) == queue.CodeUnknownSubmission {
		return 0, nil
	}
	return n, err
}
