package web

// The life-cycle worker of a queue over HTTP: its due actions, how late it is, and which actions it parked. The only
// change is retry. The worker finds everything else by itself, so there is no call that makes it run.
//
//	due action ─► slice of up to 500 ─► commit ─┬─ done
//	                                            └─ fails ─► smaller slices ─► alone and fails ─► parked
//	                                                                                              │
//	                                     retry, or the next start ◄───────────────────────────────┘

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	lifecycleAbout = "The worker runs the timed work: deadlines, retries, run_at, dead_deadline, cleanup of " +
		"ended submissions, retention, schedules, the ends of rules. It also recounts the counters, see recount. " +
		"It parks an action that fails again and again, until you retry it or the server restarts."
	retryAbout = "The worker retries all parked actions now, and ends its pauses after failures. An action that " +
		"fails again is parked again."
)

// lifecycle are the handlers of the life-cycle worker. Tenants may call none of them: the worker's numbers count the
// work of all values.
type lifecycle struct{}

// routes are the part of the table about the life-cycle worker.
func (x lifecycle) routes(r *router) {
	const base = "/v1/queues/{queue}/lifecycle"
	registerIn(r, operation{id: "get-lifecycle",
		shards: summed(addLifecycle, nil),
		method: "GET", path: base, scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues,
		summary: "Read the state of a queue's life-cycle worker", about: lifecycleAbout}, x.get)
	registerIn(r, operation{id: "retry-lifecycle",
		shards: changedInAll(addRetried, false),
		act:    act{"lifecycle.retry", ""},
		method: "POST", path: base + "/retry", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagQueues,
		summary: "Retry parked life-cycle actions", about: retryAbout}, x.retry)
}

func (x lifecycle) get(_ context.Context, q *engine.Queue, _ *QueuePath) (*output[api.Lifecycle], error) {
	return &output[api.Lifecycle]{q.Lifecycle()}, nil
}

// retry counts the actions that it takes out of the parked ones. Those that fail again are parked again, so a script
// that retries in a loop does no harm.
func (x lifecycle) retry(ctx context.Context, q *engine.Queue, _ *QueuePath) (*output[api.Retried], error) {
	n, err := q.RetryParked(ctx)
	if err != nil {
		return nil, err
	}
	return &output[api.Retried]{Body: api.Retried{Retried: n}}, nil
}
