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

// bulks are the part of the machine that knows how far each bulk operation got.
type bulks struct {
	m        *machine
	list     []*bulk // all that are known, by id
	starting int     // those whose start is on its way to the disk
}

func (bs *bulks) find(id queue.BulkID) *bulk {
	at, there := slices.BinarySearchFunc(bs.list, queue.SubmissionID(id),
		func(x *bulk, id queue.SubmissionID) int { return compareIDs(x.at.ID, id) })
	if !there {
		return nil
	}
	return bs.list[at]
}

func (b *bulk) row() []byte { return journal.AppendBulk(nil, &b.at) }

func (b *bulk) info(queueName string) queue.Bulk {
	return queue.Bulk{
		BulkRequest: b.request, ID: queue.BulkID(b.at.ID), Queue: queueName, State: b.at.State, Counts: b.at.Counts,
		Walk: b.at.Walk, Finished: b.at.Ended, Failure: b.at.Failure,
		EndedBy: b.at.EndedBy,
	}
}

// apply notes how far an operation got, or that it begins.
func (bs *bulks) apply(op *journal.Bulk) error {
	m := bs.m
	b := bs.find(queue.BulkID(op.ID))
	switch {
	case b == nil && op.Request == "":
		return nil // ended and forgotten, as a younger row acts
	case b == nil:
		return bs.add(op)
	case op.Step <= b.at.Step:
		return nil
	}
	request, was := b.at.Request, b.at.Counts
	b.at = *op
	if !b.request.DryRun {
		m.stats.bulk.Add(op.Counts, was)
	}
	b.at.Request = request
	m.asides.changed(asideBulk, uint64(op.ID))
	if m.replay || b.plan.Step < b.at.Step {
		b.plan = b.at
	}
	if b.at.State != queue.BulkRunning {
		bs.forget()
	}
	return nil
}

func (bs *bulks) add(op *journal.Bulk) error {
	m := bs.m
	request, err := readBulkRequest(op.Request)
	if err != nil {
		return fmt.Errorf("shard: bulk operation %s: what was asked for cannot be read: %w", queue.BulkID(op.ID), err)
	}
	at, _ := slices.BinarySearchFunc(bs.list, op.ID, func(x *bulk, id queue.SubmissionID) int { return compareIDs(x.at.ID, id) })
	bs.list = slices.Insert(bs.list, at, &bulk{at: *op, plan: *op, request: request})
	m.lastID = max(m.lastID, op.ID)
	m.asides.changed(asideBulk, uint64(op.ID))
	return nil
}

// forget drops the oldest ended ones beyond what is kept.
func (bs *bulks) forget() {
	ended := 0
	for _, b := range bs.list {
		if b.at.State != queue.BulkRunning {
			ended++
		}
	}
	bs.list = slices.DeleteFunc(bs.list, func(b *bulk) bool {
		if ended <= queue.MaxBulkKept || b.at.State == queue.BulkRunning {
			return false
		}
		ended--
		bs.m.asides.changed(asideBulk, uint64(b.at.ID))
		return true
	})
}

// load reads a row.
func (bs *bulks) load(row []byte) error {
	op, err := journal.DecodeBulk(row)
	if err != nil {
		return fmt.Errorf("store: a bulk operation: %w", err)
	}
	return bs.add(op)
}

// Bulks are the bulk operations of a shard, as its callers see them.
type Bulks struct{ s *Shard }

// Start makes a bulk operation exist; Step does its work. It returns after the commit.
func (bs *Bulks) Start(r queue.BulkRequest, acts ...queue.Act) (queue.Bulk, error) {
	s := bs.s
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
	running := m.bulks.starting
	for _, b := range m.bulks.list {
		if b.at.State == queue.BulkRunning {
			running++
		}
	}
	if running >= queue.MaxBulkRunning {
		s.mu.Unlock()
		return queue.Bulk{}, &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf("%d bulk operations of "+
			"this queue run already, which is the most. Wait for one to end, or cancel one.", running)}
	}
	id := queue.MakeSubmissionID(now, m.id, 0)
	if id <= m.lastID {
		id = m.lastID.Next()
	}
	m.lastID = id
	walk := queue.BulkWalk{Known: true, ToExamine: m.bulks.present(&r)}
	m.encode(now).Bulk(&journal.Bulk{ID: id, Request: request, Walk: walk})
	m.bulks.starting++
	m.intend(startingBulk{})
	m.actLog.tell(now, aimed(acts, "bulk operation "+queue.BulkID(id).String()), nil, json.RawMessage(request))
	waits := commits{first: m.batch}
	s.mu.Unlock()
	if err := s.writer.wait(waits); err != nil {
		return queue.Bulk{}, err
	}
	return queue.Bulk{BulkRequest: r, ID: queue.BulkID(id), Queue: s.options.Queue, Walk: walk}, nil
}

