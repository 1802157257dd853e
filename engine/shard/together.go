package shard

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Counted are the chunks in flight that a shard counts together with the other shards of its queue.
type Counted struct {
	Own   []backlog.OwnCount // that changed since the last time
	Fresh bool               // Own has all counts, and the shard knows nothing of the others
	Grace queue.Time         // until then the shard may not know all that consumers hold; 0: it does
}

// CountTogether has a shard count the chunks in flight of some keys together with the other shards of its queue, which
// have the same id.
func CountTogether(s *Shard, id uint64, keys []queue.MetaKey) (c Counted, err error) {
	err = (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
		c.Fresh = m.Backlog.Values.CountTogether(id, keys)
		c.Own = m.Backlog.Values.OwnCounts(nil)
		if g := m.ValueLimits.Grace; g != nil {
			c.Grace = max(g.Until, now+1) // it ends in slices
		}
		return nil
	})
	return c, err
}

// CountOthers notes what is in flight in the other shards, and serves calls that waited for less of it.
func CountOthers(s *Shard, counts []backlog.OwnCount) error {
	return (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
		for _, n := range counts {
			m.Backlog.Values.CountOthers(n)
		}
		s.waiters.Serve(now)
		return nil
	})
}
