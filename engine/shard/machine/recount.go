package machine

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

// Recount is the machine's side of it, and a part of it.
type Recount struct {
	m        *Machine
	Part     recountPart
	at, End  int     // of slots of submissions, or of values
	of       *Record // whose own counters are being counted; nil: no one's
	tries    *reflect.MapIter
	key      reflect.Value // of tries
	sum      tally         // of what was met
	void     tally         // takes what no one counts
	queue    [queueCounters]int64
	unknown  [queueCounters]bool             // cannot be counted this time
	Suspects map[suspicionOf]int64           // differences of totals that the last round found
	next     map[suspicionOf]int64           // that this one finds
	Judged   func(c Counter, found *Drift)   // told of every drift, once it is corrected
	Compared func(s RecountScope, n int)     // told how much was compared
	Skipped  func(reason RecountSkip, n int) // told of what could not be
}

type recountPart uint8

const (
	RecountIdle recountPart = iota // RecountIdle: no recount is under way
	RecountOwn                     // RecountOwn: it counts the submissions' own counters
	recountTotals
	recountValues
)

// tally is what the tries of one submission come to.
type tally struct{ waiting, dead, skips, shelved, lent, ready uint32 }

// tallied is where a change of what a try counts as is noted as well: nowhere, unless a recount has met the try.
func (p *Recount) tallied(r *Record, t *Try) *tally {
	if p.of == r && t != nil && t.Met == r.Met {
		return &p.sum
	}
	return &p.void
}

// changing has to be called before anything changes that a submission contributes to totals. The backlog does so for its own part.
func (m *Machine) changing(r *Record) {
	if r.Sub != nil {
		m.Backlog.Changing(r.Sub)
	}
}

// bigRecount is how many parts of something that is counted in one go may have.
const bigRecount = 500

// Slice takes about `most` steps of a round, and says how many; over: the round is.
func (p *Recount) Slice(most int) (steps int, over bool) {
	m := p.m
	for steps < most {
		switch p.Part {
		case RecountIdle:
			p.Part, p.at, p.End, p.next = RecountOwn, 0, int(m.Backlog.Slots()), map[suspicionOf]int64{}
		case RecountOwn:
			steps += p.own(most - steps)
			if p.of == nil && p.at == p.End {
				steps += p.BeginTotals()
				p.Part = recountTotals
			}
		case recountTotals:
			n, more := m.Backlog.Recount(most - steps)
			if steps += n; !more {
				p.endTotals()
				p.Part, p.at = recountValues, 0
			}
		case recountValues:
			next, looked := m.Backlog.RecountedValues(p.at, most-steps, p.judgeValue)
			p.Compared(OfValue, looked)
			if steps, p.at = most, next; next == 0 {
				p.Part, p.Suspects, p.next = RecountIdle, p.next, nil
				return steps, true
			}
		}
	}
	return steps, false
}

// Progress is how much of the round is done, from 0 to 1.
func (p *Recount) Progress() float64 {
	switch {
	case p.Part == RecountOwn && p.End > 0:
		return float64(p.at) / float64(2*p.End)
	case p.Part == recountTotals:
		if at, end := p.m.Backlog.Recounting(); end > 0 {
			return (1 + float64(at)/float64(end)) / 2
		}
	case p.Part == RecountIdle, p.Part == RecountOwn:
		return 0
	}
	return 1
}

// own goes on with submissions' own counters.
func (p *Recount) own(most int) (steps int) {
	m := p.m
	for steps < most {
		if p.of == nil {
			if p.at == p.End {
				return steps
			}
			steps++
			if sub := m.Backlog.InSlot(uint32(p.at)); sub != nil {
				p.beginOwn(sub.Data.(*Record))
			}
			p.at++
			continue
		}
		if p.of.Sub == nil { // it ended
			m.Holds.EndRecount()
			p.of, p.tries = nil, nil
			continue
		}
		for p.tries != nil && steps < most {
			steps++
			p.try()
		}
		n, more := m.Holds.Recount(most - steps)
		if steps += n; !more && p.tries == nil {
			p.endOwn()
		}
	}
	return steps
}

// beginOwn begins with a submission. Nothing of it was met; all that comes from now on is.
func (p *Recount) beginOwn(r *Record) {
	r.Met = !r.Met
	p.of, p.sum, p.tries = r, tally{}, nil
	if len(r.Tries) > 0 {
		p.tries = reflect.ValueOf(r.Tries).MapRange() // goes on after changes, as a range over the map would
		p.key = reflect.New(reflect.TypeFor[uint32]()).Elem()
	}
	p.m.Holds.BeginRecount(&r.Holds)
}

// try meets the next try.
func (p *Recount) try() {
	if !p.tries.Next() {
		p.tries = nil
		return
	}
	t, r := p.tries.Value().Interface().(*Try), p.of
	if t.Met == r.Met {
		return // it came meanwhile
	}
	t.Met = r.Met
	if t.Waiting {
		p.sum.waiting++
	}
	switch {
	case t.Suspect == Shelved && t.Waiting:
		p.sum.shelved++
	case t.Suspect == Lent:
		p.sum.lent++
		if p.key.SetIterKey(p.tries); r.Sub.IsAvailable(uint32(p.key.Uint())) {
			p.sum.ready++
		}
	}
	switch t.Reason {
	case journal.Dead:
		p.sum.dead++
	case journal.Skipped, journal.Forwarded:
		p.sum.skips++
	}
}

// BeginTotals notes what is kept in all, as it is now, and begins to count what submissions contribute.
func (p *Recount) BeginTotals() (steps int) {
	m := p.m
	p.queue, p.unknown = [queueCounters]int64{}, [queueCounters]bool{}
	for i, kept := range p.keptTotals() {
		if kept.now != nil {
			p.queue[i] = -int64(kept.now())
		}
	}
	if len(m.Orphans.List) > bigRecount {
		p.unknown[QueueReserved-firstOfQueue], p.unknown[QueueSweeping-firstOfQueue] = true, true
	} else {
		for _, r := range m.Orphans.List {
			p.queue[QueueReserved-firstOfQueue] += int64(r.Holds.Len())
			p.queue[QueueSweeping-firstOfQueue] += int64(r.Holds.Len())
		}
		steps += len(m.Orphans.List)
	}
	if len(m.Letters.OfEnded) > bigRecount {
		p.unknown[QueueEndedLetters-firstOfQueue] = true
	} else {
		for _, n := range m.Letters.OfEnded {
			p.queue[QueueEndedLetters-firstOfQueue] += int64(n)
		}
		steps += len(m.Letters.OfEnded)
	}
	m.Backlog.BeginRecount(p.contribute)
	return steps + 1
}

// contribute adds what a submission contributes to the totals that the backlog does not keep.
func (p *Recount) contribute(sub *backlog.Submission) {
	r := sub.Data.(*Record)
	add := func(counter Counter, n uint64) { p.queue[counter-firstOfQueue] += int64(n) }
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
