package shard

import (
	"reflect"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file counts again what is kept as counters, while work goes on: in slices of a bounded number of steps, between which anything may
// happen. A round has three parts, in this order, as each rests on the one before:
//
//	own     what each submission keeps of its own chunks, from its tries, its reservations and its cursors
//	totals  those of the queue and of each value, from what submissions keep
//	values  comparing those
//
// A submission's own recount is of the moment at which it ends: a try or reservation that the walk has met has a mark, and what changes
// of one that has it is counted in the tally too (tallied). The totals are of the moment at which their part begins: each submission is
// counted as it was then, by the walk or by the first change after (changing; engine/backlog/recount.go). Nothing in here knows the time.

// recount is the machine's side of it, and a part of it.
type recount struct {
	m        *machine
	part     recountPart
	at, end  int     // of slots of submissions, or of values
	of       *record // whose own counters are being counted; nil: no one's
	tries    *reflect.MapIter
	key      reflect.Value // of tries
	sum      tally         // of what was met
	void     tally         // takes what no one counts
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
func (p *recount) tallied(r *record, t *try) *tally {
	if p.of == r && t != nil && t.met == r.met {
		return &p.sum
	}
	return &p.void
}

// changing has to be called before anything changes that a submission contributes to totals. The backlog does so for its own part.
func (m *machine) changing(r *record) {
	if r.sub != nil {
		m.backlog.Changing(r.sub)
	}
}

// bigRecount is how many parts of something that is counted in one go may have.
const bigRecount = 500

// slice takes about `most` steps of a round, and says how many; over: the round is.
func (p *recount) slice(most int) (steps int, over bool) {
	m := p.m
	for steps < most {
		switch p.part {
		case recountIdle:
			p.part, p.at, p.end, p.next = recountOwn, 0, int(m.backlog.Slots()), map[suspicionOf]int64{}
		case recountOwn:
			steps += p.own(most - steps)
			if p.of == nil && p.at == p.end {
				steps += p.beginTotals()
				p.part = recountTotals
			}
		case recountTotals:
			n, more := m.backlog.Recount(most - steps)
			if steps += n; !more {
				p.endTotals()
				p.part, p.at = recountValues, 0
			}
		case recountValues:
			next, looked := m.backlog.RecountedValues(p.at, most-steps, p.judgeValue)
			p.compared(OfValue, looked)
			if steps, p.at = most, next; next == 0 {
				p.part, p.suspects, p.next = recountIdle, p.next, nil
				return steps, true
			}
		}
	}
	return steps, false
}

// progress is how much of the round is done, from 0 to 1.
func (p *recount) progress() float64 {
	switch {
	case p.part == recountOwn && p.end > 0:
		return float64(p.at) / float64(2*p.end)
	case p.part == recountTotals:
		if at, end := p.m.backlog.Recounting(); end > 0 {
			return (1 + float64(at)/float64(end)) / 2
		}
	case p.part == recountIdle, p.part == recountOwn:
		return 0
	}
	return 1
}

// own goes on with submissions' own counters.
func (p *recount) own(most int) (steps int) {
	m := p.m
	for steps < most {
		if p.of == nil {
			if p.at == p.end {
				return steps
			}
			steps++
			if sub := m.backlog.InSlot(uint32(p.at)); sub != nil {
				p.beginOwn(sub.Data.(*record))
			}
			p.at++
			continue
		}
		if p.of.sub == nil { // it ended
			m.holds.EndRecount()
			p.of, p.tries = nil, nil
			continue
		}
		for p.tries != nil && steps < most {
			steps++
			p.try()
		}
		n, more := m.holds.Recount(most - steps)
		if steps += n; !more && p.tries == nil {
			p.endOwn()
		}
	}
	return steps
}

// beginOwn begins with a submission. Nothing of it was met; all that comes from now on is.
func (p *recount) beginOwn(r *record) {
	r.met = !r.met
	p.of, p.sum, p.tries = r, tally{}, nil
	if len(r.tries) > 0 {
		p.tries = reflect.ValueOf(r.tries).MapRange() // goes on after changes, as a range over the map would
		p.key = reflect.New(reflect.TypeFor[uint32]()).Elem()
	}
	p.m.holds.BeginRecount(&r.holds)
}

// try meets the next try.
func (p *recount) try() {
	if !p.tries.Next() {
		p.tries = nil
		return
	}
	t, r := p.tries.Value().Interface().(*try), p.of
	if t.met == r.met {
		return // it came meanwhile
	}
	t.met = r.met
	if t.waiting {
		p.sum.waiting++
	}
	switch {
	case t.suspect == shelved && t.waiting:
		p.sum.shelved++
	case t.suspect == lent:
		p.sum.lent++
		if p.key.SetIterKey(p.tries); r.sub.IsAvailable(uint32(p.key.Uint())) {
			p.sum.ready++
		}
	}
	switch t.reason {
	case journal.Dead:
		p.sum.dead++
	case journal.Skipped, journal.Forwarded:
		p.sum.skips++
	}
}

// beginTotals notes what is kept in all, as it is now, and begins to count what submissions contribute.
func (p *recount) beginTotals() (steps int) {
	m := p.m
	p.queue, p.unknown = [queueCounters]int64{}, [queueCounters]bool{}
	for i, kept := range p.keptTotals() {
		if kept.now != nil {
			p.queue[i] = -int64(kept.now())
		}
	}
	if len(m.orphans.list) > bigRecount {
		p.unknown[QueueReserved-firstOfQueue], p.unknown[QueueSweeping-firstOfQueue] = true, true
	} else {
		for _, r := range m.orphans.list {
			p.queue[QueueReserved-firstOfQueue] += int64(r.holds.Len())
			p.queue[QueueSweeping-firstOfQueue] += int64(r.holds.Len())
		}
		steps += len(m.orphans.list)
	}
	if len(m.letters.ofEnded) > bigRecount {
		p.unknown[QueueEndedLetters-firstOfQueue] = true
	} else {
		for _, n := range m.letters.ofEnded {
			p.queue[QueueEndedLetters-firstOfQueue] += int64(n)
		}
		steps += len(m.letters.ofEnded)
	}
	m.backlog.BeginRecount(p.contribute)
	return steps + 1
}

// contribute adds what a submission contributes to the totals that the backlog does not keep.
func (p *recount) contribute(sub *backlog.Submission) {
	r := sub.Data.(*record)
	add := func(counter Counter, n uint64) { p.queue[counter-firstOfQueue] += int64(n) }
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
