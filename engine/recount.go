package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/shard/recount"
)

// recountMetrics show recounts to Prometheus.
type recountMetrics struct {
	rounds, last, checks, drifts, suspected, skipped, stopped *prometheus.Desc // by queue, some also by scope, counter or reason
}

func newRecountMetrics() recountMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quern_recount_"+name, help, append([]string{"queue"}, labels...), nil)
	}
	return recountMetrics{
		rounds: desc("rounds_total", "Complete recounts of everything that is kept as counters."),
		last:   desc("last_round_timestamp_seconds", "When the last such round was over; 0 if none is yet."),
		checks: desc("checks_total", "Comparisons of kept counters with what is there: of submissions, of values "+
			"of meta keys, of totals of the queue.", "scope"),
		drifts: desc("drifts_total", "Kept counters that were wrong, and were corrected: anything but 0 is a "+
			"mistake of the server.", "scope", "counter"),
		suspected: desc("suspected_total", "Totals that differed in one round; those that do so in the next one too are drifts."),
		skipped:   desc("skipped_total", "Comparisons that could not be made in a round, by reason.", "reason"),
		stopped:   desc("stopped", "1 if a recount broke off with a mistake of the server's, so that none is made until the next start."),
	}
}

func (m *recountMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.rounds, m.last, m.checks, m.drifts, m.suspected, m.skipped, m.stopped} {
		ch <- d
	}
}

func (m *recountMetrics) collect(send func(*prometheus.Desc, prometheus.ValueType, float64, ...string), r *recount.State) {
	stopped := 0.0
	if r.Stopped {
		stopped = 1
	}
	send(m.rounds, prometheus.CounterValue, float64(r.Rounds))
	send(m.last, prometheus.GaugeValue, float64(r.Last)/1000)
	send(m.suspected, prometheus.CounterValue, float64(r.Suspected))
	send(m.stopped, prometheus.GaugeValue, stopped)
	for scope, n := range r.Checked {
		send(m.checks, prometheus.CounterValue, float64(n), recount.Scope(scope).String())
	}
	for reason, n := range r.Skipped {
		send(m.skipped, prometheus.CounterValue, float64(n), recount.Skip(reason).String())
	}
	for counter, n := range r.Drifts {
		c := recount.Counter(counter)
		send(m.drifts, prometheus.CounterValue, float64(n), c.Scope().String(), c.String())
	}
}
