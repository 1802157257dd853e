package backups

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics tell how old the newest backup is, and whether the making of one fails.
type metrics struct {
	last, every, bytes, seconds prometheus.Gauge
	failed                      prometheus.Counter
}

func newMetrics(r prometheus.Registerer) metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "quern_backup_" + name, Help: help})
	}
	m := metrics{
		last:    gauge("last_timestamp_seconds", "When the newest backup of backup-dir was begun; 0: there is none."),
		every:   gauge("every_seconds", "How often a backup is to be made."),
		bytes:   gauge("bytes", "Size of the backup that was made last; 0: none since the start."),
		seconds: gauge("seconds", "How long it took."),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "quern_backup_failures_total",
			Help: "Backups into backup-dir that failed."}),
	}
	if r != nil {
		r.MustRegister(m.last, m.every, m.bytes, m.seconds, m.failed)
	}
	return m
}

func (m *metrics) show(last time.Time, every time.Duration) {
	m.every.Set(every.Seconds())
	if !last.IsZero() {
		m.last.Set(float64(last.Unix()))
	}
}

func (m *metrics) made(size int64, took time.Duration) {
	m.bytes.Set(float64(size))
	m.seconds.Set(took.Seconds())
}
