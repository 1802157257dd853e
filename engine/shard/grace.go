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

// followed is what of plans may be followed now, and until when that is not all of them; 0: it is.
func (s *Shard) followed(plans []*strategy.Plan) (list []*strategy.Plan, until queue.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.m.ValueLimits.Grace
	if g == nil {
		return plans, 0
	}
	for _, plan := range plans {
		list = append(list, g.Plan(plan))
	}
	return list, g.Until
}

// endGrace ends a grace that is over, a slice of the values at a time, and says whether there are more. The mutex is held.
func (s *Shard) endGrace(now queue.Time, most int) (more bool) {
	g := s.m.ValueLimits.Grace
	if g == nil || g.Until > now {
		return false
	}
	entries := slices.SortedFunc(maps.Keys(g.Values), func(a, b queue.MetaEntry) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), a.Value.Compare(b.Value))
	})
	for _, entry := range entries[:min(most, len(entries))] {
		s.m.Backlog.Values.Set(entry.Key, entry.Value, g.Values[entry])
		delete(g.Values, entry)
	}
	if len(g.Values) > 0 {
		return true
	}
	s.m.ValueLimits.Grace = nil
	s.noteSpecial()
	s.Consumers.tellWaiting(func(w *waiter) bool { return w.q.Restrained })
	return false
}

// noteSpecial keeps the note whether a reserve has to look at orders or at the restart grace. The mutex is held.
func (s *Shard) noteSpecial() { s.special.Store(s.roster.Ordered > 0 || s.m.ValueLimits.Grace != nil) }

// retryOrdered is when a consumer that is kept from work may ask again.
const retryOrdered = time.Second

// restrict applies orders and the restart grace to a request for a plan: it either answers it, or says what plan to follow.
func (s *Shard) restrict(q *machine.Request, asked *strategy.Plan) (answer machine.Reserved, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.roster.OrderOf(q.Consumer) {
	case queue.Quiet:
		return machine.Reserved{Reason: queue.ConsumerQuiet, RetryAfter: retryOrdered}, true
	case queue.Drain:
		return machine.Reserved{Reason: queue.ConsumerDraining, RetryAfter: retryOrdered}, true
	}
	q.Plan, q.Restrained = asked, false
	if s.m.ValueLimits.Grace != nil {
		q.Plan, q.Restrained = s.m.ValueLimits.Grace.Plan(asked), true
	}
	return machine.Reserved{}, false
}
