// Package bulks is the part of a shard with the progress of each bulk operation. The commit of each
// slice also records the progress. So after a crash the operation continues at exactly this place, and
// its counts stay exact.
package bulks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Bulk is one operation. Plan is ahead of At by the steps that are encoded and not yet applied. A page continues from
// Plan; a failed commit sets it back to At (Undo).
type Bulk struct {
	At      journal.Bulk // applied
	Plan    journal.Bulk // encoded last; the same as at, when nothing is on its way to the disk
	Request queue.BulkRequest
}

// Part is the part that knows how far each bulk operation got.
type Part struct {
	m        *machine.Machine
	tries    Tries
	Totals   queue.BulkCounts // of all operations, since the server's start
	List     []*Bulk          // all that are known, by id
	starting int              // those whose start is on its way to the disk
}

// Tries are the chunks with tries behind them, as another part of the machine knows them.
type Tries interface {
	// Of is how many dead letters a submission has.
	Of(id queue.SubmissionID) uint32
	// Hasten encodes that chunks that wait for a retry are offered at once, and says how many; in a dry run, how many
	// it would be.
	Hasten(id queue.SubmissionID, indexes []uint32, dry bool, now queue.Time) int
}

// New is the part of a machine without bulk operations.
func New(m *machine.Machine, tries Tries) *Part { return &Part{m: m, tries: tries} }

// find finds an operation; nil: there is none of that id, or it was forgotten.
func (p *Part) find(id queue.BulkID) *Bulk {
	if at, there := p.place(queue.SubmissionID(id)); there {
		return p.List[at]
	}
	return nil
}

// Ids of bulk operations are drawn from the ids of submissions, so one clock orders both.
func (p *Part) place(id queue.SubmissionID) (at int, there bool) {
	return slices.BinarySearchFunc(p.List, id, func(x *Bulk, id queue.SubmissionID) int {
		return cmp.Compare(x.At.ID, id)
	})
}

// info is the operation as it stands.
func (b *Bulk) info(queueName string) queue.Bulk {
	return queue.Bulk{
		BulkRequest: b.Request, ID: queue.BulkID(b.At.ID), Queue: queueName, State: b.At.State, Counts: b.At.Counts,
		Walk: b.At.Walk, Finished: b.At.Ended, Failure: b.At.Failure, EndedBy: b.At.EndedBy,
	}
}

// Uncounted sets the counters to zero during a replay, because they count from the server's start.
func (p *Part) Uncounted() { p.Totals = queue.BulkCounts{} }

// Row is the operation as the store keeps it.
func (p *Part) Row(key uint64) []byte {
	if b := p.find(queue.BulkID(key)); b != nil {
		return journal.AppendBulk(nil, &b.At)
	}
	return nil
}

// Apply notes how far an operation got, or that it begins.
func (p *Part) Apply(op journal.PartOp) (mine bool, err error) {
	step, mine := op.(*journal.Bulk)
	if mine {
		err = p.apply(step)
	}
	return mine, err
}

func (p *Part) apply(op *journal.Bulk) error {
	m := p.m
	b := p.find(queue.BulkID(op.ID))
	switch {
	case b == nil && op.Request == "":
		return nil // ended and forgotten, as a younger row acts
	case b == nil:
		return p.add(op)
	case op.Step <= b.At.Step:
		return nil
	}
	// Only the first op has the request; leaving it out of the others keeps a step at some bytes.
	request, was := b.At.Request, b.At.Counts
	b.At = *op
	if !b.Request.DryRun {
		p.Totals.Add(op.Counts, was)
	}
	b.At.Request = request
	m.Asides.Changed(machine.AsideBulk, uint64(op.ID))
	if m.Replay || b.Plan.Step < b.At.Step {
		b.Plan = b.At
	}
	if b.At.State != queue.BulkRunning {
		p.forget()
	}
	return nil
}

func (p *Part) add(op *journal.Bulk) error {
	m := p.m
	request, err := readBulkRequest(op.Request)
	if err != nil {
		return fmt.Errorf("shard: bulk operation %s: what was asked for cannot be read: %w", queue.BulkID(op.ID), err)
	}
	at, _ := p.place(op.ID)
	p.List = slices.Insert(p.List, at, &Bulk{At: *op, Plan: *op, Request: request})
	m.LastID = max(m.LastID, op.ID)
	m.Asides.Changed(machine.AsideBulk, uint64(op.ID))
	return nil
}

