package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
)

// Cause is one reason for which chunks are not handed out.
type Cause = inspect.Cause

// Diagnosis is why the chunks of a value or of a submission move or do not, by the strategies in use.
type Diagnosis struct {
	inspect.Diagnosis
	Entry      queue.MetaEntry  // the value that it is about; no key: it is about Submission
	Submission queue.Submission // only its id, state and dead chunks count
	Used       []StrategyUse    // in use, the one used last first: what Cause.Plan counts
	Since      queue.Time       // what was used before is not known
}

// DiagnoseValue tells why the chunks of a value of a meta key move or do not. One that no open submission has is no error.
func (ask Questions) DiagnoseValue(ctx context.Context, queueName string, entry queue.MetaEntry) (Diagnosis, error) {
	if err := validEntry(entry); err != nil {
		return Diagnosis{}, err
	}
	q, err := ask.e.queue(queueName)
	if err != nil {
		return Diagnosis{}, err
	}
	d, plans := ask.used(q)
	d.Entry = entry
	d.Diagnosis, err = q.shard.Inspect.Diagnose(ctx, entry, plans)
	return d, err
}

// DiagnoseSubmission tells it of a submission, which may have ended.
func (ask Questions) DiagnoseSubmission(ctx context.Context, id queue.SubmissionID) (Diagnosis, error) {
	q, err := ask.e.route(id)
	if err != nil {
		return Diagnosis{}, err
	}
	d, plans := ask.used(q)
	if d.Submission, err = ask.e.Submission(ctx, id); err != nil {
		return Diagnosis{}, err
	}
	found, there, err := q.shard.Inspect.DiagnoseSubmission(id, plans)
	d.Diagnosis = found
	if err == nil && !there && d.Submission.State == queue.Open { // it ended meanwhile
		d.Submission, err = ask.e.Submission(ctx, id)
	}
	return d, err
}

// used are the strategies in use, the one used last first, with their plans.
func (ask Questions) used(q *openQueue) (d Diagnosis, plans []*strategy.Plan) {
	d.Used, d.Since = q.inUse.list(queue.At(ask.e.options.Now()))
	slices.SortStableFunc(d.Used, func(a, b StrategyUse) int { return cmp.Compare(b.LastUsed, a.LastUsed) })
	for i := range d.Used {
		plans = append(plans, d.Used[i].plan)
	}
	return d, plans
}
