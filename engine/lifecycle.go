package engine

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Lifecycle returns the state of the life-cycle worker of a queue. It reads counters, so it costs little.
func (q *Queue) Lifecycle() api.Lifecycle {
	w := q.shard.Work()
	return w.API()
}

// RetryParked has a queue's parked life-cycle actions tried again, and says how many there were.
func (q *Queue) RetryParked(ctx context.Context) (int, error) {
	if err := q.shard.Acts.Record(q.act(ctx, "", "lifecycle.retry", ""), nil); err != nil {
		return 0, err
	}
	n := q.shard.Worker.Retry()
	q.shard.Worker.Nudge()
	q.e.posted() // letters that were parked
	return n, nil
}

// lifecycleMetrics show the life-cycle workers to Prometheus.
type lifecycleMetrics struct {
	lag, degraded, slices, suspects, slots    *prometheus.Desc // by queue, suspects also by state
	pending, actions, parked, failed, success *prometheus.Desc // by queue and kind, actions also by outcome
	recount                                   recountMetrics
}

func newLifecycleMetrics() lifecycleMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quern_lifecycle_"+name, help, append([]string{"queue"}, labels...), nil)
	}
	return lifecycleMetrics{
		recount: newRecountMetrics(),
		lag: desc("lag_seconds",
			"Time since the oldest overdue action of the life-cycle worker became due, in seconds."),
		degraded: desc("degraded",
			"1 while the server refuses inserts because commits of the life-cycle worker fail repeatedly."),
		slices: desc("slices_total", "Total number of slices that the life-cycle worker committed."),
		suspects: desc("suspects",
			"Number of suspects, which are chunks that ran into their deadline, by state: shelved (held back) or lent "+
				"(offered or reserved).", "state"),
		slots: desc("consumer_slots",
			"Number of live consumer slots: the held reservations, smoothed. suspect_share of them may serve suspects."),
		pending: desc("pending", "Number of actions that wait for their time, by kind.", "kind"),
		actions: desc("actions_total",
			"Total number of actions by kind and outcome: done, or stale if the action was no longer needed.", "kind", "outcome"),
		parked: desc("parked",
			"Number of actions that the life-cycle worker has parked because they failed repeatedly, by kind.", "kind"),
		failed: desc("failures_total", "Total number of slices whose commit failed, by kind.", "kind"),
		success: desc("last_success_timestamp_seconds",
			"Time of the last committed slice by kind, in seconds since 1970; 0 if there was none.", "kind"),
	}
}

func (m *lifecycleMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.lag, m.degraded, m.slices, m.suspects, m.slots, m.pending, m.actions,
		m.parked, m.failed, m.success} {
		ch <- d
	}
	m.recount.describe(ch)
}

func (m *lifecycleMetrics) collect(send func(*prometheus.Desc, prometheus.ValueType, float64, ...string), q *Queue) {
	w := q.shard.Work()
	degraded := 0.0
	if w.Degraded {
		degraded = 1
	}
	m.recount.collect(send, &w.Recount)
	send(m.lag, prometheus.GaugeValue, w.Lag.Seconds())
	send(m.degraded, prometheus.GaugeValue, degraded)
	send(m.slices, prometheus.CounterValue, float64(w.Slices))
	send(m.suspects, prometheus.GaugeValue, float64(w.Suspects.Shelved), "shelved")
	send(m.suspects, prometheus.GaugeValue, float64(w.Suspects.Lent), "lent")
	send(m.slots, prometheus.GaugeValue, w.Suspects.Slots)
	for i := range w.Kinds {
		k := &w.Kinds[i]
		send(m.pending, prometheus.GaugeValue, float64(k.Pending), k.Kind)
		send(m.actions, prometheus.CounterValue, float64(k.Done), k.Kind, "done")
		send(m.actions, prometheus.CounterValue, float64(k.Stale), k.Kind, "stale")
		send(m.parked, prometheus.GaugeValue, float64(k.Parked), k.Kind)
		send(m.failed, prometheus.CounterValue, float64(k.Failed), k.Kind)
		success := 0.0
		if k.LastSuccessAt != nil {
			success = float64(k.LastSuccessAt.UnixMilli()) / 1000
		}
		send(m.success, prometheus.GaugeValue, success, k.Kind)
	}
}

// CatchUp does at once all work of Run that is due at the time of Options.Now, and returns when it is committed. It may run beside Run.
// Call it after setting the clock forward by hand; a server need not. It fails when a commit fails, or when ctx ends.
func (e *Engine) CatchUp(ctx context.Context) error {
	for _, q := range e.all() {
		if err := q.shard.CatchUp(ctx); err != nil {
			return err
		}
	}
	e.bulks.step(ctx)
	e.forwards.carry(ctx)
	e.house(ctx)
	for e.cleaner.round(ctx) {
	}
	e.sample()
	readLedgers(ctx, e.all(), queue.At(e.options.Now()))
	return ctx.Err()
}
