package shard

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// grace is the restart grace of a queue: after a start nobody knows what consumers hold, until they extend it. Meanwhile nothing
// is handed out that a limit counts, so that limits hold in the world outside, too. What no limit counts goes on.
type grace struct {
	began, until queue.Time
	values       map[queue.MetaEntry]queue.ValueSettings // with an operator's limit: the backlog has them at 0 meanwhile
	plans        map[*strategy.Plan]*strategy.Plan       // without what their limits count
}

// maxGracePlans bounds the plans that are kept.
const maxGracePlans = 1000

// restrain begins the grace of a new life. The first life of a queue has none: nobody holds anything.
func (m *machine) restrain(now queue.Time) {
	if m.epoch == 0 || m.settings.RestartGrace <= 0 {
		return
	}
	m.grace = newGrace(now, now.Add(m.settings.RestartGrace))
}

// newGrace is a restart grace before the values that it holds back are known.
func newGrace(began, until queue.Time) *grace {
	return &grace{began: began, until: until, values: map[queue.MetaEntry]queue.ValueSettings{}, plans: map[*strategy.Plan]*strategy.Plan{}}
}

// end is until when it runs, 0: it is over.
func (g *grace) end() queue.Time {
	if g == nil {
		return 0
	}
	return g.until
}

// plan is what of a plan may be followed.
func (g *grace) plan(of *strategy.Plan) *strategy.Plan {
	restrained := g.plans[of]
	if restrained == nil {
		if len(g.plans) >= maxGracePlans {
			clear(g.plans)
		}
		restrained = of.Restrained()
		g.plans[of] = restrained
	}
	return restrained
}

// followed is what of plans may be followed now, and until when that is not all of them; 0: it is.
func (s *Shard) followed(plans []*strategy.Plan) (list []*strategy.Plan, until queue.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.m.grace
	if g == nil {
		return plans, 0
	}
	for _, plan := range plans {
		list = append(list, g.plan(plan))
	}
	return list, g.until
}

// graceUntil is when the restart grace ends; 0: there is none.
func (m *machine) graceUntil() queue.Time {
	if m.grace == nil {
		return 0
	}
	return m.grace.until
}

// setValue changes what is demanded of a value.
func (m *machine) setValue(entry queue.MetaEntry, settings queue.ValueSettings) {
	if m.grace != nil {
		delete(m.grace.values, entry)
		if settings.Limit != queue.NoLimit {
			m.grace.values[entry] = settings
			settings.Limit = 0
		}
	}
	m.backlog.SetValue(entry.Key, entry.Value, settings)
}

// valueSettings are what setValue set last.
func (m *machine) valueSettings(entry queue.MetaEntry) queue.ValueSettings {
	if m.grace != nil {
		if settings, kept := m.grace.values[entry]; kept {
			return settings
		}
	}
	return m.backlog.ValueSettings(entry.Key, entry.Value)
}

// endGrace ends a grace that is over, a slice of the values at a time, and says whether there are more. The mutex is held.
func (s *Shard) endGrace(now queue.Time, most int) (more bool) {
	g := s.m.grace
	if g == nil || g.until > now {
		return false
	}
	entries := slices.SortedFunc(maps.Keys(g.values), func(a, b queue.MetaEntry) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), a.Value.Compare(b.Value))
	})
	for _, entry := range entries[:min(most, len(entries))] {
		s.m.backlog.SetValue(entry.Key, entry.Value, g.values[entry])
		delete(g.values, entry)
	}
	if len(g.values) > 0 {
		return true
	}
	s.m.grace = nil
	s.noteSpecial()
	s.Consumers.tellWaiting(func(w *waiter) bool { return w.q.restrained })
	return false
}

// noteSpecial keeps the note whether a reserve has to look at orders or at the restart grace. The mutex is held.
func (s *Shard) noteSpecial() { s.special.Store(s.roster.ordered > 0 || s.m.grace != nil) }

// retryOrdered is when a consumer that is kept from work may ask again.
const retryOrdered = time.Second

// restrict applies orders and the restart grace to a request for a plan: it either answers it, or says what plan to follow.
func (s *Shard) restrict(q *Request, asked *strategy.Plan) (answer Reserved, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.roster.orderOf(q.Consumer) {
	case queue.Quiet:
		return Reserved{Reason: queue.ConsumerQuiet, RetryAfter: retryOrdered}, true
	case queue.Drain:
		return Reserved{Reason: queue.ConsumerDraining, RetryAfter: retryOrdered}, true
	}
	q.Plan, q.restrained = asked, false
	if s.m.grace != nil {
		q.Plan, q.restrained = s.m.grace.plan(asked), true
	}
	return Reserved{}, false
}
