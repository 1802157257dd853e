package deletions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Deletions has the calls about deletions, for callers and for the cleaner.
type Deletions struct {
	shell.Door[*Part]
	Means
}

// Means are the functions of the rest of the shard that deletions need.
type Means struct {
	Get func(ctx context.Context, id queue.SubmissionID) (queue.Submission, error)
	// Erase removes an ended submission with all its data. CodeUnavailable: not now. For an unknown one it does
	// nothing.
	Erase func(ctx context.Context, id queue.SubmissionID) error
}

// Face has the calls about deletions.
func Face(door shell.Door[*Part], means Means) *Deletions {
	return &Deletions{Door: door, Means: means}
}

// Delete removes an ended submission: its contents, outputs, attempts and dead letters. cancel makes an open one end
// first. It returns when all its data is gone. If it fails before that, but after the order is durable, the cleaner
// deletes the submission.
func (d *Deletions) Delete(ctx context.Context, id queue.SubmissionID, cancel bool, acts ...queue.Act) error {
	was, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	err = shell.Change(d, func(m *machine.Machine, now queue.Time) error {
		r := m.Live(id)
		switch {
		case r != nil && !r.Ending && !cancel:
			return &queue.Error{Code: queue.CodeConflict, Message: "The submission is open. Cancel it first, or send " +
				"cancel=true with the deletion."}
		case d.Room() == 0:
			return &queue.Error{Code: queue.CodeOverloaded, RetryAfter: time.Second, Message: fmt.Sprintf("%d "+
				"submissions of the queue are to be deleted already, the most at a time. The log says why they are "+
				"not gone. Delete this one later.", queue.MaxDeletions)}
		}
		d.Order(m, id, now)
		before := map[string]any{"state": was.State.String(), "chunks": was.Chunks, "done": was.Done}
		m.ActLog.Tell(now, acts, before, nil)
		return nil
	})
	if err != nil {
		return err
	}
	return d.erase(ctx, id)
}

// Room is how many deletions can be ordered now. The mutex is held.
func (d *Deletions) Room() int { return max(0, queue.MaxDeletions-len(d.Part().ordered)) }

// Order ends a submission if it is open, and encodes that it is to be deleted. The mutex is held.
func (d *Deletions) Order(m *machine.Machine, id queue.SubmissionID, now queue.Time) {
	if r := m.Live(id); r != nil {
		m.EndSubmission(r, queue.Cancelled, "", now)
	}
	m.Encode(now).Deletion(&journal.Deletion{ID: id})
}

func (d *Deletions) erase(ctx context.Context, id queue.SubmissionID) error {
	err := d.Erase(ctx, id)
	if err == nil {
		d.Look(func(*machine.Machine) { d.Part().done(id) })
	}
	return err
}

// Due deletes submissions whose ordered deletion is not done yet: the call broke off, or the server ended.
func (d *Deletions) Due(ctx context.Context) error {
	var ids []queue.SubmissionID
	d.Look(func(*machine.Machine) { ids = d.Part().Ordered() })
	var failed []error
	for _, id := range ids {
		if err := d.erase(ctx, id); err != nil && queue.CodeOf(err) != queue.CodeUnavailable {
			failed = append(failed, fmt.Errorf("submission %s: %w", id, err))
		}
	}
	return errors.Join(failed...)
}
