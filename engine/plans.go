package engine

import (
	"context"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// plans remembers what strategies compiled to, by the raw JSON they came as and by their canonical text, so that every spelling of a
// strategy shares one plan. For a strategy that is asked for by its name it remembers only the name, because the definition may change.
type plans struct {
	mu     sync.RWMutex
	byRaw  map[string]asked
	byText map[string]*strategy.Plan
	bytes  int // of both, by estimate
}

// asked is what a raw strategy says: a plan, or the name of a strategy of the queue.
type asked struct {
	plan *strategy.Plan
	name string // when plan is nil
}

// The bounds of the cache. When one of them is exceeded, the cache is emptied. A client that invents strategies without end only makes it
// slow.
const (
	maxPlans     = 4096
	maxPlanBytes = 32 << 20
)

// maxCachedStrategy bounds the raw text that is kept as a key.
const maxCachedStrategy = 4096

// Plan compiles a strategy given as a JSON value: a string (the text form), an object, or {"name":...} for one that the queue keeps under
// that name, as it is now. Nothing means Random. A name that the queue does not have is CodeInvalid at /strategy/name. The server itself
// calls Plan; for a caller it calls PlanFor.
func (q *Queue) Plan(raw []byte) (*strategy.Plan, error) { return q.PlanFor(context.Background(), raw) }

// PlanFor is Plan for the caller in ctx.
func (q *Queue) PlanFor(ctx context.Context, raw []byte) (*strategy.Plan, error) {
	asked, err := q.Asked(ctx, raw)
	return asked.Plan, err
}

// Asked is what a reservation asks for by a strategy.
type Asked struct {
	Plan *strategy.Plan
	Name string // that it was asked for by; "" if it was spelled out
	// why blocks with a plugin are not scored now, so that a reserve goes on with the next branch; none: all are scored
	Unusable []error
}

// Asked is PlanFor, with warnings for the consumer. A shard also knows the names of its whole queue.
func (q *Queue) Asked(ctx context.Context, raw []byte) (Asked, error) {
	return asks(ctx, q.e, raw, func(name string) (Asked, error) {
		asked, err := q.Strategies.asked(name)
		if of, number := queue.CutShard(q.name); err != nil && number > 0 {
			if s := q.e.Sharding.whole(of); s != nil {
				return s.Asked(ctx, raw)
			}
		}
		return asked, err
	})
}

// asks returns the plan that a raw strategy asks for. named finds a strategy that it only names.
func asks(ctx context.Context, e *Engine, raw []byte, named func(name string) (Asked, error)) (Asked, error) {
	p := &e.plans
	p.mu.RLock()
	known, ok := p.byRaw[string(raw)]
	p.mu.RUnlock()
	if !ok {
		var err error
		if known, err = p.read(raw); err != nil {
			return Asked{}, err
		}
	}
	if known.plan != nil {
		resting, err := e.checkScored(ctx, known.plan)
		return Asked{Plan: known.plan, Unusable: resting}, err
	}
	return named(known.name)
}

// asked returns the plan for a reservation that names a strategy of the queue.
func (p Strategies) asked(name string) (Asked, error) {
	n, err := p.byName(name)
	if err != nil {
		return Asked{}, err
	}
	plan, _ := n.compiled()
	unusable := p.q.e.Unusable(context.Background(), plan) // an operator stored it: the caller pays for nothing that it starts
	if len(unusable) > 0 {
		p.warnOfPlugin(n, unusable[0])
	}
	return Asked{plan, name, unusable}, nil
}

// Unusable says why blocks of a plan are not scored now: a plugin or version is missing or not active, or it does not score for the moment,
// a *strategy.Unavailable each. None: all are scored.
func (e *Engine) Unusable(ctx context.Context, plan *strategy.Plan) []error {
	resting, err := e.checkScored(ctx, plan)
	if err != nil {
		return []error{err}
	}
	return resting
}

// checkScored refuses a plan that names plugins that do not exist. A plugin that does not score now is no mistake: its branch yields
// nothing until it does.
func (e *Engine) checkScored(ctx context.Context, plan *strategy.Plan) (resting []error, err error) {
	for i := range plan.Branches {
		scored := plan.Branches[i].Scored
		if scored == nil {
			continue
		}
		if e.options.Scorers == nil {
			return nil, queue.Invalid("/strategy", "has a %s block, and this server runs without plugins", scored.String())
		}
		why, err := e.options.Scorers.Check(ctx, scored)
		if err != nil {
			return nil, err
		}
		if why != nil {
			resting = append(resting, why)
		}
	}
	return resting, nil
}

// warnEvery is how often it is logged that a stored strategy names a plugin that cannot be used.
const warnEvery = time.Minute

// warnOfPlugin logs why a block of a stored strategy yields nothing. Its reservations go on with the next branch: a consumer that reserves
// by a name cannot replace a plugin that an operator took away.
func (p Strategies) warnOfPlugin(n *namedStrategy, why error) {
	now := p.q.e.options.Now().UnixNano()
	last := n.warned.Load()
	if last != 0 && now >= last && now-last < int64(warnEvery) || !n.warned.CompareAndSwap(last, now) {
		return
	}
	p.q.e.options.Logger.Warn("a stored strategy names a plugin that cannot be used now; its reservations go on with the "+
		"next branch", "queue", p.q.name, "strategy", n.Name, "reason", why)
}

// read finds out what a raw strategy says and remembers it.
func (p *plans) read(raw []byte) (asked, error) {
	if len(raw) == 0 {
		s, err := strategy.Parse("Random")
		if err != nil {
			return asked{}, err
		}
		return p.keep("", s), nil
	}
	if name, ok, err := strategy.ParseName(raw); ok || err != nil {
		if err == nil {
			err = knowable(name)
		}
		if err != nil {
			return asked{}, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.remember(string(raw), asked{name: name}), nil
	}
	s, err := strategy.ParseJSON(raw)
	if err != nil {
		return asked{}, err
	}
	return p.keep(string(raw), s), nil
}

// keep remembers a strategy under its raw form.
func (p *plans) keep(raw string, s *strategy.Strategy) asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remember(raw, asked{plan: p.share(s)})
}

// plan is the one plan of all spellings of a strategy.
func (p *plans) plan(s *strategy.Strategy) *strategy.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.share(s)
}

// share finds the plan of a strategy by its text, or makes it. The caller of share and of remember holds p.mu.
func (p *plans) share(s *strategy.Strategy) *strategy.Plan {
	text := s.String()
	if plan := p.byText[text]; plan != nil {
		return plan
	}
	plan := s.Plan()
	p.bound(plan.Bytes())
	p.byText[text] = plan
	return plan
}

func (p *plans) remember(raw string, a asked) asked {
	if _, known := p.byRaw[raw]; !known && len(raw) <= maxCachedStrategy {
		p.bound(len(raw))
		p.byRaw[raw] = a
	}
	return a
}

// bound counts bytes that are about to be kept.
func (p *plans) bound(bytes int) {
	if p.byRaw == nil || max(len(p.byRaw), len(p.byText)) >= maxPlans || p.bytes+bytes > maxPlanBytes {
		p.byRaw, p.byText, p.bytes = map[string]asked{}, map[string]*strategy.Plan{}, 0
	}
	p.bytes += bytes
}

// kept is how many bytes are kept.
func (p *plans) kept() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.bytes
}

// Views are the standing views of a queue, the largest first, with the memory that the views of all queues take and may take.
func (q *Queue) Views() api.Views {
	use := q.e.shared.views.Use()
	use.Items = q.shard.Views.List()
	return use
}
