package web

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics is what the HTTP face measures. Routes are operation ids and codes are statuses, so both labels are bounded.
type metrics struct {
	seconds *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                            "quern_http_request_seconds",
		Help:                            "Time from the headers of a request to the end of its answer, waiting included.",
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"route", "code"})}
	if err := registerer.Register(m.seconds); err != nil {
		return nil, fmt.Errorf("web: metrics: %w", err)
	}
	return m, nil
}

// observe counts one request. The observer of an operation's usual answer is looked up once.
func (m *metrics) observe(op *operation, status int, elapsed time.Duration) {
	if op == nil {
		m.seconds.WithLabelValues(routeUnmatched, strconv.Itoa(status)).Observe(elapsed.Seconds())
		return
	}
	if status == http.StatusOK {
		op.ok.Observe(elapsed.Seconds())
		return
	}
	m.seconds.WithLabelValues(op.id, strconv.Itoa(status)).Observe(elapsed.Seconds())
}

// metricsHandler serves /metrics in the format the scraper asks for.
func (s *Server) metricsHandler() echo.HandlerFunc {
	handler := promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError})
	return func(c echo.Context) error {
		handler.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}
