package recount

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Total is a total of the queue that is kept as a counter. A recount checks an equation, for the moment at which it
// begins with the totals:
//
//	kept  =  contributions of the open submissions  +  Sum()
//
// The left side is copied then. The right side is added up later, submission by submission, but always as it was at
// that moment (backlog.Recount). The difference at the end is the drift, and Add corrects the counter by it.
type Total struct {
	Kept func() uint64
	Add  func(by int64) // corrects it; nil: it cannot be corrected

	// Sum is the count beside the contributions of open submissions, and Parts how many parts it has: Sum counts them
	// in one go, or, if there are too many, not at all. Nil: there is none.
	Parts func() int
	Sum   func() uint64
}

// manyParts is how many parts Sum may count. It counts them in one hold of the mutex, some nanoseconds each.
const manyParts = 500

// Of is a total that is a number in memory.
func Of(n *uint64) Total {
	return Total{Kept: func() uint64 { return *n }, Add: func(by int64) { *n += uint64(by) }}
}

// A correction is added to a counter, and never sets it: work goes on meanwhile, and a set would lose the changes since
// the moment of the recount.
func ofInt(n *int) Total {
	return Total{Kept: func() uint64 { return uint64(*n) }, Add: func(by int64) { *n += int(by) }}
}

// keep notes which totals are recounted, without those that the backlog keeps.
func (p *Part) keep(others map[Counter]Total) {
	m := p.m
	c, s := &m.Stats, &m.Suspects
	sweeping := Of(&c.Orphaned)
	sweeping.Parts = func() int { return len(m.Orphans.List) }
	sweeping.Sum = func() (n uint64) {
		for _, r := range m.Orphans.List {
			n += uint64(r.Holds.Len())
		}
		return n
	}
	// the size of a table
	reserved := Total{Kept: func() uint64 { return uint64(m.Holds.Len()) }, Parts: sweeping.Parts, Sum: sweeping.Sum}
	for _, list := range []map[Counter]Total{others, {
		QueueWaiting: Of(&c.Waiting), QueueRunAt: Of(&c.Parked), QueueDead: Of(&c.Dead), QueueDone: Of(&c.Completed),
		QueueSkipped:    Of(&c.Skipped),
		QueueOperations: Of(&c.Operations), QueueCovered: Of(&c.Covered[0]), QueueCoveredNext: Of(&c.Covered[1]),
		QueueSweeping: sweeping, QueueReserved: reserved,
		QueueShelved: ofInt(&s.Shelved), QueueLent: ofInt(&s.Lent), QueueLentReady: ofInt(&s.Ready),
	}} {
		for counter, total := range list {
			p.kept[counter-firstOfQueue] = total
		}
	}
}

// BeginTotals copies the counters as they are now, and begins to count the contributions of submissions. Each sum
// begins at minus its counter: when everything is added, the sum is the difference.
func (p *Part) BeginTotals() (steps int) {
	p.sums, p.unknown = [queueCounters]int64{}, [queueCounters]bool{}
	for i, total := range &p.kept {
		if total.Kept == nil {
			continue // the backlog's
		}
		p.sums[i] = -int64(total.Kept())
		if total.Parts == nil {
			continue
		}
		if parts := total.Parts(); parts > manyParts {
			p.unknown[i] = true
		} else {
			p.sums[i] += int64(total.Sum())
			steps += parts
		}
	}
	p.m.Backlog.Recount.Begin(p.contribute)
	return steps + 1
}

// contribute adds a submission's contribution to the totals that the backlog does not keep. It must name every counter
// that changes with a submission. A counter that is left out here shows as a drift of its whole value, in the first
// round of any test.
func (p *Part) contribute(sub *backlog.Submission) {
	r := sub.Data.(*machine.Record)
	add := func(counter Counter, n uint64) { p.sums[counter-firstOfQueue] += int64(n) }
	available := uint64(sub.Available())
	if r.Parked {
		add(QueueRunAt, available)
	} else {
		operations := available * uint64(r.Details().Operations)
		add(QueueOperations, operations)
		for book, counter := range [2]Counter{QueueCovered, QueueCoveredNext} {
			if sub.Counted(book) != queue.Unruled {
				add(counter, operations)
			}
		}
	}
	add(QueueWaiting, uint64(r.Waiting))
	add(QueueDead, uint64(r.Dead))
	add(QueueDone, uint64(r.Done))
	add(QueueSkipped, uint64(r.Skips))
	add(QueueReserved, uint64(r.Holds.Len()))
	add(QueueShelved, uint64(r.Shelved))
	add(QueueLent, uint64(r.Lent))
	add(QueueLentReady, uint64(r.Ready))
}
