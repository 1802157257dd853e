package web

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/sdk/api"
)

// metrics has the measurements of the HTTP face. Routes are operation ids and codes are
// statuses, so both labels are bounded.
//
// A label with a queue, a consumer or a path in it would let clients make series without bound.
type metrics struct {
	seconds *prometheus.HistogramVec
	changes *prometheus.CounterVec
	lines   *lines
}

func newMetrics(registerer prometheus.Registerer, version api.Version, subscribers func() float64,
	answers *access.Answers) (*metrics, error) {
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "quern_http_request_seconds",
		Help: "Time from the headers of a request to the end of its answer in seconds, including any wait for " +
			"work. In a cluster, only the node that the client asked counts the request.",
		// They end at the longest wait that a request may ask for. Servers of Prometheus that take native histograms
		// get a finer one, of at most 160 buckets per series.
		Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
			2.5, 10, 60},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"route", "code"})}
	m.changes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quern_audit_events_total",
		Help: "Total number of successful changes by operators, by operation. In a cluster, only the node that " +
			"the client asked counts the request.",
	}, []string{"action"})
	m.lines = newLines()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quern_build_info", Help: "Always 1. The labels give the version, the revision and the version of Go.",
		ConstLabels: prometheus.Labels{"version": version.Version, "revision": version.Revision,
			"goversion": version.Go},
	})
	build.Set(1)
	streams := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quern_sse_subscribers", Help: "Number of open streams of events, of ends and of the audit log.",
	}, subscribers)
	answering := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quern_http_answer_bytes",
		Help: "Memory of large answers that clients have not read to the end, in bytes.",
	}, func() float64 { return float64(answers.Held.Load()) })
	most := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quern_http_answer_limit_bytes", Help: "Maximum memory of large answers, in bytes.",
	})
	most.Set(float64(answers.Most))
	refused := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "quern_http_answers_refused_total",
		Help: "Total number of large answers that the server shortened or refused with 429 because memory for " +
			"them was used up.",
	}, func() float64 { return float64(answers.Refused.Load()) })
	// The registerer is the caller's. Two servers in one process (tests) have one each, so a name that is taken is an
	// error of the program.
	for _, c := range []prometheus.Collector{m.seconds, m.changes, m.lines.leftOut, build, streams, answering, most,
		refused} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("web: metrics: %w", err)
		}
	}
	return m, nil
}

// changes says that operators change something by the operation. The same field has the name of the act in the audit
// log.
func (op *operation) changes() bool {
	return op.act.action != ""
}

// observe counts one request. The observer of an operation's usual answer is looked up once. Looking up a series
// costs more than observing in it, and the calls that come most often end with 200.
func (m *metrics) observe(op *operation, status int, elapsed time.Duration) {
	// All unknown paths are one series: scanners try thousands of them.
	if op == nil {
		m.seconds.WithLabelValues(routeUnmatched, strconv.Itoa(status)).Observe(elapsed.Seconds())
		return
	}
	if status < http.StatusMultipleChoices && op.changes() {
		m.changes.WithLabelValues(op.id).Inc()
	}
	if status != http.StatusOK {
		m.seconds.WithLabelValues(op.id, strconv.Itoa(status)).Observe(elapsed.Seconds())
		return
	}
	ok := op.ok.Load()
	if ok == nil { // made at the first call: an operation that is not used has no series
		observer := m.seconds.WithLabelValues(op.id, "200")
		ok = &observer
		op.ok.Store(ok)
	}
	(*ok).Observe(elapsed.Seconds())
}
