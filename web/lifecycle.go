package web

import (
	"context"

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
	return &output[api.Lifecycle]{q.Lifecycle()}, nil
}

func (x lifecycle) retry(ctx context.Context, q *engine.Queue, _ *QueuePath) (*output[api.Retried], error) {
	n, err := q.RetryParked(ctx)
	if err != nil {
		return nil, err
	}
	return &output[api.Retried]{Body: api.Retried{Retried: n}}, nil
}