// forget drops the oldest ended operations beyond queue.MaxBulkKept. The list is by id, and so the oldest come first.
func (p *Part) forget() {
	ended := 0
	for _, b := range p.List {
		if b.At.State != queue.BulkRunning {
			ended++
		}
	}
	p.List = slices.DeleteFunc(p.List, func(b *Bulk) bool {
		if ended <= queue.MaxBulkKept || b.At.State == queue.BulkRunning {
			return false
		}
		ended--
		p.m.Asides.Changed(machine.AsideBulk, uint64(b.At.ID))
		return true
	})
}

// Load reads a row.
func (p *Part) Load(_ uint64, row []byte) error {
	op, err := journal.DecodeBulk(row)
	if err != nil {
		return fmt.Errorf("store: a bulk operation: %w", err)
	}
	return p.add(op)
}

// step encodes that an operation got further. The caller encodes the changes themselves in the same hold of the mutex,
// so that both are in one batch.
func (p *Part) step(b *Bulk, now queue.Time, change func(next *journal.Bulk)) {
	next := b.Plan
	next.Step++
	next.Request = ""
	change(&next)
	b.Plan = next
	p.m.Encode(now).Bulk(&next)
	p.m.Batch.Intend((*steppingBulk)(b))
}

// begin encodes that an operation is to exist. It counts as one from now on.
func (p *Part) begin(op *journal.Bulk, now queue.Time) {
	p.m.Encode(now).Bulk(op)
	p.starting++
	p.m.Batch.Intend(startingBulk{p})
}

// running is how many operations run or are about to. Those that are about to begin count too: of two calls at once,
// only one gets the last place.
func (p *Part) running() int {
	n := p.starting
	for _, b := range p.List {
		if b.At.State == queue.BulkRunning {
			n++
		}
	}
	return n
}

// startingBulk is an operation that is about to exist, steppingBulk one with a step on its way to the disk.
type (
	startingBulk struct{ p *Part }
	steppingBulk Bulk
)

func (b startingBulk) Applied(*machine.Machine) { b.p.starting-- }

func (b startingBulk) Undo(*machine.Machine) { b.p.starting-- }

func (*steppingBulk) Applied(*machine.Machine) {} // apply

func (b *steppingBulk) Undo(m *machine.Machine) { b.Plan = b.At }

// at finds a running operation that has come as far as `step` and no further.
func (p *Part) at(id queue.BulkID, step uint64) *Bulk {
	if b := p.find(id); b != nil && b.Plan.State == queue.BulkRunning && b.Plan.Step == step {
		return b
	}
	return nil
}

// Intended counts the marks of intents.
func (p *Part) Intended(count func(what string, n int)) {
	count("bulk operations about to begin", p.starting)
	for _, b := range p.List {
		if b.Plan.Step != b.At.Step {
			count("steps of bulk operation "+queue.BulkID(b.At.ID).String(), 1)
		}
	}
}

// present is how many chunks or submissions a request has to walk over now. It is an upper bound, from counters: it
// ignores the rest of the filter, which would have to be evaluated for each.
func (p *Part) present(r *queue.BulkRequest) uint64 {
	m := p.m
	id := r.Filter.Dead.Submission
	if r.Action == queue.BulkPurge {
		return 0 // no one counts the ended ones
	}
	if id == 0 {
		switch {
		case r.Action.OnLetters():
			return m.Stats.Dead + m.Stats.EndedLetters
		case r.Action.OnRetries():
			return m.Stats.Waiting
		}
		return uint64(m.Backlog.Len())
	}
	x := m.Live(id)
	switch {
	case r.Action.OnLetters():
		return uint64(p.tries.Of(id))
	case x == nil:
		return 0
	case r.Action.OnRetries():
		return uint64(x.Delays.Len())
	}
	return 1
}

// walked is a step's progress: n more were walked over, and the rest is at most what is present now.
func (p *Part) walked(w *queue.BulkWalk, n uint64, r *queue.BulkRequest) {
	if r.Action == queue.BulkPurge {
		w.Examined += n
		w.ToExamine = w.Examined
		return
	}
	w.Examined = min(w.Examined+n, w.ToExamine)
	w.ToExamine = min(w.ToExamine, w.Examined+p.present(r))
}
