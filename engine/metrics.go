package engine

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
)

// metrics shows the engine to Prometheus. Gauges and counters are read from the shards when scraped, so they cannot drift; only
// histograms are kept here. Every number that is read is a maintained one: a scrape costs the same at any backlog. Labels are
// queue names, fixed words, names of strategies and the values of the keys that were asked for, so their number is bounded.
type metrics struct {
	engine     *Engine
	registerer prometheus.Registerer
	seconds    *prometheus.HistogramVec
	ops        *prometheus.HistogramVec
	bytes      *prometheus.HistogramVec
	described  []described
	descs      []*prometheus.Desc // those of the following

	lifecycle                                     lifecycleMetrics
	reserve, waited, held                         *prometheus.Desc
	reserved, empty, examined, skipped, ended     *prometheus.Desc
	ledgers, tenants, lag, mostLag                *prometheus.Desc
	keyInFlight, keyBacklog, keyValues, keyOldest *prometheus.Desc
	quarantined, overrun                          *prometheus.Desc
	planBytes, planLimit, memoryUsed, memoryLimit *prometheus.Desc // of the server
}

// described is a metric with one value, or one for each of some fixed words, that is in the numbers of a queue.
type described struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string
	value  func(s *queue.Stats, now queue.Time) float64
}

// counts are the measurements of one queue.
type counts struct {
	reserve, waited, held *measure.Histogram
	strategies            strategyCounts
}

// The classic buckets, beside the native ones.
func secondsBuckets() []float64 {
	return []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
}

func longBuckets() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}
}

func newMetrics(e *Engine, registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{engine: e, registerer: registerer}
	m.seconds = histogram("quern_writer_commit_seconds",
		"Duration of a journal commit in seconds, including the disk sync.", secondsBuckets())
	m.ops = histogram("quern_writer_batch_size",
		"Number of operations in a journal commit.", prometheus.ExponentialBuckets(1, 2, 14))
	m.bytes = histogram("quern_writer_batch_bytes",
		"Size of a journal commit in bytes.", prometheus.ExponentialBuckets(64, 4, 10))
	m.describe()
	m.lifecycle = newLifecycleMetrics()
	if registerer == nil {
		return m, nil
	}
	return m, registerer.Register(m)
}

func histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"queue"})
}

// newCounts makes the counts of a queue that is being opened.
func newCounts() *counts {
	return &counts{reserve: measure.New(secondsBuckets()), waited: measure.New(longBuckets()), held: measure.New(longBuckets())}
}

// forget drops the counts of a deleted queue.
func (m *metrics) forget(queueName string) {
	for _, v := range m.vectors() {
		v.DeleteLabelValues(queueName)
	}
}

func (m *metrics) vectors() []*prometheus.HistogramVec {
	return []*prometheus.HistogramVec{m.seconds, m.ops, m.bytes}
}

// committed is the observer of one queue's commits.
func (m *metrics) committed(queueName string) func(took time.Duration, ops, bytes int) {
	seconds, count, size := m.seconds.WithLabelValues(queueName), m.ops.WithLabelValues(queueName), m.bytes.WithLabelValues(queueName)
	return func(took time.Duration, ops, bytes int) {
		seconds.Observe(took.Seconds())
		count.Observe(float64(ops))
		size.Observe(float64(bytes))
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.described {
		ch <- d.desc
	}
	for _, desc := range m.descs {
		ch <- desc
	}
	m.lifecycle.describe(ch)
	for _, v := range m.vectors() {
		v.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	now := queue.At(m.engine.options.Now())
	for _, q := range m.engine.all() {
		m.collect(ch, q, now)
	}
	for _, q := range m.engine.Queues() {
		aside := 0.0
		if q.Quarantined != nil {
			aside = 1
		}
		ch <- prometheus.MustNewConstMetric(m.quarantined, prometheus.GaugeValue, aside, q.Name)
	}
	ch <- prometheus.MustNewConstMetric(m.planBytes, prometheus.GaugeValue, float64(m.engine.plans.kept()))
	ch <- prometheus.MustNewConstMetric(m.planLimit, prometheus.GaugeValue, maxPlanBytes)
	used, most := m.engine.shared.live.Memory()
	ch <- prometheus.MustNewConstMetric(m.memoryUsed, prometheus.GaugeValue, float64(used))
	ch <- prometheus.MustNewConstMetric(m.memoryLimit, prometheus.GaugeValue, float64(most))
	for _, v := range m.vectors() {
		v.Collect(ch)
	}
}

func (m *metrics) collect(ch chan<- prometheus.Metric, q *Queue, now queue.Time) {
	one := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, kind, value, append([]string{q.name}, labels...)...)
	}
	stats := q.Stats()
	for _, d := range m.described {
		one(d.desc, d.kind, d.value(&stats, now), d.labels...)
	}
	for state := queue.Completed; int(state) < queue.SubmissionStates; state++ {
		one(m.ended, prometheus.CounterValue, float64(stats.EndedAs[state]), state.String())
	}
	for reason := queue.Nothing; int(reason) < queue.EmptyReasons; reason++ {
		one(m.empty, prometheus.CounterValue, float64(q.empty[reason].Load()), reason.String())
	}
	q.counts.strategies.each(func(name string, n uint64) { one(m.reserved, prometheus.CounterValue, float64(n), name) })
	for _, w := range q.shard.Inspect.Blocks() {
		one(m.examined, prometheus.CounterValue, float64(w.Examined), w.Node)
		one(m.skipped, prometheus.CounterValue, float64(w.Limited), w.Node, "limited")
		one(m.skipped, prometheus.CounterValue, float64(w.Redrawn), w.Node, "redrawn")
		one(m.skipped, prometheus.CounterValue, float64(w.Unwanted), w.Node, "unwanted")
	}
	if _, number := queue.CutShard(q.name); number == 0 { // the first shard tells it for the queue
		one(m.overrun, prometheus.GaugeValue, overruns(q))
	}
	ch <- newHistogram(m.reserve, q.counts.reserve, q.name)
	ch <- newHistogram(m.waited, q.counts.waited, q.name)
	ch <- newHistogram(m.held, q.counts.held, q.name)
	m.lifecycle.collect(one, q)
	m.collectFair(one, q)
	m.collectKeys(one, q, now)
}

// collectFair shows how the fair ledgers stood when they were added up last, within a second.
func (m *metrics) collectFair(one func(*prometheus.Desc, prometheus.ValueType, float64, ...string), q *Queue) {
	sums := q.fair.Load()
	if sums == nil {
		return
	}
	one(m.ledgers, prometheus.GaugeValue, float64(sums.Ledgers))
	one(m.tenants, prometheus.GaugeValue, float64(sums.Active), "active")
	one(m.tenants, prometheus.GaugeValue, float64(sums.Owing), "owing")
	one(m.tenants, prometheus.GaugeValue, float64(sums.Blocked), "blocked")
	if sums.Whole {
		one(m.lag, prometheus.GaugeValue, sums.Lag)
		one(m.mostLag, prometheus.GaugeValue, sums.Most)
	}
}

func (m *metrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
	}
}
