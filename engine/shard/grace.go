package shard

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// endGrace ends a grace that is over, a slice of the values at a time. It returns `most`
// while there are more. The mutex is held.
func (s *Shard) endGrace(m *machine.Machine, now queue.Time, most int) int {
	g := m.ValueLimits.Grace
	if g == nil || g.Until > now {
		return 0
	}
	limited := slices.SortedFunc(maps.Keys(g.Values), func(a, b queue.ValueTarget) int {
		if a.All != b.All {
			if a.All {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.Key, b.Key), a.Value.Compare(b.Value))
	})
	for _, of := range limited[:min(most, len(limited))] {
		m.ValueLimits.Free(of)
	}
	if len(g.Values) > 0 {
		return most
	}
	m.ValueLimits.Grace = nil
	s.noteSpecial()
	s.waiters.Again(func(q *machine.Request) bool { return q.Restrained })
	return 0
}

// noteSpecial notes whether a reserve has to look at orders or at the restart grace. The mutex is held.
func (s *Shard) noteSpecial() { s.special.Store(s.roster.Ordered > 0 || s.m.ValueLimits.Grace != nil) }

// retryOrdered is when a consumer that is kept from work may ask again.
const retryOrdered = time.Second

// restrict applies orders and the restart grace to a request for a plan: it either answers the request, or sets the
// plan to follow.
func (s *Shard) restrict(q *machine.Request, asked *strategy.Plan) (answer machine.Reserved, over bool) {
	var order queue.ConsumerOrder
	(*doors)(s).Look(func(m *machine.Machine) {
		order = s.roster.OrderOf(q.Consumer)
		q.Plan, q.Restrained = asked, false
		if grace := m.ValueLimits.Grace; grace != nil && order == queue.NoOrder {
			q.Plan, q.Restrained = grace.Plan(asked), true
		}
	})
	switch order {
	case queue.Quiet:
		return machine.Reserved{Reason: queue.ConsumerQuiet, RetryAfter: retryOrdered}, true
	case queue.Drain:
		return machine.Reserved{Reason: queue.ConsumerDraining, RetryAfter: retryOrdered}, true
	}
	return machine.Reserved{}, false
}
