package shard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Bulk operations are state of the shard: how far one got stands in the commit of what it did, so after a crash it goes on exactly
// there, and its counts are exact. It is taken a page at a time (bulkpage.go); nothing else runs it.

// bulk is one operation.
type bulk struct {
	at      journal.Bulk // applied
	plan    journal.Bulk // encoded last; the same as at, when nothing is on its way to the disk
	request queue.BulkRequest
}

// bulks are all that are known, by id.
type bulks struct{ list []*bulk }

func (b *bulks) find(id queue.BulkID) *bulk {
	at, there := slices.BinarySearchFunc(b.list, queue.SubmissionID(id), func(x *bulk, id queue.SubmissionID) int { return compareIDs(x.at.ID, id) })
	if !there {
		return nil
	}
	return b.list[at]
}

func (b *bulk) row() []byte { return journal.AppendBulk(nil, &b.at) }

func (b *bulk) info(queueName string) queue.Bulk {
	return queue.Bulk{
		BulkRequest: b.request, ID: queue.BulkID(b.at.ID), Queue: queueName, State: b.at.State, Counts: b.at.Counts, Walk: b.at.Walk, Finished: b.at.Ended, Failure: b.at.Failure,
		EndedBy: b.at.EndedBy,
	}
}

// ApplyBulk notes how far an operation got, or that it begins.
func (m *machine) ApplyBulk(op *journal.Bulk) error {
	b := m.bulks.find(queue.BulkID(op.ID))
	switch {
	case b == nil && op.Request == "":
		return nil // ended and forgotten, as a younger row told
	case b == nil:
		return m.addBulk(op)
	case op.Step <= b.at.Step:
		return nil
	}
	request, was := b.at.Request, b.at.Counts
	b.at = *op
	if !b.request.DryRun {
		m.stats.bulk.Add(op.Counts, was)
	}
	b.at.Request = request
	m.changed(asideBulk, uint64(op.ID))
	if m.replay || b.plan.Step < b.at.Step {
		b.plan = b.at
	}
	if b.at.State != queue.BulkRunning {
		m.forgetBulks()
	}
	return nil
}

func (m *machine) addBulk(op *journal.Bulk) error {
	request, err := readBulkRequest(op.Request)
	if err != nil {
		return fmt.Errorf("shard: bulk operation %s: what was asked for cannot be read: %w", queue.BulkID(op.ID), err)
	}
	at, _ := slices.BinarySearchFunc(m.bulks.list, op.ID, func(x *bulk, id queue.SubmissionID) int { return compareIDs(x.at.ID, id) })
	m.bulks.list = slices.Insert(m.bulks.list, at, &bulk{at: *op, plan: *op, request: request})
	m.lastID = max(m.lastID, op.ID)
	m.changed(asideBulk, uint64(op.ID))
	return nil
}

// forgetBulks drops the oldest ended ones beyond what is kept.
func (m *machine) forgetBulks() {
	ended := 0
	for _, b := range m.bulks.list {
		if b.at.State != queue.BulkRunning {
			ended++
		}
	}
	m.bulks.list = slices.DeleteFunc(m.bulks.list, func(b *bulk) bool {
		if ended <= queue.MaxBulkKept || b.at.State == queue.BulkRunning {
			return false
		}
		ended--
		m.changed(asideBulk, uint64(b.at.ID))
		return true
	})
}

// loadBulk reads a row.
func (m *machine) loadBulk(row []byte) error {
	op, err := journal.DecodeBulk(row)
	if err != nil {
		return fmt.Errorf("store: a bulk operation: %w", err)
	}
	return m.addBulk(op)
}

// StartBulk makes a bulk operation exist; StepBulk does its work. It returns after the commit.
func (s *Shard) StartBulk(r queue.BulkRequest, told ...queue.Act) (queue.Bulk, error) {
	request, err := writeBulkRequest(&r)
	if err != nil {
		return queue.Bulk{}, err
	}
	now := s.now()
	s.mu.Lock()
	m := s.m
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return queue.Bulk{}, err
	}
	running := m.starting
	for _, b := range m.bulks.list {
		if b.at.State == queue.BulkRunning {
			running++
		}
	}
	if running >= queue.MaxBulkRunning {
		s.mu.Unlock()
		return queue.Bulk{}, &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf("%d bulk operations of this queue run already, which is the most. Wait for one to end, or cancel one.", running)}
	}
	id := queue.MakeSubmissionID(now, m.id, 0)
	if id <= m.lastID {
		id = m.lastID.Next()
	}
	m.lastID = id
	walk := queue.BulkWalk{Known: true, ToExamine: m.present(&r)}
	m.encode(now).Bulk(&journal.Bulk{ID: id, Request: request, Walk: walk})
	m.starting++
	m.intend(startingBulk{})
	m.tell(now, aimed(told, "bulk operation "+queue.BulkID(id).String()), nil, json.RawMessage(request))
	waits := commits{first: m.batch}
	s.mu.Unlock()
	if err := s.wait(waits); err != nil {
		return queue.Bulk{}, err
	}
	return queue.Bulk{BulkRequest: r, ID: queue.BulkID(id), Queue: s.options.Queue, Walk: walk}, nil
}

