package shard

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// grace is the restart grace of a queue: after a start no one knows what consumers hold, until they extend it. Meanwhile nothing
// is handed out that a limit counts, so that limits hold in the world outside, too. What no limit counts goes on.
type grace struct {
	began, until queue.Time
	values       map[queue.MetaEntry]queue.ValueSettings // with an operator's limit: the backlog has them at 0 meanwhile
	plans        map[*strategy.Plan]*strategy.Plan       // without what their limits count
}

// maxGracePlans bounds the plans that are kept.
const maxGracePlans = 1000

// valueLimits is the part of the machine that knows what is demanded of the values of meta keys.
type valueLimits struct {
	m     *machine
	grace *grace // nil when it is over
}

// restrain begins the grace of a new life. The first life of a queue has none: no one holds anything.
func (p *valueLimits) restrain(now queue.Time) {
	m := p.m
	if m.epoch == 0 || m.settings.RestartGrace <= 0 {
		return
	}
	p.grace = newGrace(now, now.Add(m.settings.RestartGrace))
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
	g := s.m.valueLimits.grace
	if g == nil {
		return plans, 0
	}
	for _, plan := range plans {
		list = append(list, g.plan(plan))
	}
	return list, g.until
}

// until is when the restart grace ends; 0: there is none.
func (p *valueLimits) until() queue.Time {
	if p.grace == nil {
		return 0
	}
	return p.grace.until
}

// set changes what is demanded of a value.
func (p *valueLimits) set(entry queue.MetaEntry, settings queue.ValueSettings) {
	if p.grace != nil {
		delete(p.grace.values, entry)
		if settings.Limit != queue.NoLimit {
			p.grace.values[entry] = settings
			settings.Limit = 0
		}
	}
	p.m.backlog.SetValue(entry.Key, entry.Value, settings)
}

// settings are what setValue set last.
func (p *valueLimits) settings(entry queue.MetaEntry) queue.ValueSettings {
	if p.grace != nil {
		if settings, kept := p.grace.values[entry]; kept {
			return settings
		}
	}
	return p.m.backlog.ValueSettings(entry.Key, entry.Value)
}

// endGrace ends a grace that is over, a slice of the values at a time, and says whether there are more. The mutex is held.
func (s *Shard) endGrace(now queue.Time, most int) (more bool) {
	g := s.m.valueLimits.grace
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
	s.m.valueLimits.grace = nil
	s.noteSpecial()
	s.Consumers.tellWaiting(func(w *waiter) bool { return w.q.restrained })
	return false
}

// noteSpecial keeps the note whether a reserve has to look at orders or at the restart grace. The mutex is held.
func (s *Shard) noteSpecial() { s.special.Store(s.roster.ordered > 0 || s.m.valueLimits.grace != nil) }

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
	if s.m.valueLimits.grace != nil {
		q.Plan, q.restrained = s.m.valueLimits.grace.plan(asked), true
	}
	return Reserved{}, false
}
