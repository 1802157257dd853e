package web

import (
	"context"
	"strconv"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	lifecycleAbout = "The worker does what time demands: deadlines, retries, run_at, dead_deadline, the rest of " +
		"ended submissions, retention, schedules, the ends of rules. It also recounts what is kept as counters, see " +
		"recount. An action that fails again and again is parked: left alone until it is retried, or the server restarts."
	retryAbout = "All parked actions are looked at again at once, and pauses after failures end. What is still broken is parked again."
)

// lifecycle are the handlers of the life-cycle worker.
type lifecycle struct{}

// routes are the part of the table about the life-cycle worker.
func (x lifecycle) routes(d *document) {
	const base = "/v1/queues/{queue}/lifecycle"
	registerIn(d, operation{id: "get-lifecycle", method: "GET", path: base, scope: scopeRead, narrow: inQueue | noTenants, tag: tagQueues,
		summary: "Tell how a queue's life-cycle worker is doing", about: lifecycleAbout}, x.get)
	registerIn(d, operation{id: "retry-lifecycle", act: act{"lifecycle.retry", ""},
		method: "POST", path: base + "/retry", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagQueues,
		summary: "Try parked life-cycle actions again", about: retryAbout}, x.retry)
}

func (x lifecycle) get(_ context.Context, q *engine.Queue, _ *QueuePath) (*output[api.Lifecycle], error) {
	w := q.Lifecycle()
	out := &output[api.Lifecycle]{Body: api.Lifecycle{
		LagSeconds: w.Lag.Seconds(), Degraded: w.Degraded, GraceUntil: w.Grace.API(), Slices: w.Slices,
		Kinds: []api.LifecycleKind{}, Parked: []api.ParkedAction{},
		Suspects: api.Suspects{Shelved: w.Suspects.Shelved, Lent: w.Suspects.Lent, Quota: w.Suspects.Quota, Slots: w.Suspects.Slots},
	}}
	for i := range w.Kinds {
		k := &w.Kinds[i]
		kind := api.LifecycleKind{
			Kind: k.Kind.String(), Pending: k.Pending, LagSeconds: k.Lag.Seconds(), Done: k.Done, Stale: k.Stale, Parked: k.Parked,
			Failed: k.Failed, Failures: k.Failures, Error: k.Error,
		}
		if k.Success != 0 {
			kind.LastSuccessAt = new(k.Success.API())
		}
		out.Body.Kinds = append(out.Body.Kinds, kind)
	}
	for i := range w.Parked {
		p := &w.Parked[i]
		action := api.ParkedAction{Kind: p.Kind.String(), Schedule: p.Schedule, Error: p.Error, Since: p.Since.API()}
		switch {
		case p.Rule != 0:
			action.Rule = strconv.FormatUint(uint64(p.Rule), 10)
		case p.Submission != 0:
			action.Submission = p.Submission.String()
		}
		if p.Kind.OfChunks() {
			action.Index = &p.Index
		}
		out.Body.Parked = append(out.Body.Parked, action)
	}
	out.Body.Recount = apiRecount(&w.Recount)
	return out, nil
}

func (x lifecycle) retry(ctx context.Context, q *engine.Queue, _ *QueuePath) (*output[api.Retried], error) {
	n, err := q.RetryParked(ctx)
	if err != nil {
		return nil, err
	}
	return &output[api.Retried]{Body: api.Retried{Retried: n}}, nil
}
