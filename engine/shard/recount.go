package shard

import (
	"reflect"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file counts anew what is kept as counters, while work goes on: in slices of a bounded number of steps, between which anything may
// happen. A round has three parts, in this order, as each rests on the one before:
//
//	own     what each submission keeps of its own chunks, from its tries, its reservations and its cursors
//	totals  those of the queue and of each value, from what submissions keep
//	values  comparing those
//
// A submission's own recount is of the moment at which it ends: a try or reservation that the walk has met has a mark, and what changes
// of one that has it is counted in the tally too (tallied). The totals are of the moment at which their part begins: each submission is
// counted as it was then, by the walk or by the first change after (changing; engine/backlog/recount.go). Nothing in here knows the time.

// recount is the machine's side of it.
type recount struct {
	part     recountPart
	at, end  int     // of slots of submissions, or of values
	of       *record // whose own counters are being counted; nil: nobody's
	tries    *reflect.MapIter
	key      reflect.Value // of tries
	sum      tally         // of what was met
	void     tally         // takes what nobody counts
	queue    [queueCounters]int64
	unknown  [queueCounters]bool             // cannot be counted this time
	suspects map[suspicionOf]int64           // differences of totals that the last round found
	next     map[suspicionOf]int64           // that this one finds
	judged   func(c Counter, found *Drift)   // told of every drift, once it is corrected
	compared func(s RecountScope, n int)     // told how much was compared
	skipped  func(reason RecountSkip, n int) // told of what could not be
}

type recountPart uint8

const (
	recountIdle recountPart = iota
	recountOwn
	recountTotals
	recountValues
)

// tally is what the tries of one submission come to.
type tally struct{ waiting, dead, skips, shelved, lent, ready uint32 }

// tallied is where a change of what a try counts as is noted as well: nowhere, unless a recount has met the try.
func (m *machine) tallied(r *record, t *try) *tally {
	if c := &m.recount; c.of == r && t != nil && t.met == r.met {
		return &c.sum
	}
	return &m.recount.void
}

// changing has to be called before anything changes that a submission contributes to totals. The backlog does so for its own part.
func (m *machine) changing(r *record) {
	if r.sub != nil {
		m.backlog.Changing(r.sub)
	}
}

// bigRecount is how many parts of something that is counted in one go may have.
const bigRecount = 500

// recountSlice takes about `most` steps of a round, and says how many; over: the round is.
func (m *machine) recountSlice(most int) (steps int, over bool) {
	c := &m.recount
	for steps < most {
		switch c.part {
		case recountIdle:
			c.part, c.at, c.end, c.next = recountOwn, 0, int(m.backlog.Slots()), map[suspicionOf]int64{}
		case recountOwn:
			steps += m.recountOwn(most - steps)
			if c.of == nil && c.at == c.end {
				steps += m.beginTotals()
				c.part = recountTotals
			}
		case recountTotals:
			n, more := m.backlog.Recount(most - steps)
			if steps += n; !more {
				m.endTotals()
				c.part, c.at = recountValues, 0
			}
		case recountValues:
			next, looked := m.backlog.RecountedValues(c.at, most-steps, m.judgeValue)
			c.compared(OfValue, looked)
			if steps, c.at = most, next; next == 0 {
				c.part, c.suspects, c.next = recountIdle, c.next, nil
				return steps, true
			}
		}
	}
	return steps, false
}

// progress is how much of the round is done, from 0 to 1.
func (m *machine) progress() float64 {
	c := &m.recount
	switch {
	case c.part == recountOwn && c.end > 0:
		return float64(c.at) / float64(2*c.end)
	case c.part == recountTotals:
		if at, end := m.backlog.Recounting(); end > 0 {
			return (1 + float64(at)/float64(end)) / 2
		}
	case c.part == recountIdle, c.part == recountOwn:
		return 0
	}
	return 1
}

// recountOwn goes on with submissions' own counters.
func (m *machine) recountOwn(most int) (steps int) {
	c := &m.recount
	for steps < most {
		if c.of == nil {
			if c.at == c.end {
				return steps
			}
			steps++
			if sub := m.backlog.InSlot(uint32(c.at)); sub != nil {
				m.beginOwn(sub.Data.(*record))
			}
			c.at++
			continue
		}
		if c.of.sub == nil { // it ended
			m.holds.EndRecount()
			c.of, c.tries = nil, nil
			continue
		}
		for c.tries != nil && steps < most {
			steps++
			m.recountTry()
		}
		n, more := m.holds.Recount(most - steps)
		if steps += n; !more && c.tries == nil {
			m.endOwn()
		}
	}
	return steps
}

// beginOwn begins with a submission. Nothing of it was met; all that comes from now on is.
func (m *machine) beginOwn(r *record) {
	c := &m.recount
	r.met = !r.met
	c.of, c.sum, c.tries = r, tally{}, nil
	if len(r.tries) > 0 {
		c.tries = reflect.ValueOf(r.tries).MapRange() // goes on after changes, as a range over the map would
		c.key = reflect.New(reflect.TypeFor[uint32]()).Elem()
	}
	m.holds.BeginRecount(&r.holds)
}

// recountTry meets the next try.
func (m *machine) recountTry() {
	c := &m.recount
	if !c.tries.Next() {
		c.tries = nil
		return
	}
	t, r := c.tries.Value().Interface().(*try), c.of
	if t.met == r.met {
		return // it came meanwhile
	}
	t.met = r.met
	if t.waiting {
		c.sum.waiting++
	}
	switch {
	case t.suspect == shelved && t.waiting:
		c.sum.shelved++
	case t.suspect == lent:
		c.sum.lent++
		if c.key.SetIterKey(c.tries); r.sub.IsAvailable(uint32(c.key.Uint())) {
			c.sum.ready++
		}
	}
	switch t.reason {
	case journal.Dead:
		c.sum.dead++
	case journal.Skipped, journal.Forwarded:
		c.sum.skips++
	}
}

// beginTotals notes what is kept in all, as it is now, and begins to count what submissions contribute.
func (m *machine) beginTotals() (steps int) {
	c := &m.recount
	c.queue, c.unknown = [queueCounters]int64{}, [queueCounters]bool{}
	for i, kept := range m.keptTotals() {
		if kept.now != nil {
			c.queue[i] = -int64(kept.now())
		}
	}
	if len(m.orphans) > bigRecount {
		c.unknown[QueueReserved-firstOfQueue], c.unknown[QueueSweeping-firstOfQueue] = true, true
	} else {
		for _, r := range m.orphans {
			c.queue[QueueReserved-firstOfQueue] += int64(r.holds.Len())
			c.queue[QueueSweeping-firstOfQueue] += int64(r.holds.Len())
		}
		steps += len(m.orphans)
	}
	if len(m.letters.ofEnded) > bigRecount {
		c.unknown[QueueBuried-firstOfQueue] = true
	} else {
		for _, n := range m.letters.ofEnded {
			c.queue[QueueBuried-firstOfQueue] += int64(n)
		}
		steps += len(m.letters.ofEnded)
	}
	m.backlog.BeginRecount(m.contribute)
	return steps + 1
}

// contribute adds what a submission contributes to the totals that the backlog does not keep.
func (m *machine) contribute(sub *backlog.Submission) {
	r := sub.Data.(*record)
	add := func(counter Counter, n uint64) { m.recount.queue[counter-firstOfQueue] += int64(n) }
	available := uint64(sub.Available())
	if r.parked {
		add(QueueRunAt, available)
	} else {
		operations := available * uint64(r.details().operations)
		add(QueueOperations, operations)
		for book, counter := range [2]Counter{QueueCovered, QueueCoveredNext} {
			if sub.Counted(book) != queue.Unruled {
				add(counter, operations)
			}
		}
	}
	add(QueueWaiting, uint64(r.waiting))
	add(QueueDead, uint64(r.dead))
	add(QueueDone, uint64(r.done))
	add(QueueSkipped, uint64(r.skips))
	add(QueueReserved, uint64(r.holds.Len()))
	add(QueueShelved, uint64(r.shelved))
	add(QueueLent, uint64(r.lent))
	add(QueueLentReady, uint64(r.ready))
}
