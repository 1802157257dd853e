package bulks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/survey"
)

// Bulks are the bulk operations of a shard, as its callers see them.
type Bulks struct {
	shell.Door[*Part]
	letters Letters
	purged  Purged
	history sync.Locker
}

// Letters are the dead letters of the shard, as bulk operations take them.
type Letters interface {
	// Survey lists up to `limit` dead letters behind `after` that the filter means, and counts in `seen` the letters
	// that it looks at. It breaks off when these are enough.
	Survey(ctx context.Context, f *queue.BulkFilter, after queue.ChunkID, limit int,
		seen *survey.Survey) ([]queue.DeadChunk, error)
	// ActOn calls fn once, with the mutex held. In fn, act does the request's action with those of the indexes that are
	// dead letters of the submission, as far as their state allows it. ActOn returns the commit to wait for.
	ActOn(ctx context.Context, id queue.SubmissionID, indexes []uint32, r *queue.BulkRequest,
		fn func(now queue.Time, act func() (done, refused int))) (*commit.Commit, error)
}

// Face has the calls about bulk operations. It holds `history` while it makes and commits a page, so that the history
// loses no submission in this time.
func Face(door shell.Door[*Part], letters Letters, purged Purged, history sync.Locker) *Bulks {
	return &Bulks{Door: door, letters: letters, purged: purged, history: history}
}

// Start makes a bulk operation exist; Step does its work. It returns after the commit.
func (b *Bulks) Start(r queue.BulkRequest, acts ...queue.Act) (queue.Bulk, error) {
	request, err := writeBulkRequest(&r)
	if err != nil {
		return queue.Bulk{}, err
	}
	op := journal.Bulk{Request: request}
	err = shell.Change(b, func(m *machine.Machine, now queue.Time) error {
		part := b.Part()
		if n := part.running(); n >= queue.MaxBulkRunning {
			return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf("%d bulk operations of "+
				"this queue run already, which is the most. Wait for one to end, or cancel one.", n)}
		}
		if op.ID = queue.MakeSubmissionID(now, m.ID, 0); op.ID <= m.LastID {
			op.ID = m.LastID.Next()
		}
		m.LastID = op.ID
		op.Walk = queue.BulkWalk{ToExamine: part.present(&r)}
		part.begin(&op, now)
		m.ActLog.Tell(now, machine.Aimed(acts, "bulk operation "+queue.BulkID(op.ID).String()), nil,
			json.RawMessage(request))
		return nil
	})
	if err != nil {
		return queue.Bulk{}, err
	}
	return queue.Bulk{BulkRequest: r, ID: queue.BulkID(op.ID), Queue: b.Queue.Name, Walk: op.Walk}, nil
}

// Get tells how a bulk operation stands; false: there is none of that id, or it was forgotten.
func (b *Bulks) Get(id queue.BulkID) (info queue.Bulk, there bool) {
	b.Look(func(*machine.Machine) {
		if x := b.Part().find(id); x != nil {
			info, there = x.info(b.Queue.Name), true
		}
	})
	return info, there
}

// List lists the bulk operations, oldest first: all that run, and the last
// queue.MaxBulkKept that have ended.
func (b *Bulks) List() (list []queue.Bulk) {
	b.Look(func(*machine.Machine) {
		list = make([]queue.Bulk, len(b.Part().List))
		for i, x := range b.Part().List {
			list[i] = x.info(b.Queue.Name)
		}
	})
	return list
}

// End ends a running bulk operation: someone cancelled it (by; "": without a name), or it failed (failure). Its changes
// stay. It returns after the commit.
func (b *Bulks) End(id queue.BulkID, state queue.BulkState, by, failure string, acts ...queue.Act) error {
	return shell.Change(b, func(m *machine.Machine, now queue.Time) error {
		if x := b.Part().find(id); x != nil && x.Plan.State == queue.BulkRunning {
			b.Part().step(x, now, func(next *journal.Bulk) {
				next.State, next.EndedBy, next.Failure, next.Ended = state, by,
					machine.Clip(failure, queue.MaxErrorBytes), now
				m.ActLog.Tell(now, acts, nil, nil)
			})
		}
		return nil
	})
}

