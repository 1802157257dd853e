package shard

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Moment is a state of a shard. While it lasts, all facts about the shard from this moment stay true. The zero Moment
// does not last.
type Moment struct {
	changes uint64
	opens   int64 // when a rate may open a gate, in nanoseconds
	early   int64 // the clock was set back if it shows less
}

// Lasts says that no one has changed anything under the shard's mutex since, and that no rate may have opened a gate.
func (m *Moment) Lasts(s *Shard, now int64) bool {
	return m.early < now && now < m.opens && m.changes == s.mu.changes.Load()
}

// moment is the present one. The mutex is held.
func moment(s *Shard, now time.Time) Moment {
	if !s.mu.watched {
		s.mu.watched = true
		s.mu.changes.Store(watched.Add(1) << 40)
	}
	opens, some := s.m.Backlog.Values.Rates.Next()
	if !some {
		opens = math.MaxInt64
	}
	return Moment{s.mu.changes.Load(), opens, now.Add(-time.Second).UnixNano()}
}

// watched counts the shards whose Moments someone asked for. Each has numbers of its own, so a Moment of one never
// equals a Moment of another.
var watched atomic.Uint64

// Asked is how many chunks are in flight or asked for in a shard, as it was known last.
type Asked struct {
	chunks int
	at     Moment
}

// Chunks is how many chunks are in flight or asked for.
func (a *Asked) Chunks(s *Shard, now time.Time) int {
	if !a.at.Lasts(s, now.UnixNano()) {
		s.mu.looked(func() { a.chunks, a.at = s.Percents.Asked(s.m), moment(s, now) })
	}
	return a.chunks
}

// Counted is a shard's report to the other shards of its queue.
type Counted struct {
	Own   []backlog.OwnCount // chunks in flight that changed since the last time
	Fresh bool               // Own has all counts, and the shard does not know those of the others
	Grace queue.Time         // until then the shard may not know all reservations; 0: it does
	At    Moment             // the moment of this report; none while there is a Grace

	Taken []backlog.Takes  // reservations since the last time that rates count
	Lost  bool             // there were more of them
	Began []strategy.Limit // rates that the shard did not keep together with the others before
}

// Elsewhere is the report that a shard gets of the other shards of its queue.
type Elsewhere struct {
	InFlight []backlog.OwnCount // chunks that they have in flight, for each value that changed
	All      bool               // InFlight has all values, and replaces the earlier ones
	Taken    []backlog.Takes    // their reservations since the last time
}

// Look has the next candidates of the branches of a plan in a shard.
type Look struct {
	Plan  *strategy.Plan
	Heads []backlog.Head
	Err   error // why the shard gives nothing
	At    Moment
}

// CountTogether has a shard count together with the other shards of its queue, which have the same id. The shard notes
// their counts, serves calls that waited for lower counts, and reports its own. A look, if there is one, shows the
// state after that. As a rule it takes one hold of the mutex.
func CountTogether(ctx context.Context, s *Shard, id uint64, what backlog.Together, heard Elsewhere,
	look *Look) (c Counted, err error) {
	now, again := s.options.Now(), false
	s.mu.looked(func() {
		if err = s.usable(); err != nil {
			return
		}
		hear(s, &heard, now)
		if c, err = count(s, id, what, queue.At(now)); err != nil {
			return
		}
		if look != nil {
			again, look.Err = look.once(ctx, s, now)
		}
		if c.Grace == 0 {
			c.At = moment(s, now)
		}
	})
	for again && look.Err == nil {
		s.mu.looked(func() { again, look.Err = look.once(ctx, s, s.options.Now()) })
	}
	return c, err
}

// once looks, with the mutex held.
func (l *Look) once(ctx context.Context, s *Shard, now time.Time) (again bool, err error) {
	return overViewsOnce(ctx, s, l.Plan, now, func(views []*backlog.View) (again bool) {
		l.Heads, again = machine.Heads(s.m, views, l.Heads[:0])
		l.At = moment(s, now)
		return again
	})
}

// hear notes the counts of the other shards. It comes before the rates look at the clock, as the others may have taken
// chunks before a gate opens.
func hear(s *Shard, of *Elsewhere, now time.Time) {
	v := &s.m.Backlog.Values
	if of.All {
		v.ForgetOthers()
	}
	for _, n := range of.InFlight {
		v.CountOthers(n)
	}
	v.TakenElsewhere(of.Taken, now.UnixNano())
	if s.alarm.advanceFrom(now) || of.All || len(of.InFlight)+len(of.Taken) > 0 {
		s.mu.change()
		s.waiters.Serve(queue.At(now))
	}
}

// count reports the shard's own counts.
func count(s *Shard, id uint64, what backlog.Together, now queue.Time) (c Counted, err error) {
	v := &s.m.Backlog.Values
	if c.Fresh, c.Began, err = v.CountTogether(id, what); err != nil {
		return c, err
	}
	if c.Fresh || len(c.Began) > 0 {
		s.mu.change()
	}
	c.Own = v.OwnCounts(nil)
	c.Taken, c.Lost = v.OwnTaken(nil)
	if g := s.m.ValueLimits.Grace; g != nil {
		c.Grace = max(g.Until, now+1) // it ends in slices
	}
	return c, nil
}

// Owed lists how much the values of a rate owe in a shard.
func Owed(s *Shard, rate strategy.Limit) (list []backlog.Owed, err error) {
	err = (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
		if s.alarm.advance() {
			s.waiters.Serve(now)
		}
		list = m.Backlog.Values.Owed(rate)
		return nil
	})
	return list, err
}

// Owes makes the values of a rate owe at least this much in a shard. unknown: other values may have just used their
// burst.
func Owes(s *Shard, rate strategy.Limit, list []backlog.Owed, unknown bool) error {
	return (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
		s.alarm.advance()
		m.Backlog.Values.Owes(rate, list, unknown)
		s.waiters.Serve(now)
		return nil
	})
}
