package machine

import (
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// grace is the restart grace of a queue: after a start no one knows what consumers hold,
// until they extend it. Meanwhile nothing is handed out that a limit counts, so that
// limits hold in the world outside, too. What no limit counts goes on.
type grace struct {
	Began, Until queue.Time
	// with an operator's limit: the backlog has them at 0 meanwhile
	Values map[queue.MetaEntry]queue.ValueSettings
	plans  map[*strategy.Plan]*strategy.Plan // without what their limits count
}

// maxGracePlans bounds the plans that are kept.
const maxGracePlans = 1000

// valueLimits knows what is demanded of the values of meta keys.
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
	return &grace{Began: began, Until: until, Values: map[queue.MetaEntry]queue.ValueSettings{},
		plans: map[*strategy.Plan]*strategy.Plan{}}
}

// End is until when it runs, 0: it is over.
func (g *grace) End() queue.Time {
	if g == nil {
		return 0
	}
	return g.Until
}

// Plan is what of a plan may be followed.
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

// Set changes what is demanded of a value.
func (p *valueLimits) Set(entry queue.MetaEntry, settings queue.ValueSettings) {
	if p.Grace != nil {
		delete(p.Grace.Values, entry)
		if settings.Limit != queue.NoLimit {
			p.Grace.Values[entry] = settings
			settings.Limit = 0
		}
	}
	p.backlog.Values.Set(entry.Key, entry.Value, settings)
}

// Shorten ends the restart grace at once, or as soon as one of this length would have
// ended. One that is over does not begin again.
func (p *valueLimits) Shorten(grace time.Duration) {
	if p.Grace != nil {
		p.Grace.Until = min(p.Grace.Until, p.Grace.Began.Add(grace))
	}
}

// Settings are what setValue set last.
func (p *valueLimits) Settings(entry queue.MetaEntry) queue.ValueSettings {
	if p.Grace != nil {
		if settings, kept := p.Grace.Values[entry]; kept {
			return settings
		}
	}
	return p.backlog.Values.Settings(entry.Key, entry.Value)
}
