package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/sdk/api"
)

// quarantined is a queue whose files are damaged or missing, or that another server has taken over. Other queues serve. Each start tries to
// open it again, and so does retake if it has moved.
type quarantined struct {
	store.QueueRow
	reason error
}

// quarantine are the queues that do not serve. It is guarded by Engine.mu.
type quarantine []quarantined

func (all quarantine) find(name string) *quarantined {
	at := slices.IndexFunc(all, func(q quarantined) bool { return q.Name == name })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// without is the quarantine when a queue of it serves again.
func (all quarantine) without(shard queue.ShardID) quarantine {
	return slices.DeleteFunc(all, func(q quarantined) bool { return q.Shard == shard })
}

func (all quarantine) has(shard queue.ShardID) bool {
	return slices.ContainsFunc(all, func(q quarantined) bool { return q.Shard == shard })
}

// absent refuses a call for a queue that does not serve or does not exist. It does not give the reason, which has paths of the server in
// it: only callers that may read the queue get it.
func (all quarantine) absent(name string) error {
	if q := all.find(name); q != nil {
		return q.refusal()
	}
	return unknownQueue(name)
}

// missing refuses a submission of a shard that no serving queue has.
func (all quarantine) missing(id queue.SubmissionID) error {
	for i := range all {
		if all[i].Shard == id.Shard() {
			return all[i].refusal()
		}
	}
	return &queue.Error{Code: queue.CodeUnknownSubmission,
		Message: fmt.Sprintf("There is no submission %s: the id belongs to no shard of this server.", id)}
}

// moved says whether another server has the queue: its files are sound, and not this server's to change.
func (q *quarantined) moved() bool { return hasMoved(q.reason) }

func hasMoved(err error) bool {
	code := queue.CodeOf(err)
	return code == queue.CodeMoved || code == queue.CodeMoving
}

// Aside is the cause of an error about a queue that exists and does not serve. It names the queue.
type Aside struct{ Queue string }

func (e *Aside) Error() string { return fmt.Sprintf("the queue %q does not serve", e.Queue) }

func (q *quarantined) refusal() error {
	if moved, is := errors.AsType[*queue.Error](q.reason); is && q.moved() {
		return &queue.Error{Code: moved.Code, Message: moved.Message, Err: &Aside{q.Name}}
	}
	return &queue.Error{Code: queue.CodeQuarantined, Err: &Aside{q.Name}, Message: fmt.Sprintf("The queue %q is in quarantine: "+
		"its files are damaged or missing. The other queues serve. GET /v1/queues/{queue} says what is wrong and what to do.",
		clip(q.Name, queue.MaxQueueNameBytes))}
}

func (q *quarantined) info() QueueInfo {
	return QueueInfo{Name: q.Name, Settings: q.Settings, Created: q.Created, Moved: q.moved(),
		Quarantined: &api.Quarantined{Reason: q.reason.Error(), Since: q.QueueRow.Quarantined.API()}}
}

// mayQuarantine says whether an error at the opening of a queue is about that queue alone. It is not if the server is ending, has no room,
// or is older than the program that wrote the files.
func mayQuarantine(ctx context.Context, err error) bool {
	format, is := errors.AsType[*queue.FormatError](err)
	return ctx.Err() == nil && !errors.Is(err, journal.ErrFull) && !(is && format.Unread)
}

// openQueues opens the queues of the catalogue. A queue that cannot be opened is put in quarantine, unless no other is left to serve.
func (e *Engine) openQueues(ctx context.Context) error {
	rows, err := e.catalogue.Queues()
	if err != nil {
		return err
	}
	o := opening{e}
	var refused []error
	for _, row := range rows {
		q, err := o.open(ctx, row, e.identity.ForShard(row.Shard))
		switch {
		case err == nil:
			e.register(q)
		case hasMoved(err):
			err = o.putInQuarantine(row, err)
		case mayQuarantine(ctx, err):
			refused = append(refused, err)
			err = o.putInQuarantine(row, err)
		}
		if err != nil {
			return fmt.Errorf("queue %s: %w", row.Name, err)
		}
	}
	if len(rows) > 0 && len(refused) == len(rows) {
		return fmt.Errorf("queue %s: %w", rows[0].Name, refused[0])
	}
	if e.queues[DefaultQueue] == nil && e.quarantine.find(DefaultQueue) == nil {
		_, _, err = e.PutQueue(ctx, DefaultQueue, DefaultSettings(e))
	}
	if err != nil {
		return err
	}
	return e.openSharded(ctx, rows)
}

// opening opens the queues that were there before. No other goroutine has the engine yet.
type opening struct{ e *Engine }

func (o *opening) open(ctx context.Context, row store.QueueRow, id queue.Identity) (*Queue, error) {
	if row.Quarantined > 0 {
		id.Oldest = row.Oldest
	}
	if err := o.e.home.prepare(ctx, row, id); err != nil {
		return nil, err
	}
	q, err := o.e.openQueue(ctx, row, id)
	if err == nil && row.Quarantined > 0 {
		if err = o.e.catalogue.Quarantine(row.Name, 0, 0); err != nil {
			return nil, errors.Join(err, q.close())
		}
	}
	return q, err
}

// retakeEvery is how often this server tries again to open queues that another server had when this one started.
const retakeEvery = 10 * time.Second

// retake opens the queues that another server had, if that server is gone: while it has their files, they cannot be opened.
func (e *Engine) retake(ctx context.Context) {
	e.mu.RLock()
	all := slices.DeleteFunc(slices.Clone(e.quarantine), func(q quarantined) bool { return !q.moved() })
	e.mu.RUnlock()
	for i := range all {
		name, id := all[i].Name, e.identity.ForShard(all[i].Shard)
		id.Newest = id.Generation // its files may have been opened in this start
		q, err := (&opening{e}).open(ctx, all[i].QueueRow, id)
		if err != nil {
			e.options.Logger.Warn("a queue that another server had cannot be taken back; the server tries again",
				"queue", name, "error", err)
			continue
		}
		e.mu.Lock()
		e.quarantine = e.quarantine.without(all[i].Shard)
		e.register(q)
		e.mu.Unlock()
		e.options.Logger.Info("a queue that another server had is served again", "queue", name)
	}
}

// putInQuarantine keeps a queue that cannot be opened from serving. The greatest age that its files may have once they are fixed stays the
// one of its last service.
func (o *opening) putInQuarantine(row store.QueueRow, reason error) error {
	e, aside := o.e, quarantined{row, reason}
	advice := "Fix its files or restore a backup and start the server again, or delete the queue"
	if aside.moved() {
		advice = "Another server has it. If none should, stop that server: the queue is asked for again every 10 s"
	}
	if row.Quarantined == 0 {
		aside.Quarantined, aside.Oldest = queue.At(e.options.Now()), e.identity.Oldest
		if err := e.catalogue.Quarantine(row.Name, aside.Quarantined, aside.Oldest); err != nil {
			return err
		}
	}
	e.options.Logger.Error("a queue is in quarantine: its calls are refused, and the other queues serve. "+advice, "queue", row.Name,
		"error", reason)
	e.metrics.forget(row.Name)
	e.quarantine = append(e.quarantine, aside)
	return nil
}

// deleteAside removes a queue in quarantine with what is left of its files. forwards.doors and changing are held, and e.mu
// is not: this may wait for the database.
func deleteAside(ctx context.Context, e *Engine, name string) error {
	e.mu.RLock()
	found := e.quarantine.find(name)
	if found == nil {
		defer e.mu.RUnlock()
		return absentQueue(e, name)
	}
	q, user := *found, e.forwards.feeds(name)
	e.mu.RUnlock()
	if q.moved() {
		return q.refusal()
	}
	if user != "" {
		return isDeadQueueOf(user)
	}
	if err := e.nodes.end(ctx, &q.QueueRow); err != nil {
		return err
	}
	if err := dropQueue(ctx, e, q.QueueRow); err != nil {
		return err
	}
	e.mu.change(func() { e.quarantine = e.quarantine.without(q.Shard) })
	return e.home.forget(q.QueueRow)
}
