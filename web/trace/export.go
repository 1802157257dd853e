package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of waiting spans, and the pace of sending. A slow collector makes spans wait, and one that is gone makes
// them drop. Neither may make a request wait or the memory grow.
const (
	maxQueued      = 8192
	maxQueuedBytes = 16 << 20
	mostSpans      = 512
	maxTries       = 5
	maxAnswer      = 64 << 10

	pace     = time.Second      // between batches that are not full
	patience = 10 * time.Second // of one try
	farewell = 3 * time.Second  // for what is left at the end
	longest  = 30 * time.Second // that a collector may make us wait for the next try
)

// Options has the parts of a Tracer. Version, Instance and Registerer may be left out.
type Options struct {
	Endpoint   string           // of the collector: http or https, /v1/traces is added if it has no path
	Headers    []Header         // of every request to the collector, such as an Authorization; never logged
	Ratio      float64          // share of the traces that begin here to record: 0 to 1
	Now        func() time.Time // the wall clock
	Seed       func() uint64    // chance
	Logger     *slog.Logger
	Version    string // of the server
	Instance   string // which one of several it is
	Registerer prometheus.Registerer
}

// Tracer makes spans and sends them. A nil Tracer makes none. All methods are safe for concurrent use.
//
//	Span.End ─► pending: at most maxQueued spans ─► Run: batches of mostSpans ─► collector
//	              └ full: dropped, counted            └ maxTries, then failed, counted
//
// No request ever waits for a collector. When the collector is slow or gone, only spans are lost,
// and the metric counts them.
type Tracer struct {
	options  Options
	endpoint string
	client   *http.Client
	head     []byte // of every request: it names the sender
	pending  pending
	wake     chan struct{}
	backoff  time.Duration // before the second try; it doubles from try to try
	quiet    bool          // the last batch failed, and the log says so

	sent, dropped, failed prometheus.Counter
}

// New makes a tracer. Run sends its spans. New fails on an endpoint that is no address.
func New(o Options) (*Tracer, error) {
	endpoint, err := CheckEndpoint(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("trace: the endpoint is wrong: %w", err)
	}
	t := &Tracer{
		options: o, endpoint: endpoint, wake: make(chan struct{}, 1), backoff: time.Second, head: appendHead(nil, &o),
		client: &http.Client{
			Timeout: patience,
			// a redirect leads to an address that was not configured
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quern_trace_spans_total",
		Help: "Total number of spans by outcome: sent, dropped because too many were waiting, or failed because " +
			"the collector refused them.",
	}, []string{"outcome"})
	t.sent, t.dropped, t.failed = spans.WithLabelValues("sent"), spans.WithLabelValues("dropped"),
		spans.WithLabelValues("failed")
	if o.Registerer != nil {
		if err := o.Registerer.Register(spans); err != nil {
			return nil, fmt.Errorf("trace: metrics: %w", err)
		}
	}
	return t, nil
}

// CheckEndpoint reads an address of a collector, and says where spans are sent to.
// User and password in the address are refused: they would be in the log with it. A header carries them.
func CheckEndpoint(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "":
		return "",
			errors.New("it must be http://HOST:PORT or https://HOST:PORT, with a path or without, and nothing else")
	case u.Path == "" || u.Path == "/":
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// Run sends spans that have ended, batch by batch, until ctx ends. It never fails. The context for sending outlives
// ctx by `farewell`, for the batch under way and the spans that are left: those of the last requests end when the
// server stops, and explain why.
func (t *Tracer) Run(ctx context.Context) error {
	if t == nil {
		return nil
	}
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, cancel) })()
	// A batch that is not full waits for up to a second: sending each span by itself would cost a request for each.
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-t.wake:
		}
		for t.once(sending) {
		}
	}
	for t.once(sending) { // spans that ended while the last batch was sent
	}
	return nil
}

// once sends one batch, if there is any, and says whether it is to be called again. The log says once that spans
// cannot be sent, and once that they are sent again: a collector that is away for a day must not fill the log.
func (t *Tracer) once(ctx context.Context) bool {
	batch := t.take()
	if len(batch) == 0 {
		return false
	}
	refused, err := t.send(ctx, appendBatch(append([]byte(nil), t.head...), batch))
	switch {
	case err != nil:
		t.failed.Add(float64(len(batch)))
		if !t.quiet {
			t.options.Logger.Warn("spans could not be sent; those that follow are tried too, and this is said once",
				"endpoint", t.endpoint, "spans", len(batch), "error", err)
		}
	default:
		refused = min(max(refused, 0), int64(len(batch)))
		t.failed.Add(float64(refused))
		t.sent.Add(float64(int64(len(batch)) - refused))
		if t.quiet {
			t.options.Logger.Info("spans are sent again", "endpoint", t.endpoint)
		}
	}
	t.quiet = err != nil
	return true
}

