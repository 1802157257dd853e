package shard

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Counted is what a shard tells the other shards of its queue.
type Counted struct {
	Own   []backlog.OwnCount // chunks in flight that changed since the last time
	Fresh bool               // Own has all counts, and the shard knows nothing of the others
	Grace queue.Time         // until then the shard may not know all that consumers hold; 0: it does

	Taken []backlog.Takes  // reservations since the last time that rates count
	Lost  bool             // there were more of them
	Began []strategy.Limit // rates that the shard did not keep together with the others before
}

// CountTogether has a shard count together with the other shards of its queue, which have the same id.
func CountTogether(s *Shard, id uint64, what backlog.Together) (c Counted, err error) {
	err = (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) (err error) {
		v := &m.Backlog.Values
		if c.Fresh, c.Began, err = v.CountTogether(id, what); err != nil {
			return err
		}
		c.Own = v.OwnCounts(nil)
		c.Taken, c.Lost = v.OwnTaken(nil)
		if g := m.ValueLimits.Grace; g != nil {
			c.Grace = max(g.Until, now+1) // it ends in slices
		}
		return nil
	})
	return c, err
}

// Elsewhere is what a shard hears of the other shards of its queue.
type Elsewhere struct {
	InFlight []backlog.OwnCount // chunks that they have in flight, for each value that changed
	Taken    []backlog.Takes    // their reservations since the last time
}

// CountOthers notes what the other shards have counted, and serves calls that waited for less of it.
func CountOthers(s *Shard, of Elsewhere) error {
	return (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
		s.alarm.advance()
		for _, n := range of.InFlight {
			m.Backlog.Values.CountOthers(n)
		}
		m.Backlog.Values.TakenElsewhere(of.Taken)
		s.waiters.Serve(now)
		return nil
	})
}

// Owed is what the values of a rate owe in a shard.
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

// Owes has the values of a rate owe at least this in a shard. With unknown, others may have used their burst just now.
func Owes(s *Shard, rate strategy.Limit, list []backlog.Owed, unknown bool) error {
	return (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
		s.alarm.advance()
		m.Backlog.Values.Owes(rate, list, unknown)
		s.waiters.Serve(now)
		return nil
	})
}
