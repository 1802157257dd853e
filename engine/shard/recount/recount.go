package recount

// A round, in slices of about 500 steps, with other work in between:
//
//	idle ─► submissions ─► totals ─► values ─► idle
//	         each by itself  of the queue   of meta keys
//
// How can numbers be compared while they change? A change of a submission during its own count is added to the count as
// well (Counting). For totals, changes behind the walk are added, and changes ahead of it are met later
// (backlog.Recount). Record 22 has the proof.

import (
	"reflect"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// Part is the part that recounts.
type Part struct {
	m        *machine.Machine
	stage    stage
	at, end  int // of slots of submissions, or of values
	tries    *reflect.MapIter
	key      reflect.Value // of tries
	kept     [queueCounters]Total
	sums     [queueCounters]int64  // the result of the count minus the counter
	unknown  [queueCounters]bool   // cannot be counted this time
	Suspects map[suspicionOf]int64 // differences of totals that the last round found
	next     map[suspicionOf]int64 // those that this round finds

	Relist func(r *machine.Record) // called when the number of a submission's dead chunks is corrected
	// called for every drift, once it is corrected; nil: a total differs for the first time
	Judged   func(c Counter, found *Drift)
	Compared func(s Scope, n int)     // called with the number of comparisons
	Skipped  func(reason Skip, n int) // called for comparisons that could not be made
}

// stage is the stage of a round.
type stage uint8

const (
	idle stage = iota
	submissions
	totals
	values
)

// New returns the part of a machine, before its first recount. Other parts pass in the totals that
// they keep.
func New(m *machine.Machine, others map[Counter]Total) *Part {
	p := &Part{m: m, Relist: func(*machine.Record) {}}
	p.keep(others)
	return p
}

// Idle says that no round is under way.
func (p *Part) Idle() bool { return p.stage == idle }

// Slice takes about `most` steps of a round, and says how many; over: the round is.
// The three stages have an order: a submission whose own counters are wrong would make the totals look wrong, too,
// so it is corrected before they are compared.
func (p *Part) Slice(most int) (steps int, over bool) {
	m := p.m
	for steps < most {
		switch p.stage {
		case idle:
			p.stage, p.at, p.end, p.next = submissions, 0, int(m.Backlog.Slots()), map[suspicionOf]int64{}
		case submissions:
			steps += p.submissions(most - steps)
			if m.Counting.Of == nil && p.at == p.end {
				steps += p.BeginTotals()
				p.stage = totals
			}
		case totals:
			n, more := m.Backlog.Recount.Next(most - steps)
			if steps += n; !more {
				p.endTotals()
				p.stage, p.at = values, 0
			}
		case values:
			next, looked := m.Backlog.Recount.Values(p.at, most-steps, p.judgeValue)
			p.Compared(OfValue, looked)
			if steps, p.at = most, next; next == 0 {
				p.stage, p.Suspects, p.next = idle, p.next, nil
				return steps, true
			}
		}
	}
	return steps, false
}

// Progress is how much of the round is done, from 0 to 1.
// Half of it is for the submissions, half for the totals; values are short and count as done.
func (p *Part) Progress() float64 {
	switch {
	case p.stage == submissions && p.end > 0:
		return float64(p.at) / float64(2*p.end)
	case p.stage == totals:
		if at, end := p.m.Backlog.Recount.Progress(); end > 0 {
			return (1 + float64(at)/float64(end)) / 2
		}
	case p.stage == idle, p.stage == submissions:
		return 0
	}
	return 1
}

// submissions goes on with the counters that submissions keep of their own chunks.
func (p *Part) submissions(most int) (steps int) {
	m := p.m
	for steps < most {
		switch of := m.Counting.Of; {
		case of == nil && p.at == p.end:
			return steps
		case of == nil:
			steps++
			if sub := m.Backlog.InSlot(uint32(p.at)); sub != nil {
				p.begin(sub.Data.(*machine.Record))
			}
			p.at++
			continue
		case of.Sub == nil: // it ended
			m.Holds.EndRecount()
			m.Counting.Of, p.tries = nil, nil
			continue
		}
		for p.tries != nil && steps < most {
			steps++
			p.try()
		}
		n, more := m.Holds.Recount(most - steps)
		if steps += n; !more && p.tries == nil {
			p.compareOwn()
		}
	}
	return steps
}

// begin begins with a submission. A range over a map cannot be left and entered again, which slices need. MapIter can.
// It may or may not meet an entry that was added meanwhile: Meets sorts that out.
func (p *Part) begin(r *machine.Record) {
	p.m.Counting.Begin(r)
	if p.tries = nil; len(r.Tries) > 0 {
		p.tries = reflect.ValueOf(r.Tries).MapRange() // goes on after changes, as a range over the map would
		p.key = reflect.New(reflect.TypeFor[uint32]()).Elem()
	}
	p.m.Holds.BeginRecount(&r.Holds)
}

// try looks at the next try. A try that came after the count began was counted by the code that added it.
func (p *Part) try() {
	if !p.tries.Next() {
		p.tries = nil
		return
	}
	c := &p.m.Counting
	t := p.tries.Value().Interface().(*machine.Try)
	if !c.Meets(t) {
		return // it came meanwhile
	}
	if t.Waiting {
		c.Sum.Waiting++
	}
	switch {
	case t.Suspect == machine.Shelved && t.Waiting:
		c.Sum.Shelved++
	case t.Suspect == machine.Lent:
		c.Sum.Lent++
		if p.key.SetIterKey(p.tries); c.Of.Sub.IsAvailable(uint32(p.key.Uint())) {
			c.Sum.Ready++
		}
	}
	switch t.Reason {
	case journal.Dead:
		c.Sum.Dead++
	case journal.Skipped, journal.Forwarded:
		c.Sum.Skips++
	}
}

// State is the progress and the results of a shard's recounts. Totals count from the server's start.
type State struct {
	Every     queue.Time     // how often a round is made, and how long one takes at least, in milliseconds; 0: none is
	Rounds    uint64         // that were finished
	Last      queue.Time     // when the last one was; 0: none yet
	Progress  float64        // of the round under way, from 0 to 1; 0: none is
	Checked   [Scopes]uint64 // submissions, values, and totals of the queue that were compared
	Skipped   [Skips]uint64  // comparisons that could not be made
	Suspected uint64         // totals that differed; if they do so in the next round again, it is a drift
	Drifts    [Counters]uint64
	Newest    *Drift // the last drift; nil: none yet
	Stopped   bool   // a recount broke off with a programming error: none is made until the next start
}

// API is the recount as JSON carries it.
func (s *State) API() api.Recount {
	out := api.Recount{
		EveryMS: int64(s.Every), Rounds: s.Rounds, Progress: s.Progress, Submissions: s.Checked[OfSubmission],
		Values: s.Checked[OfValue], QueueTotals: s.Checked[OfQueue], Suspected: s.Suspected, Drifts: s.Drifted(),
		ByCounter: []api.RecountDrift{}, Stopped: s.Stopped,
	}
	for _, n := range s.Skipped {
		out.Skipped += n
	}
	if s.Last != 0 {
		out.LastRoundAt = new(s.Last.API())
	}
	for counter, n := range s.Drifts {
		if c := Counter(counter); n > 0 {
			out.ByCounter = append(out.ByCounter, api.RecountDrift{Scope: c.Scope().String(), Counter: c.String(),
				Drifts: n})
		}
	}
	if d := s.Newest; d != nil {
		out.Newest = &api.CounterDrift{
			Scope: d.Counter.Scope().String(), Counter: d.Counter.String(), Kept: d.Kept, Recounted: d.Found,
			Corrected: d.Corrected, At: d.At.API(),
		}
		switch d.Counter.Scope() {
		case OfSubmission:
			out.Newest.Submission = d.Submission.String()
		case OfValue:
			out.Newest.Key, out.Newest.Value = d.Entry.Key, new(d.Entry.Value)
		}
	}
	return out
}

// Drifted is how many drifts there were.
func (s *State) Drifted() (n uint64) {
	for _, of := range s.Drifts {
		n += of
	}
	return n
}