// send posts a batch, again where the specification asks for it, and returns how many of the spans the collector
// refused. The pause is drawn between half of the wait and all of it, so that many servers do not come back to their
// collector at the same moment.
func (t *Tracer) send(ctx context.Context, body []byte) (refused int64, err error) {
	wait := t.backoff
	for try := 1; ; try++ {
		var after time.Duration
		var again bool
		refused, after, again, err = t.post(ctx, body)
		if err == nil || !again || try == maxTries || ctx.Err() != nil {
			return refused, err
		}
		if after == 0 {
			after = wait/2 + time.Duration(t.options.Seed()%uint64(wait/2+1))
		}
		wait *= 2
		timer := time.NewTimer(min(after, longest))
		select {
		case <-ctx.Done():
			timer.Stop()
			return refused, err
		case <-timer.C:
		}
	}
}

// post is one try. again says that another try may succeed, after that long if it is not 0. Only the statuses that
// OTLP names are tried again; any other one would be the same the next time.
func (t *Tracer) post(ctx context.Context, body []byte) (refused int64, after time.Duration, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, 0, false, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "quern/"+t.options.Version)
	for _, h := range t.options.Headers {
		request.Header.Set(h.Name, h.Value)
	}
	response, err := t.client.Do(request)
	if err != nil {
		return 0, 0, true, err
	}
	defer response.Body.Close()
	// The body is read, so that the connection can be used for the next batch, and only so far, as it may be
	// anything.
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, 0, true, err
	}
	// A collector that took only a part of a batch answers 200 as well, and says how many it refused. Those are not
	// sent again: they would be refused again.
	switch response.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return rejected(answer), 0, false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
			after = time.Duration(min(seconds, 3600)) * time.Second
		}
	}
	return 0, after, again, fmt.Errorf("the collector answered %s: %s", response.Status,
		t.hide(strings.TrimSpace(string(answer[:min(len(answer), 200)]))))
}

// hide takes the values of headers out of a collector's answer, which may repeat them. Parts of fewer than four
// characters stay: hiding each "a" would make the message unreadable and hide no secret.
func (t *Tracer) hide(text string) string {
	for _, h := range t.options.Headers {
		for _, part := range append(strings.Fields(h.Value), h.Value) {
			if len(part) >= 4 {
				text = strings.ReplaceAll(text, part, "(hidden)")
			}
		}
	}
	return text
}

// rejected is how many spans a collector that took a batch refused all the same.
// The number is a string or a number in JSON, as collectors write both.
func rejected(answer []byte) int64 {
	var partial struct {
		PartialSuccess struct {
			RejectedSpans json.RawMessage `json:"rejectedSpans"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &partial) != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.Trim(string(partial.PartialSuccess.RejectedSpans), `"`), 10, 64)
	return n
}

// Header is one header of the requests to a collector. Its value may be a secret.
type Header struct{ Name, Value string }

// Bounds of the headers.
const (
	maxHeaders     = 16
	maxHeaderBytes = 8 << 10
)

// ParseHeaders reads NAME=VALUE pairs with commas between, as OTEL_EXPORTER_OTLP_HEADERS
// has them (https://opentelemetry.io/docs/specs/otel/protocol/exporter/): in values %2C is
// a comma. Its errors never have a value in them.
func ParseHeaders(text string) (list []Header, err error) {
	if len(text) > maxHeaderBytes {
		return nil, fmt.Errorf("is longer than %d bytes", maxHeaderBytes)
	}
	for n, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !token(name) {
			return nil, fmt.Errorf("has no header's name and a '=' in its part %d; NAME=VALUE pairs with commas "+
				"between are wanted, and %%2C for a comma in a value", n+1)
		}
		if value, err = url.PathUnescape(value); err != nil {
			return nil, fmt.Errorf("has a %% in the value of %s that is no escape; write %%25 for one", name)
		}
		switch name = textproto.CanonicalMIMEHeaderKey(name); name {
		case "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Host", "Connection":
			return nil, fmt.Errorf("has %s, which the server sets itself", name)
		}
		if value == "" || !printable(value) {
			return nil, fmt.Errorf("has a value of %s that is empty, or has bytes that a header may not have", name)
		}
		list = append(list, Header{name, value})
	}
	if len(list) > maxHeaders {
		return nil, fmt.Errorf("has %d headers; at most %d are sent", len(list), maxHeaders)
	}
	return list, nil
}

// token says whether a text may be a header's name.
func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}
