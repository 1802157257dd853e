package machine

import (
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// grace is the restart grace of a queue: after a start no one knows which chunks consumers hold, until they extend
// them. Meanwhile no chunk is handed out that a limit counts, so that limits hold in the world outside, too. All other
// chunks are handed out.
type grace struct {
	Began, Until queue.Time
	// values with an operator's limit: meanwhile it is 0 in the backlog
	Values map[queue.ValueTarget]queue.ValueSettings
	plans  map[*strategy.Plan]*strategy.Plan // each without the work that its limits count
}

// maxGracePlans bounds the plans that are kept.
const maxGracePlans = 1000

// valueLimits has the operators' settings for values of meta keys.
type valueLimits struct {
	backlog *backlog.Backlog
	Grace   *grace // nil when it is over
}

// Restrain begins the grace of a new life.
func (p *valueLimits) Restrain(now queue.Time, length time.Duration) {
	if length > 0 {
		p.Grace = newGrace(now, now.Add(length))
	}
}

// newGrace is a restart grace before the values that it holds back are known.
func newGrace(began, until queue.Time) *grace {
	return &grace{Began: began, Until: until, Values: map[queue.ValueTarget]queue.ValueSettings{},
		plans: map[*strategy.Plan]*strategy.Plan{}}
}

// End is when it ends; 0: it is over.
func (g *grace) End() queue.Time {
	if g == nil {
		return 0
	}
	return g.Until
}

// Plan is the part of a plan that may be followed.
func (g *grace) Plan(of *strategy.Plan) *strategy.Plan {
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

// Until is when the restart grace ends; 0: there is none.
func (p *valueLimits) Until() queue.Time {
	if p.Grace == nil {
		return 0
	}
	return p.Grace.Until
}

// Set changes the settings of a value, or the default of all values of a key.
func (p *valueLimits) Set(of queue.ValueTarget, settings queue.ValueSettings) {
	if p.Grace != nil {
		delete(p.Grace.Values, of)
		if settings.Limit != queue.NoLimit {
			p.Grace.Values[of] = settings
			settings.Limit = 0
		}
	}
	p.demand(of, settings)
}

// Free ends the restart grace for limited chunks.
func (p *valueLimits) Free(of queue.ValueTarget) {
	p.demand(of, p.Grace.Values[of])
	delete(p.Grace.Values, of)
}

func (p *valueLimits) demand(of queue.ValueTarget, settings queue.ValueSettings) {
	if of.All {
		p.backlog.Values.SetDefault(of.Key, settings)
		return
	}
	p.backlog.Values.Set(of.Key, of.Value, settings)
}

// Shorten ends the restart grace at once, or as soon as one of this length would have
// ended. One that is over does not begin again.
func (p *valueLimits) Shorten(grace time.Duration) {
	if p.Grace != nil {
		p.Grace.Until = min(p.Grace.Until, p.Grace.Began.Add(grace))
	}
}

// Settings are those that hold for a value: its own, as Set set them last, or else the default of its key.
func (p *valueLimits) Settings(entry queue.MetaEntry) queue.ValueSettings {
	own, byDefault := p.backlog.Values.Own(entry), p.backlog.Values.Default(entry.Key)
	if p.Grace != nil {
		if kept, is := p.Grace.Values[queue.ValueTarget{MetaEntry: entry}]; is {
			own = kept
		}
		if kept, is := p.Grace.Values[queue.ValueTarget{MetaEntry: queue.MetaEntry{Key: entry.Key}, All: true}]; is {
			byDefault = kept
		}
	}
	return own.Or(byDefault)
}