// Bulk tells how a bulk operation stands; false: there is none of that id, or it was forgotten.
func (s *Shard) Bulk(id queue.BulkID) (queue.Bulk, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.m.bulks.find(id); b != nil {
		return b.info(s.options.Queue), true
	}
	return queue.Bulk{}, false
}

// Bulks lists the bulk operations, oldest first: all that run, and the last queue.MaxBulkKept that have ended.
func (s *Shard) Bulks() []queue.Bulk {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]queue.Bulk, len(s.m.bulks.list))
	for i, b := range s.m.bulks.list {
		list[i] = b.info(s.options.Queue)
	}
	return list
}

// EndBulk ends a bulk operation that runs: cancelled by somebody ("": he did not say who he is), or failed for a reason. What it did stays
// done. It returns after the commit.
func (s *Shard) EndBulk(id queue.BulkID, state queue.BulkState, by, failure string, told ...queue.Act) error {
	waits, err := s.planBulk(id, func(next *journal.Bulk, now queue.Time) {
		next.State, next.EndedBy, next.Failure, next.Ended = state, by, clip(failure, queue.MaxErrorBytes), now
		s.m.tell(now, told, nil, nil)
	})
	if err != nil {
		return err
	}
	return s.wait(waits)
}

// planBulk encodes the next step of an operation, if it still runs.
func (s *Shard) planBulk(id queue.BulkID, change func(next *journal.Bulk, now queue.Time)) (waits commits, err error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return waits, err
	}
	if b := s.m.bulks.find(id); b != nil && b.plan.State == queue.BulkRunning {
		s.m.stepBulk(b, now, func(next *journal.Bulk) { change(next, now) })
	}
	waits.add(s.pending())
	return waits, nil
}

// stepBulk encodes that an operation got further. What it tells of is encoded under the same hold of the mutex, so that both are in
// one batch.
func (m *machine) stepBulk(b *bulk, now queue.Time, change func(next *journal.Bulk)) {
	next := b.plan
	next.Step++
	next.Request = ""
	change(&next)
	b.plan = next
	m.encode(now).Bulk(&next)
	m.intend((*steppingBulk)(b))
}

// startingBulk is an operation that is about to exist, steppingBulk one that has got further than the disk knows.
type (
	startingBulk struct{}
	steppingBulk bulk
)

func (startingBulk) Applied(m *machine) { m.starting-- }
func (startingBulk) Undo(m *machine)    { m.starting-- }
func (*steppingBulk) Applied(*machine)  {} // ApplyBulk
func (b *steppingBulk) Undo(m *machine) { b.plan = b.at }

// bulkIn finds a running operation that has come as far as `step` and no further.
func (m *machine) bulkIn(id queue.BulkID, step uint64) *bulk {
	if b := m.bulks.find(id); b != nil && b.plan.State == queue.BulkRunning && b.plan.Step == step {
		return b
	}
	return nil
}

// StepBulk does the next page of a bulk operation, at most `most` chunks or submissions, and says how many there were and whether
// there may be more. When it fails nothing is lost: the next call goes on where the last commit was. most is at most
// journal.MaxRedrive.
func (s *Shard) StepBulk(ctx context.Context, id queue.BulkID, most int) (n int, more bool, err error) {
	s.mu.Lock()
	b := s.m.bulks.find(id)
	if b == nil || b.plan.State != queue.BulkRunning {
		s.mu.Unlock()
		return 0, false, nil
	}
	p := &bulkPage{s: s, id: id, step: b.plan.Step, after: b.plan.After, request: b.request, most: most}
	s.mu.Unlock()
	p.filter = p.request.Filter
	p.seen.started = p.started()
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
	paused := p.seen.spent() && n < most
	switch {
	case err != nil || n == most || p.overtaken:
	case paused:
		err = p.pause()
	default:
		_, err = s.planBulkAt(p, queue.BulkCompleted)
	}
	if failed := s.wait(p.waits); err == nil {
		err = failed
	}
	return n, err == nil && (n == most || paused) && !p.overtaken, err
}

// planBulkAt ends the operation, unless somebody else did something to it since the page was begun.
func (s *Shard) planBulkAt(p *bulkPage, state queue.BulkState) (ended bool, err error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return false, err
	}
	if b := s.m.bulkIn(p.id, p.step); b != nil {
		s.m.stepBulk(b, now, func(next *journal.Bulk) {
			next.State, next.Ended = state, now
			p.arrivedAt(next)
		})
		p.waits.add(s.pending())
		return true, nil
	}
	return false, nil
}
