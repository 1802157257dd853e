package bulks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Bulk operations are state of the shard: how far one got stands in the commit of what it did, so after a crash it goes on exactly
// there, and its counts are exact. It is taken a page at a time (bulkpage.go); nothing else runs it.

// Bulk is one operation.
type Bulk struct {
	At      journal.Bulk // applied
	Plan    journal.Bulk // encoded last; the same as at, when nothing is on its way to the disk
	Request queue.BulkRequest
}

// Part is the part that knows how far each bulk operation got.
type Part struct {
	m        *machine.Machine
	letters  func(queue.SubmissionID) uint32 // how many dead letters a submission has
	Totals   queue.BulkCounts                // of what all of them did since the server's start
	List     []*Bulk                         // all that are known, by id
	starting int                             // those whose start is on its way to the disk
}

// New is the part of a machine without bulk operations. letters says how many dead letters a submission has.
func New(m *machine.Machine, letters func(queue.SubmissionID) uint32) *Part {
	return &Part{m: m, letters: letters}
}

// Find finds an operation; nil: there is none of that id, or it was forgotten.
func (bs *Part) Find(id queue.BulkID) *Bulk {
	at, there := slices.BinarySearchFunc(bs.List, queue.SubmissionID(id),
		func(x *Bulk, id queue.SubmissionID) int { return cmp.Compare(x.At.ID, id) })
	if !there {
		return nil
	}
	return bs.List[at]
}

// Info is the operation as it stands.
func (b *Bulk) Info(queueName string) queue.Bulk {
	return queue.Bulk{
		BulkRequest: b.Request, ID: queue.BulkID(b.At.ID), Queue: queueName, State: b.At.State, Counts: b.At.Counts,
		Walk: b.At.Walk, Finished: b.At.Ended, Failure: b.At.Failure,
		EndedBy: b.At.EndedBy,
	}
}

// Settle is called when all is replayed: that does not count as done since the server's start.
func (bs *Part) Settle() { bs.Totals = queue.BulkCounts{} }

// Row is the operation as the store keeps it.
func (bs *Part) Row(key uint64) []byte {
	if b := bs.Find(queue.BulkID(key)); b != nil {
		return journal.AppendBulk(nil, &b.At)
	}
	return nil
}

// Apply notes how far an operation got, or that it begins.
func (bs *Part) Apply(op journal.PartOp) (mine bool, err error) {
	step, mine := op.(*journal.Bulk)
	if mine {
		err = bs.apply(step)
	}
	return mine, err
}

func (bs *Part) apply(op *journal.Bulk) error {
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
		bs.Totals.Add(op.Counts, was)
	}
	b.At.Request = request
	m.Asides.Changed(machine.AsideBulk, uint64(op.ID))
	if m.Replay || b.Plan.Step < b.At.Step {
		b.Plan = b.At
	}
	if b.At.State != queue.BulkRunning {
		bs.forget()
	}
	return nil
}

func (bs *Part) add(op *journal.Bulk) error {
	m := bs.m
	request, err := readBulkRequest(op.Request)
	if err != nil {
		return fmt.Errorf("shard: bulk operation %s: what was asked for cannot be read: %w", queue.BulkID(op.ID), err)
	}
	at, _ := slices.BinarySearchFunc(bs.List, op.ID, func(x *Bulk, id queue.SubmissionID) int { return cmp.Compare(x.At.ID, id) })
	bs.List = slices.Insert(bs.List, at, &Bulk{At: *op, Plan: *op, Request: request})
	m.LastID = max(m.LastID, op.ID)
	m.Asides.Changed(machine.AsideBulk, uint64(op.ID))
	return nil
}

// forget drops the oldest ended ones beyond what is kept.
func (bs *Part) forget() {
	ended := 0
	for _, b := range bs.List {
		if b.At.State != queue.BulkRunning {
			ended++
		}
	}
	bs.List = slices.DeleteFunc(bs.List, func(b *Bulk) bool {
		if ended <= queue.MaxBulkKept || b.At.State == queue.BulkRunning {
			return false
		}
		ended--
		bs.m.Asides.Changed(machine.AsideBulk, uint64(b.At.ID))
		return true
	})
}

// Load reads a row.
func (bs *Part) Load(_ uint64, row []byte) error {
	op, err := journal.DecodeBulk(row)
	if err != nil {
		return fmt.Errorf("store: a bulk operation: %w", err)
	}
	return bs.add(op)
}

// Step encodes that an operation got further. What it tells of is encoded under the same hold of the mutex, so that both are in
// one batch.
func (bs *Part) Step(b *Bulk, now queue.Time, change func(next *journal.Bulk)) {
	next := b.Plan
	next.Step++
	next.Request = ""
	change(&next)
	b.Plan = next
	bs.m.Encode(now).Bulk(&next)
	bs.m.Batch.Intend((*steppingBulk)(b))
}

// Begin encodes that an operation is to exist. It counts as one from now on.
func (bs *Part) Begin(op *journal.Bulk, now queue.Time) {
	bs.m.Encode(now).Bulk(op)
	bs.starting++
	bs.m.Batch.Intend(startingBulk{bs})
}

// Running is how many operations run or are about to.
func (bs *Part) Running() int {
	n := bs.starting
	for _, b := range bs.List {
		if b.At.State == queue.BulkRunning {
			n++
		}
	}
	return n
}

// startingBulk is an operation that is about to exist, steppingBulk one that has got further than the disk knows.
type (
	startingBulk struct{ bs *Part }
	steppingBulk Bulk
)

func (b startingBulk) Applied(*machine.Machine) { b.bs.starting-- }

func (b startingBulk) Undo(*machine.Machine) { b.bs.starting-- }

func (*steppingBulk) Applied(*machine.Machine) {} // apply

func (b *steppingBulk) Undo(m *machine.Machine) { b.Plan = b.At }

// At finds a running operation that has come as far as `step` and no further.
func (bs *Part) At(id queue.BulkID, step uint64) *Bulk {
	if b := bs.Find(id); b != nil && b.Plan.State == queue.BulkRunning && b.Plan.Step == step {
		return b
	}
	return nil
}

// Intended counts what intents have left.
func (bs *Part) Intended(count func(what string, n int)) {
	count("bulk operations about to begin", bs.starting)
	for _, b := range bs.List {
		if b.Plan.Step != b.At.Step {
			count("steps of bulk operation "+queue.BulkID(b.At.ID).String(), 1)
		}
	}
}
