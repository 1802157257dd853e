package engine

import (
	"sync"

	"github.com/quern-queue/quern/engine/strategy"
)

// plans remembers what strategies compiled to, by the raw JSON they came as and by their canonical text, so that every
// spelling of a strategy shares one plan.
type plans struct {
	mu     sync.RWMutex
	byRaw  map[string]*strategy.Plan
	byText map[string]*strategy.Plan
}

// maxPlans bounds the cache; a client that makes up strategies without end only loses it its speed.
const maxPlans = 4096

// maxCachedStrategy bounds the raw text that is kept as a key.
const maxCachedStrategy = 4096

// Plan compiles a strategy given as a JSON value: a string (the text form) or an object. Nothing means Random.
func (e *Engine) Plan(raw []byte) (*strategy.Plan, error) {
	p := &e.plans
	p.mu.RLock()
	plan := p.byRaw[string(raw)]
	p.mu.RUnlock()
	if plan != nil {
		return plan, nil
	}
	parse := func() (*strategy.Strategy, error) { return strategy.ParseJSON(raw) }
	if len(raw) == 0 {
		parse = func() (*strategy.Strategy, error) { return strategy.Parse("Random") }
	}
	s, err := parse()
	if err != nil {
		return nil, err
	}
	return p.keep(string(raw), s), nil
}

func (p *plans) keep(raw string, s *strategy.Strategy) *strategy.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byRaw == nil || len(p.byRaw) >= maxPlans {
		p.byRaw, p.byText = map[string]*strategy.Plan{}, map[string]*strategy.Plan{}
	}
	text := s.String()
	plan := p.byText[text]
	if plan == nil {
		plan = s.Plan()
		p.byText[text] = plan
	}
	if len(raw) <= maxCachedStrategy {
		p.byRaw[raw] = plan
	}
	return plan
}