// Get tells how a bulk operation stands; false: there is none of that id, or it was forgotten.
func (bs *Bulks) Get(id queue.BulkID) (queue.Bulk, bool) {
	s := bs.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.m.bulks.find(id); b != nil {
		return b.info(s.options.Queue), true
	}
	return queue.Bulk{}, false
}

// List lists the bulk operations, oldest first: all that run, and the last queue.MaxBulkKept that have ended.
func (bs *Bulks) List() []queue.Bulk {
	s := bs.s
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]queue.Bulk, len(s.m.bulks.list))
	for i, b := range s.m.bulks.list {
		list[i] = b.info(s.options.Queue)
	}
	return list
}

// End ends a bulk operation that runs: cancelled by someone ("": he did not say who he is), or failed for a reason. What it did stays
// done. It returns after the commit.
func (bs *Bulks) End(id queue.BulkID, state queue.BulkState, by, failure string, acts ...queue.Act) error {
	waits, err := bs.plan(id, func(next *journal.Bulk, now queue.Time) {
		next.State, next.EndedBy, next.Failure, next.Ended = state, by, clip(failure, queue.MaxErrorBytes), now
		bs.s.m.actLog.tell(now, acts, nil, nil)
	})
	if err != nil {
		return err
	}
	return bs.s.writer.wait(waits)
}

// plan encodes the next step of an operation, if it still runs.
func (bs *Bulks) plan(id queue.BulkID, change func(next *journal.Bulk, now queue.Time)) (waits commits, err error) {
	s := bs.s
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return waits, err
	}
	if b := s.m.bulks.find(id); b != nil && b.plan.State == queue.BulkRunning {
		s.m.bulks.step(b, now, func(next *journal.Bulk) { change(next, now) })
	}
	waits.add(s.writer.pending())
	return waits, nil
}

// step encodes that an operation got further. What it tells of is encoded under the same hold of the mutex, so that both are in
// one batch.
func (bs *bulks) step(b *bulk, now queue.Time, change func(next *journal.Bulk)) {
	next := b.plan
	next.Step++
	next.Request = ""
	change(&next)
	b.plan = next
	bs.m.encode(now).Bulk(&next)
	bs.m.intend((*steppingBulk)(b))
}

// startingBulk is an operation that is about to exist, steppingBulk one that has got further than the disk knows.
type (
	startingBulk struct{}
	steppingBulk bulk
)

func (startingBulk) Applied(m *machine) { m.bulks.starting-- }
func (startingBulk) Undo(m *machine)    { m.bulks.starting-- }
func (*steppingBulk) Applied(*machine)  {} // apply
func (b *steppingBulk) Undo(m *machine) { b.plan = b.at }

// at finds a running operation that has come as far as `step` and no further.
func (bs *bulks) at(id queue.BulkID, step uint64) *bulk {
	if b := bs.find(id); b != nil && b.plan.State == queue.BulkRunning && b.plan.Step == step {
		return b
	}
	return nil
}

// Step does the next page of a bulk operation, at most `most` chunks or submissions, and says how many there were and whether
// there may be more. When it fails nothing is lost: the next call goes on where the last commit was. most is at most
// journal.MaxRedrive.
func (bs *Bulks) Step(ctx context.Context, id queue.BulkID, most int) (n int, more bool, err error) {
	s := bs.s
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
		_, err = bs.planAt(p, queue.BulkCompleted)
	}
	if failed := s.writer.wait(p.waits); err == nil {
		err = failed
	}
	return n, err == nil && (n == most || paused) && !p.overtaken, err
}

// planAt ends the operation, unless someone else did something to it since the page was begun.
func (bs *Bulks) planAt(p *bulkPage, state queue.BulkState) (ended bool, err error) {
	s := bs.s
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return false, err
	}
	if b := s.m.bulks.at(p.id, p.step); b != nil {
		s.m.bulks.step(b, now, func(next *journal.Bulk) {
			next.State, next.Ended = state, now
			p.arrivedAt(next)
		})
		p.waits.add(s.writer.pending())
		return true, nil
	}
	return false, nil
}

// intended counts what intents have left.
func (bs *bulks) intended(count func(what string, n int)) {
	count("bulk operations about to begin", bs.starting)
	for _, b := range bs.list {
		if b.plan.Step != b.at.Step {
			count("steps of bulk operation "+queue.BulkID(b.at.ID).String(), 1)
		}
	}
}
