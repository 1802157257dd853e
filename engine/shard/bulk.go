package shard

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/bulks"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Bulks are the bulk operations of a shard, as its callers see them.
type Bulks struct{ s *Shard }

// Start makes a bulk operation exist; Step does its work. It returns after the commit.
func (bs *Bulks) Start(r queue.BulkRequest, acts ...queue.Act) (queue.Bulk, error) {
	s := bs.s
	request, err := bulks.WriteBulkRequest(&r)
	if err != nil {
		return queue.Bulk{}, err
	}
	op := journal.Bulk{Request: request}
	err = s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
		bulks := s.parts.bulks
		if n := bulks.Running(); n >= queue.MaxBulkRunning {
			return nil, &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf("%d bulk operations of "+
				"this queue run already, which is the most. Wait for one to end, or cancel one.", n)}
		}
		if op.ID = queue.MakeSubmissionID(now, m.ID, 0); op.ID <= m.LastID {
			op.ID = m.LastID.Next()
		}
		m.LastID = op.ID
		op.Walk = queue.BulkWalk{ToExamine: bulks.Present(&r)}
		bulks.Begin(&op, now)
		m.ActLog.Tell(now, machine.Aimed(acts, "bulk operation "+queue.BulkID(op.ID).String()), nil, json.RawMessage(request))
		return m.Batch.Commit, nil
	})
	if err != nil {
		return queue.Bulk{}, err
	}
	return queue.Bulk{BulkRequest: r, ID: queue.BulkID(op.ID), Queue: s.options.Queue, Walk: op.Walk}, nil
}

// Get tells how a bulk operation stands; false: there is none of that id, or it was forgotten.
func (bs *Bulks) Get(id queue.BulkID) (queue.Bulk, bool) {
	s := bs.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.parts.bulks.Find(id); b != nil {
		return b.Info(s.options.Queue), true
	}
	return queue.Bulk{}, false
}

// List lists the bulk operations, oldest first: all that run, and the last queue.MaxBulkKept that have ended.
func (bs *Bulks) List() []queue.Bulk {
	s := bs.s
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]queue.Bulk, len(s.parts.bulks.List))
	for i, b := range s.parts.bulks.List {
		list[i] = b.Info(s.options.Queue)
	}
	return list
}

// End ends a bulk operation that runs: cancelled by someone ("": he did not say who he is), or failed for a reason. What it did stays
// done. It returns after the commit.
func (bs *Bulks) End(id queue.BulkID, state queue.BulkState, by, failure string, acts ...queue.Act) error {
	s := bs.s
	return s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
		if b := s.parts.bulks.Find(id); b != nil && b.Plan.State == queue.BulkRunning {
			s.parts.bulks.Step(b, now, func(next *journal.Bulk) {
				next.State, next.EndedBy, next.Failure, next.Ended = state, by, machine.Clip(failure, queue.MaxErrorBytes), now
				m.ActLog.Tell(now, acts, nil, nil)
			})
		}
		return s.writer.pending(), nil
	})
}

// Step does the next page of a bulk operation, at most `most` chunks or submissions, and says how many there were and whether
// there may be more. When it fails nothing is lost: the next call goes on where the last commit was. most is at most
// journal.MaxRedrive.
func (bs *Bulks) Step(ctx context.Context, id queue.BulkID, most int) (n int, more bool, err error) {
	s := bs.s
	s.mu.Lock()
	b := s.parts.bulks.Find(id)
	if b == nil || b.Plan.State != queue.BulkRunning {
		s.mu.Unlock()
		return 0, false, nil
	}
	p := &bulkPage{s: s, id: id, step: b.Plan.Step, after: b.Plan.After, request: b.Request, most: most}
	s.mu.Unlock()
	p.filter = p.request.Filter
	p.seen.Started = p.started()
	s.aging.RLock()
	defer s.aging.RUnlock()
	switch {
	case p.request.Action.OnLetters():
		n, err = p.letters(ctx)
	case p.request.Action == queue.BulkRetry:
		n, err = p.retries()
	default:
		n, err = p.submissions()
	}
	paused := p.seen.Spent() && n < most
	switch {
	case err != nil || n == most || p.overtaken:
	case paused:
		err = p.pause()
	default:
		err = p.complete()
	}
	if failed := s.writer.wait(p.waits); err == nil {
		err = failed
	}
	return n, err == nil && (n == most || paused) && !p.overtaken, err
}
