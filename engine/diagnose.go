package engine

import (
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// Cause is one reason for which chunks are not handed out.
type Cause = inspect.Cause

// Diagnosis is why the chunks of a value or of a submission move or do not, by the strategies in use.
type Diagnosis struct {
	inspect.Diagnosis
	Entry      queue.MetaEntry   // the value that it is about; no key: it is about Submission
	Submission queue.Submission  // only its id, state, failure, dead and skipped chunks count
	Used       []api.StrategyUse // in use, the one used last first: what Cause.Plan counts
	Since      queue.Time        // what was used before is not known

	Forecast  *api.Forecast   // nil: nothing moves
	Forecasts []*api.Forecast // of the causes
	Paces     []float64       // at which they end, in chunks per second; 0: nothing moves, or a tenant may not know it

	own queue.MetaEntry // the value of the tenant who asks; no key: no tenant does
}

// DiagnoseValue tells why the chunks of a value of a meta key move or do not. One that no open submission has is no error.
func (p Questions) DiagnoseValue(ctx context.Context, entry queue.MetaEntry) (Diagnosis, error) {
	if err := validTarget(queue.ValueTarget{MetaEntry: entry}); err != nil {
		return Diagnosis{}, err
	}
	d, plans := p.used()
	d.Entry = entry
	var err error
	d.Diagnosis, err = p.q.shard.Inspect.Diagnose(ctx, entry, p.asked(plans))
	p.q.foresee(&d)
	return d, err
}

// DiagnoseSubmission tells it of a submission, which may have ended.
func (p Questions) DiagnoseSubmission(ctx context.Context, id queue.SubmissionID) (Diagnosis, error) {
	d, plans := p.used()
	var err error
	if d.Submission, err = p.q.Submissions.Get(ctx, id); err != nil {
		return Diagnosis{}, err
	}
	found, there, err := p.q.shard.Inspect.DiagnoseSubmission(id, p.asked(plans))
	d.Diagnosis = found
	p.q.foresee(&d)
	if err == nil && !there && d.Submission.State == queue.Open { // it ended meanwhile
		d.Submission, err = p.q.Submissions.Get(ctx, id)
	}
	return d, err
}

// Narrow takes out what is not of the tenant: the numbers of values that it shares with others, rules about more than its own,
// strategies, and ends that follow from any of these.
func (p Questions) Narrow(d *Diagnosis, own queue.MetaEntry) {
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
	p.q.foresee(d)
}

// asked is what a diagnosis judges by. What was at its limit lately is what the frames saw, so that the sentence and the time that a
// value has been at its limit say the same.
func (p Questions) asked(plans []*strategy.Plan) inspect.Asked {
	return inspect.Asked{Plans: plans, Full: func(entry queue.MetaEntry) bool { return p.q.frames.full.since(entry) != 0 }}
}

// used are the strategies in use, the one used last first, with their plans.
func (p Questions) used() (d Diagnosis, plans []*strategy.Plan) {
	list, since := p.q.inUse.list(queue.At(p.q.e.options.Now()))
	slices.SortStableFunc(list, func(a, b strategyUse) int { return b.LastUsed.Compare(a.LastUsed.Time) })
	d.Since = since
	for i := range list {
		d.Used, plans = append(d.Used, list[i].StrategyUse), append(plans, list[i].plan)
	}
	return d, plans
}
