// Package diagnosis says why chunks wait, and when they will be done: as fields for answers, and as one sentence. It knows no clock and
// takes no lock: the engine gives it what it counted.
//
//	Outlook    the paces of a queue, from look to look; it makes the forecasts
//	Diagnosis  of a value or a submission, whose causes a shard found
//	Queue      of a whole queue, from the counters of a frame
//
//quern:tests pure
package diagnosis

import (
	"math"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/sdk/api"
)

// Cause is one reason why chunks are not handed out.
type Cause = inspect.Cause

// Diagnosis is why the chunks of a value or of a submission move or do not, by the strategies in use.
type Diagnosis struct {
	inspect.Diagnosis
	Entry      queue.MetaEntry   // the value that it is about; no key: it is about Submission
	Submission queue.Submission  // only its id, state, failure, dead and skipped chunks count
	Used       []api.StrategyUse // in use, the one used last first. Cause.Plan is an index into it
	Since      queue.Time        // what was used before is not known

	Forecast  *api.Forecast   // nil: nothing moves
	Forecasts []*api.Forecast // of the causes
	Paces     []float64       // at which they end, in chunks per second; 0: nothing moves, or a tenant may not know it

	own queue.MetaEntry // the value of the tenant that asks; no key: no tenant does
}

// Narrow removes everything that is not the tenant's own: numbers of values that it shares with others, rules about more than its value,
// strategies, and ends that follow from any of these. A new forecast (Outlook.Foresee) keeps to that.
func (d *Diagnosis) Narrow(own queue.MetaEntry) {
	d.Used, d.own = nil, own
	for i := range d.Causes {
		c := &d.Causes[i]
		if c.Limit.Key != "" && (queue.MetaEntry{Key: c.Limit.Key, Value: c.Value}) != own {
			c.Limit.Key, c.InFlight, c.Limit.Max = "", 0, 0
		}
		if c.Rule.ID != 0 && c.Rule.Match.Submission == 0 && c.Rule.Match.Entry != own {
			c.Rule, c.Until = queue.Rule{}, 0
		}
	}
}

// API is the diagnosis as it stands in answers.
func (d *Diagnosis) API() api.Diagnosis {
	out := api.Diagnosis{Sentence: d.sentence(), InFlight: d.InFlight, Holders: d.Holders, Submissions: d.Present,
		Examined: min(d.Met, d.Present), Causes: make([]api.Cause, len(d.Causes)), FirstReservedAt: d.FirstReserved.API(),
		Forecast: d.Forecast}
	for i := range d.Causes {
		out.Causes[i] = d.cause(&d.Causes[i])
		if i < len(d.Forecasts) {
			out.Causes[i].Forecast, out.Causes[i].PerSecond = d.Forecasts[i], math.Round(d.Paces[i]*1000)/1000
		}
	}
	if len(d.Causes) == 0 {
		out.Causes = []api.Cause{{Kind: api.CauseEmpty, Detail: d.emptyClause()}}
	}
	if d.HoldsMet > 0 {
		out.Oldest = &api.Holding{Consumer: d.Oldest.Consumer,
			Submission: d.Oldest.Chunk.Submission.String(), Index: d.Oldest.Chunk.Index,
			Attempt: uint32(d.Oldest.Attempt), ReservedAt: d.Oldest.Reserved.API(), Deadline: d.Oldest.Deadline.API()}
	}
	return out
}

func (d *Diagnosis) cause(c *Cause) api.Cause {
	alone := *d
	alone.Entry = queue.MetaEntry{} // alone it says everything, also the part of the holders
	out := api.Cause{Kind: causeKinds[c.Obstacle], Detail: alone.causeClause(c), Chunks: c.Held.Chunks, Submissions: c.Held.Submissions,
		Until: c.Until.API()}
	if c.Limit.Key != "" {
		out.Key, out.Value, out.Max = c.Limit.Key, &c.Value, &c.Limit.Max
		if of, lack := queue.LackedBy(c.Limit.Key); lack {
			out.Key, out.Value = of, nil
		}
		if c.Obstacle != queue.ObstacleGrace && c.Obstacle != queue.ObstacleRate {
			out.InFlight = &c.InFlight
		}
	}
	if c.Rule.ID != 0 {
		rule := c.Rule.API()
		out.Rule = &rule
	}
	if use := d.usedBy(c); use != nil {
		out.Strategy, out.LastUsed = use.Strategy, use.LastUsed
	}
	return out
}

// usedBy is the strategy that a cause is about.
func (d *Diagnosis) usedBy(c *Cause) *api.StrategyUse {
	byPlan := c.Obstacle == queue.NoObstacle || c.Obstacle == queue.ObstacleLimit || c.Obstacle == queue.ObstacleRate
	if !byPlan || c.Plan >= len(d.Used) {
		return nil
	}
	return &d.Used[c.Plan]
}

var causeKinds = map[queue.Obstacle]string{
	queue.NoObstacle: api.CauseNone, queue.ObstacleDead: api.CauseDead,
	queue.ObstacleWaiting: api.CauseNotDue, queue.ObstacleNotDue: api.CauseNotDue,
	queue.ObstaclePaused: api.CauseRule, queue.ObstacleBlocked: api.CauseRule, queue.ObstacleFilter: api.CauseUnasked,
	queue.ObstacleGrace: api.CauseLimit, queue.ObstacleLimit: api.CauseLimit, queue.ObstacleValueLimit: api.CauseLimit,
	queue.ObstacleRate: api.CauseRate, queue.ObstacleAfter: api.CauseAfter,
}
