package engine

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
)

// metrics shows the engine to Prometheus. Gauges and counters are read from the shards when scraped, so they cannot
// drift; only histograms are kept here. Labels are queue names and fixed words, so their number is bounded.
type metrics struct {
	engine     *Engine
	registerer prometheus.Registerer
	seconds    *prometheus.HistogramVec
	ops        *prometheus.HistogramVec
	bytes      *prometheus.HistogramVec
	described  []described
	empty      *prometheus.Desc
}

type described struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string
	value  func(s *queue.Stats, now queue.Time) float64
}

func newMetrics(e *Engine, registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{engine: e, registerer: registerer}
	m.seconds = commitHistogram("quern_writer_commit_seconds", "Time of one journal commit, in seconds.")
	m.ops = commitHistogram("quern_writer_batch_size", "Operations in one journal commit.")
	m.bytes = commitHistogram("quern_writer_batch_bytes", "Bytes of one journal commit.")
	m.describe()
	if registerer == nil {
		return m, nil
	}
	return m, registerer.Register(m)
}

func commitHistogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
	}, []string{"queue"})
}

func (m *metrics) describe() {
	gauge := func(name, help string, value func(*queue.Stats, queue.Time) float64) {
		m.described = append(m.described, described{prometheus.NewDesc(name, help, []string{"queue"}, nil), prometheus.GaugeValue, nil, value})
	}
	counter := func(name, help string, value func(*queue.Stats, queue.Time) float64) {
		m.described = append(m.described, described{prometheus.NewDesc(name, help, []string{"queue"}, nil), prometheus.CounterValue, nil, value})
	}
	labelled := func(name, help, label string, kind prometheus.ValueType, values map[string]func(*queue.Stats) uint64) {
		desc := prometheus.NewDesc(name, help, []string{"queue", label}, nil)
		for word, value := range values {
			m.described = append(m.described, described{desc, kind, []string{word}, func(s *queue.Stats, _ queue.Time) float64 { return float64(value(s)) }})
		}
	}
	type count = map[string]func(*queue.Stats) uint64
	labelled("quern_chunks", "Chunks that are not finished, by state.", "state", prometheus.GaugeValue, count{
		"ready":    func(s *queue.Stats) uint64 { return s.Ready },
		"waiting":  func(s *queue.Stats) uint64 { return s.Waiting },
		"reserved": func(s *queue.Stats) uint64 { return s.Reserved },
		"dead":     func(s *queue.Stats) uint64 { return s.Dead },
	})
	labelled("quern_submissions", "Submissions, by state.", "state", prometheus.GaugeValue, count{
		"open": func(s *queue.Stats) uint64 { return s.SubmissionsOpen },
	})
	labelled("quern_chunks_finished_total", "Tries that ended, by outcome.", "outcome", prometheus.CounterValue, count{
		"completed": func(s *queue.Stats) uint64 { return s.DoneTotal },
		"failed":    func(s *queue.Stats) uint64 { return s.FailedTotal },
		"expired":   func(s *queue.Stats) uint64 { return s.ExpiredTotal },
		"released":  func(s *queue.Stats) uint64 { return s.ReleasedTotal },
	})
	gauge("quern_reservations", "Chunks held by consumers.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.Reserved) })
	gauge("quern_reserve_waiters", "Reserve calls that wait for work.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.ConsumersWaiting) })
	gauge("quern_oldest_available_seconds", "Age of the oldest submission with a ready chunk, in seconds.", func(s *queue.Stats, now queue.Time) float64 {
		if s.OldestReady == 0 {
			return 0
		}
		return max(now.Sub(s.OldestReady).Seconds(), 0)
	})
	gauge("quern_dead_letters", "Dead letters: chunks out of attempts that can be redriven, forwarded or deleted.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.DeadLetters) })
	gauge("quern_dead_letters_outgoing", "Dead letters on their way to another queue.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.Outgoing) })
	counter("quern_dead_letters_forwarded_total", "Dead letters that went on to another queue.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.ForwardedTotal) })
	counter("quern_dead_letters_arrived_total", "Submissions that came as dead letters of another queue.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.ArrivedTotal) })
	labelled("quern_bulk_operations", "Bulk operations, by state.", "state", prometheus.GaugeValue, count{
		"running": func(s *queue.Stats) uint64 { return s.BulksRunning },
	})
	labelled("quern_bulk_outcomes_total", "What bulk operations came to, by outcome.", "outcome", prometheus.CounterValue, count{
		"done":      func(s *queue.Stats) uint64 { return s.BulkTotal.Done },
		"unchanged": func(s *queue.Stats) uint64 { return s.BulkTotal.Unchanged },
		"refused":   func(s *queue.Stats) uint64 { return s.BulkTotal.Refused },
	})
	gauge("quern_journal_bytes", "Size of the journal file, in bytes.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.JournalBytes) })
	gauge("quern_shard_bytes", "Size of the store file, in bytes.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.StoreBytes) })
	gauge("quern_disk_full", "1 while inserts are refused for want of room.", func(s *queue.Stats, _ queue.Time) float64 {
		if s.DiskFull {
			return 1
		}
		return 0
	})
	counter("quern_chunks_inserted_total", "Chunks inserted.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.InsertedTotal) })
	counter("quern_submissions_inserted_total", "Submissions inserted.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.SubmissionsInsertedTotal) })
	counter("quern_submissions_ended_total", "Submissions ended, however.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.SubmissionsEndedTotal) })
	counter("quern_chunks_reserved_total", "Chunks handed out.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.ReservedTotal) })
	counter("quern_writer_commits_total", "Journal commits.", func(s *queue.Stats, _ queue.Time) float64 { return float64(s.CommitsTotal) })
	m.empty = prometheus.NewDesc("quern_reserve_empty_total", "Reserves that came back with nothing, by reason.", []string{"queue", "reason"}, nil)
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
	ch <- m.empty
	m.seconds.Describe(ch)
	m.ops.Describe(ch)
	m.bytes.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	now := queue.At(m.engine.options.Now())
	for _, q := range m.engine.all() {
		stats := q.shard.Stats()
		for _, d := range m.described {
			ch <- prometheus.MustNewConstMetric(d.desc, d.kind, d.value(&stats, now), append([]string{q.name}, d.labels...)...)
		}
		for reason := queue.Nothing; int(reason) < queue.EmptyReasons; reason++ {
			ch <- prometheus.MustNewConstMetric(m.empty, prometheus.CounterValue, float64(q.empty[reason].Load()), q.name, reason.String())
		}
	}
	m.seconds.Collect(ch)
	m.ops.Collect(ch)
	m.bytes.Collect(ch)
}

func (m *metrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
	}
}
