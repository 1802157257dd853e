package deadletters

import (
	"context"
	"sync"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Letters are the dead letters of a shard, as its callers see them.
type Letters struct {
	shell.Door[*Part]
	history   sync.Locker
	endings   Endings
	Bytes     Bytes                        // reads contents
	replacing sync.Mutex                   // one change of a content at a time
	regroup   locks.Mutex[shell.InRegroup] // one regrouping of letters at a time
}

// Endings finds submissions of the shard that have ended.
type Endings interface {
	// EndedRow is the row of an ended submission, whether the history has it yet or not.
	EndedRow(ctx context.Context, id queue.SubmissionID) (*checkpoint.Ended, error)
}

// Face has the calls about letters. They hold history while they change letters, so that the history loses no
// submission meanwhile.
func Face(door shell.Door[*Part], history sync.Locker, endings Endings) *Letters {
	return &Letters{Door: door, history: history, endings: endings}
}

// Redrive offers dead chunks of a submission again, with no try counted, and says how many. Chunks of the indexes that
// are not dead stay as they are. A submission that completed with dead chunks is open again. It returns after the
// commit. The indexes ascend.
func (l *Letters) Redrive(ctx context.Context, id queue.SubmissionID, indexes []uint32,
	acts ...queue.Act) (n int, err error) {
	return l.actOn(ctx, id, indexes, Fate{Action: queue.BulkRedrive}, acts...)
}

// Delete gives dead chunks of a submission up for good: they count as skipped from then
// on. Otherwise it is as Redrive.
func (l *Letters) Delete(ctx context.Context, id queue.SubmissionID, indexes []uint32,
	acts ...queue.Act) (n int, err error) {
	return l.actOn(ctx, id, indexes, Fate{Action: queue.BulkDelete}, acts...)
}

// Forward has dead chunks of a submission leave for another queue: they count as skipped
// from then on. Otherwise it is as Redrive.
func (l *Letters) Forward(ctx context.Context, id queue.SubmissionID, indexes []uint32, to string,
	acts ...queue.Act) (n int, err error) {
	return l.actOn(ctx, id, indexes, Fate{Action: queue.BulkForward, To: to}, acts...)
}

// actOn does one thing with dead letters of a submission, and says with how many.
func (l *Letters) actOn(ctx context.Context, id queue.SubmissionID, indexes []uint32, f Fate,
	acts ...queue.Act) (n int, err error) {
	l.history.Lock()
	defer l.history.Unlock()
	n, c, err := l.begin(ctx, id, indexes, f, acts...)
	if err == nil && n > 0 {
		err = l.Wait(commit.Set{First: c})
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// begin is actOn without the wait for the commit, until which the caller holds the history.
func (l *Letters) begin(ctx context.Context, id queue.SubmissionID, indexes []uint32, f Fate,
	acts ...queue.Act) (n int, c *commit.Commit, err error) {
	c, err = l.at(ctx, id, func(m *machine.Machine, h *Holder, now queue.Time) error {
		if why := h.Refusal(f.Action, now); why != "" {
			return &queue.Error{Code: queue.CodeConflict, Message: "Submission " + id.String() + " " + why +
				": nothing can become of its dead chunks. Insert the work again."}
		}
		taken := h.Take(indexes)
		if n = len(taken); n > 0 {
			h.Decide(f, taken, now)
			m.ActLog.Tell(now, acts, nil, nil)
		}
		return nil
	})
	return n, c, err
}

// GiveUp is Delete without the wait for the commit that it returns. The caller holds the
// history until then.
func (l *Letters) GiveUp(ctx context.Context, id queue.SubmissionID,
	indexes []uint32) (n int, c *commit.Commit, err error) {
	return l.begin(ctx, id, indexes, Fate{Action: queue.BulkDelete})
}

// ActOn calls fn once, with the mutex held. In fn, act does the action of a bulk operation with those of the indexes
// that are dead letters of the submission, as far as their state allows it. The caller holds the history until the
// commit that is returned.
func (l *Letters) ActOn(ctx context.Context, id queue.SubmissionID, indexes []uint32, r *queue.BulkRequest,
	fn func(now queue.Time, act func() (done, refused int))) (*commit.Commit, error) {
	return l.at(ctx, id, func(_ *machine.Machine, h *Holder, now queue.Time) error {
		fn(now, func() (done, refused int) {
			if h.Refusal(r.Action, now) != "" {
				return 0, len(indexes)
			}
			taken := h.Take(indexes)
			if len(taken) > 0 && !r.DryRun {
				h.Decide(Fate{Action: r.Action, To: r.To}, taken, now)
			}
			return len(taken), 0
		})
		return nil
	})
}

// at calls act with the dead letters of a submission, once, with the mutex held, and
// returns the commit to wait for. act encodes. The caller holds the history until the
// commit. CodeUnknownSubmission: there is no such submission.
func (l *Letters) at(ctx context.Context, id queue.SubmissionID,
	act func(m *machine.Machine, h *Holder, now queue.Time) error) (*commit.Commit, error) {
	var ended *machine.Record
	var row *checkpoint.Ended
	var rows uint64 // how many history rows had been written when this one was read
	for {
		var h *Holder
		c, err := l.Begin(func(m *machine.Machine, now queue.Time) error {
			if rows != m.Rows {
				row = nil
			}
			if h = l.Part().Holder(id, ended, row); h != nil {
				return act(m, h, now)
			}
			rows = m.Rows
			return nil
		})
		if h != nil || err != nil {
			return c, err
		}
		if ended, row, err = past(ctx, l, id); err != nil {
			return nil, err
		}
	}
}

// past reads a submission from the history.
func past(ctx context.Context, from shell.Shell, id queue.SubmissionID) (*machine.Record, *checkpoint.Ended, error) {
	row, found, err := from.Store().History.Ended(ctx, id)
	if err == nil && !found {
		err = queue.UnknownSubmission(id)
	}
	if err != nil {
		return nil, nil, err
	}
	r, _, err := machine.EndedRecord(&row)
	return r, &row, err
}