// Step does the next page of a bulk operation, at most `most` chunks or submissions, and
// says how many there were and whether there may be more. When it fails nothing is lost:
// the next call goes on where the last commit was. most is at most journal.MaxRedrive.
func (b *Bulks) Step(ctx context.Context, id queue.BulkID, most int) (n int, more bool, err error) {
	p := page{Bulks: b, id: id, most: most}
	runs, left := false, most
	b.Look(func(*machine.Machine) {
		if x := b.Part().find(id); x != nil && x.Plan.State == queue.BulkRunning {
			runs, p.step, p.after, p.request = true, x.Plan.Step, x.Plan.After, x.Request
			if limit := uint64(x.Request.Limit); limit > 0 {
				left = int(min(uint64(most), limit-min(limit, x.Plan.Counts.Matched)))
			}
		}
	})
	if !runs {
		return 0, false, nil
	}
	p.filter = p.request.Filter
	p.seen.Started = p.started()
	p.most = left
	b.history.Lock()
	defer b.history.Unlock()
	switch {
	case left == 0: // it has reached its limit
	case p.request.Action == queue.BulkPurge:
		n, err = p.purge(ctx)
	case p.request.Action.OnLetters():
		n, err = p.deadLetters(ctx)
	case p.request.Action.OnRetries():
		n, err = p.retries()
	default:
		n, err = p.submissions()
	}
	whole := n == left && left > 0 || p.unread // there may be more
	paused := p.seen.Spent() && !whole
	switch {
	case err != nil || whole || p.overtaken:
	case paused:
		err = p.pause()
	default:
		err = p.complete()
	}
	if failed := b.Wait(p.waits); failed != nil {
		err = failed // later errors may only say that the shard reloads because of it
	}
	return n, err == nil && (whole || paused) && !p.overtaken, err
}

// bulkRow is the form of a request in the journal: its names and units never change, even if the Go types do. It is
// JSON, as it is written once per operation and people may have to read it in a damaged file.
type bulkRow struct {
	Action        string              `json:"action"`
	Submission    queue.SubmissionID  `json:"submission,omitempty"`
	Fingerprint   string              `json:"fingerprint,omitempty"`
	DiedBefore    queue.Time          `json:"died_before,omitempty"`
	DiedAfter     queue.Time          `json:"died_after,omitempty"`
	Oldest        uint32              `json:"oldest,omitempty"`
	Until         *ageRow             `json:"until,omitempty"`
	States        []string            `json:"states,omitempty"`
	Meta          []journal.MetaField `json:"meta,omitempty"`
	CreatedBefore queue.Time          `json:"created_before,omitempty"`
	CreatedAfter  queue.Time          `json:"created_after,omitempty"`
	To            string              `json:"to,omitempty"`
	Priority      int64               `json:"priority,omitempty"`
	Limit         uint32              `json:"limit,omitempty"`
	Rate          uint32              `json:"rate_per_second,omitempty"`
	DryRun        bool                `json:"dry_run,omitempty"`
	Actor         string              `json:"actor,omitempty"`
}

// ageRow is the last of the oldest dead letters.
type ageRow struct {
	Died       queue.Time         `json:"died"`
	Submission queue.SubmissionID `json:"submission"`
	Index      uint32             `json:"index"`
}

// writeBulkRequest is a request as the op and the row of a bulk operation keep it;
// readBulkRequest is its inverse.
func writeBulkRequest(r *queue.BulkRequest) (string, error) {
	f := &r.Filter
	row := bulkRow{
		Action: r.Action.String(), Submission: f.Dead.Submission, Fingerprint: f.Dead.Fingerprint,
		DiedBefore: f.Dead.DiedBefore, DiedAfter: f.Dead.DiedAfter, Meta: journal.MetaFields(f.Meta),
		CreatedBefore: f.CreatedBefore, CreatedAfter: f.CreatedAfter, To: r.To, Priority: r.Priority,
		Limit: r.Limit, Rate: r.Rate, DryRun: r.DryRun, Actor: r.Actor, Oldest: f.Dead.Oldest,
	}
	if u := f.Dead.Until; u != (queue.DeadAge{}) {
		row.Until = &ageRow{u.Died, u.Chunk.Submission, u.Chunk.Index}
	}
	for _, state := range f.States {
		row.States = append(row.States, state.String())
	}
	text, err := json.Marshal(row)
	return string(text), err
}

var errBulkRequest = errors.New("it is damaged or of a newer Quern")

// It refuses names that it does not know: without one of its filters, an operation would change things that no one
// meant.
func readBulkRequest(text string) (r queue.BulkRequest, err error) {
	var row bulkRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return r, err
	}
	action, ok := queue.ParseBulkAction(row.Action)
	r = queue.BulkRequest{Action: action, To: row.To, Priority: row.Priority, Limit: row.Limit, Rate: row.Rate,
		DryRun: row.DryRun, Actor: row.Actor}
	f := &r.Filter
	f.Dead = queue.DeadFilter{Submission: row.Submission, Fingerprint: row.Fingerprint,
		DiedBefore: row.DiedBefore, DiedAfter: row.DiedAfter, Oldest: row.Oldest}
	if u := row.Until; u != nil {
		f.Dead.Until = queue.DeadAge{Died: u.Died, Chunk: queue.ChunkID{Submission: u.Submission, Index: u.Index}}
	}
	f.CreatedBefore, f.CreatedAfter = row.CreatedBefore, row.CreatedAfter
	for _, name := range row.States {
		state, known := queue.ParseSubmissionState(name)
		ok = ok && known
		f.States = append(f.States, state)
	}
	meta, whole := journal.MetaEntries(row.Meta)
	if f.Meta = meta; !ok || !whole {
		return r, errBulkRequest
	}
	return r, nil
}
