package machine

import (
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Bulk operations are state of the shard: how far one got stands in the commit of what it did, so after a crash it goes on exactly
// there, and its counts are exact. It is taken a page at a time (bulkpage.go); nothing else runs it.

// bulk is one operation.
type bulk struct {
	At      journal.Bulk // applied
	Plan    journal.Bulk // encoded last; the same as at, when nothing is on its way to the disk
	Request queue.BulkRequest
}

// bulks are the part of the machine that knows how far each bulk operation got.
type bulks struct {
	m        *Machine
	List     []*bulk // all that are known, by id
	Starting int     // those whose start is on its way to the disk
}

func (bs *bulks) Find(id queue.BulkID) *bulk {
	at, there := slices.BinarySearchFunc(bs.List, queue.SubmissionID(id),
		func(x *bulk, id queue.SubmissionID) int { return CompareIDs(x.At.ID, id) })
	if !there {
		return nil
	}
	return bs.List[at]
}

func (b *bulk) row() []byte { return journal.AppendBulk(nil, &b.At) }

func (b *bulk) Info(queueName string) queue.Bulk {
	return queue.Bulk{
		BulkRequest: b.Request, ID: queue.BulkID(b.At.ID), Queue: queueName, State: b.At.State, Counts: b.At.Counts,
		Walk: b.At.Walk, Finished: b.At.Ended, Failure: b.At.Failure,
		EndedBy: b.At.EndedBy,
	}
}

// apply notes how far an operation got, or that it begins.
func (bs *bulks) apply(op *journal.Bulk) error {
	m := bs.m
	b := bs.Find(queue.BulkID(op.ID))
	switch {
	case b == nil && op.Request == "":
		return nil // ended and forgotten, as a younger row acts
	case b == nil:
		return bs.add(op)
	case op.Step <= b.At.Step:
		return nil
	}
	request, was := b.At.Request, b.At.Counts
	b.At = *op
	if !b.Request.DryRun {
		m.Stats.Bulk.Add(op.Counts, was)
	}
	b.At.Request = request
	m.Asides.Changed(asideBulk, uint64(op.ID))
	if m.Replay || b.Plan.Step < b.At.Step {
		b.Plan = b.At
	}
	if b.At.State != queue.BulkRunning {
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
	at, _ := slices.BinarySearchFunc(bs.List, op.ID, func(x *bulk, id queue.SubmissionID) int { return CompareIDs(x.At.ID, id) })
	bs.List = slices.Insert(bs.List, at, &bulk{At: *op, Plan: *op, Request: request})
	m.LastID = max(m.LastID, op.ID)
	m.Asides.Changed(asideBulk, uint64(op.ID))
	return nil
}

// forget drops the oldest ended ones beyond what is kept.
func (bs *bulks) forget() {
	ended := 0
	for _, b := range bs.List {
		if b.At.State != queue.BulkRunning {
			ended++
		}
	}
	bs.List = slices.DeleteFunc(bs.List, func(b *bulk) bool {
		if ended <= queue.MaxBulkKept || b.At.State == queue.BulkRunning {
			return false
		}
		ended--
		bs.m.Asides.Changed(asideBulk, uint64(b.At.ID))
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

// Step encodes that an operation got further. What it tells of is encoded under the same hold of the mutex, so that both are in
// one batch.
func (bs *bulks) Step(b *bulk, now queue.Time, change func(next *journal.Bulk)) {
	next := b.Plan
	next.Step++
	next.Request = ""
	change(&next)
	b.Plan = next
	bs.m.Encode(now).Bulk(&next)
	bs.m.Intend((*steppingBulk)(b))
}

// StartingBulk is an operation that is about to exist, steppingBulk one that has got further than the disk knows.
type (
	StartingBulk struct{}
	steppingBulk bulk
)

// Applied: the bulk operation is there, and counts as one.
func (StartingBulk) Applied(m *Machine) { m.Bulks.Starting-- }

// Undo gives its place to another.
func (StartingBulk) Undo(m *Machine) { m.Bulks.Starting-- }

func (*steppingBulk) Applied(*Machine) {} // apply

func (b *steppingBulk) Undo(m *Machine) { b.Plan = b.At }

// At finds a running operation that has come as far as `step` and no further.
func (bs *bulks) At(id queue.BulkID, step uint64) *bulk {
	if b := bs.Find(id); b != nil && b.Plan.State == queue.BulkRunning && b.Plan.Step == step {
		return b
	}
	return nil
}

// intended counts what intents have left.
func (bs *bulks) intended(count func(what string, n int)) {
	count("bulk operations about to begin", bs.Starting)
	for _, b := range bs.List {
		if b.Plan.Step != b.At.Step {
			count("steps of bulk operation "+queue.BulkID(b.At.ID).String(), 1)
		}
	}
}
