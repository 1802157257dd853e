package trace

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/quern-queue/quern/web/trace/tracetest"
)

const (
	parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	other  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01;vendor=1,x=2"
)

// A trace context comes back as it was, and a malformed text is none.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{parent, other, strings.Replace(parent, "-01", "-00", 1), parent + ";" + strings.Repeat("s", MaxText-56)} {
		c, ok := Parse(text)
		if !ok || c.String() != text {
			t.Errorf("%q: got %q, %v", text, c.String(), ok)
		}
	}
	for text, want := range map[string]string{
		"cc" + parent[2:] + "-what-the-future-brings": parent,
		"cc" + parent[2:]: parent,
		parent + ";" + strings.Repeat("s", MaxText): parent,
		parent + ";bad\x01state":                    parent,
		parent + ";":                                parent,
		"":                                          "",
		parent[:54]:                                 "",
		parent + "-more":                            "",
		"ff" + parent[2:]:                           "",
		"cc" + parent[2:] + "more":                  "",
		strings.ToUpper(parent):                     "",
		strings.Replace(parent, "b7", "g7", 1):      "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		strings.Replace(parent, "-", "_", 1):                      "",
	} {
		c, ok := Parse(text)
		if got := c.String(); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", text, got, ok, want)
		}
	}
	if _, ok := FromHeaders([]string{parent, parent}, nil); ok {
		t.Error("two traceparents are taken for one")
	}
	if c, _ := FromHeaders([]string{parent}, []string{"a=1", "b=2"}); c.State != "a=1,b=2" {
		t.Errorf("two tracestates: got %q", c.State)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(parent)
	f.Add(other)
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := Parse(text)
		if !ok && c != (Context{}) {
			t.Errorf("%q is none and something: %+v", text, c)
		}
		if again, back := Parse(c.String()); ok && (!back || again != c) {
			t.Errorf("%q: %+v comes back as %+v", text, c, again)
		}
	})
}

func newCollector(t testing.TB) *tracetest.Collector {
	c := tracetest.New(t.Errorf)
	t.Cleanup(c.Close)
	return c
}

// tracerTo makes a tracer that is run until the test ends it, or has ended.
func tracerTo(t testing.TB, endpoint string, ratio float64) (tr *Tracer, registry *prometheus.Registry, end func()) {
	t.Helper()
	registry = prometheus.NewRegistry()
	var clock atomic.Uint64
	var draws sync.Mutex
	rnd := rand.New(rand.NewPCG(1, 2))
	tr, err := New(Options{
		Endpoint: endpoint, Ratio: ratio, Version: "0.0.0-test", Instance: `a"1`, Logger: slog.New(slog.DiscardHandler), Registerer: registry,
		Now: func() time.Time { return time.Unix(1_700_000_000, int64(clock.Add(1))) },
		Seed: func() uint64 {
			draws.Lock()
			defer draws.Unlock()
			return rnd.Uint64()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	tr.backoff = 2 * time.Microsecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tr.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(end)
	return tr, registry, end
}

func outcomes(t testing.TB, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	var b strings.Builder
	for _, m := range families[0].GetMetric() {
		fmt.Fprintf(&b, "%s %v ", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue())
	}
	return b.String()
}

// A collector gets every span as it was: ids, times, attributes, links and status.
func TestSpansReachTheCollector(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tr, registry, end := tracerTo(t, c.URL, 1)
	from, _ := Parse(parent + ";vendor=1")
	s := tr.Start(`insert "x"`, Server, from)
	s.Set(Text("queue", "a\nb\xff"), Int("count", -7))
	s.Link(other)
	s.Link(other)
	s.Link("nothing")
	s.Fail("it broke")
	if !s.Parented() || s.Context().Trace != from.Trace || s.Context().Span == from.Span {
		t.Errorf("the span is %+v, want a new one in the trace of its parent", s.Context())
	}
	s.End()
	s.End()
	root := tr.Start("reserve", Server, Context{})
	for i := range maxLinks + 3 {
		root.Link(fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", i+1))
	}
	for i := range maxAttributes + 3 {
		root.Set(Int(fmt.Sprintf("n%d", i), 1))
	}
	root.End()
	root.Set(Int("late", 1))
	end()
	got := c.Spans()
	if len(got) != 2 {
		t.Fatalf("got %d spans, want 2", len(got))
	}
	x := got[0]
	if x.TraceID != parent[3:35] || x.ParentSpanID != parent[36:52] || x.TraceState != "vendor=1" || x.Flags != 1 || x.Name != `insert "x"` || x.Kind != 2 ||
		x.Start < 1_700_000_000e9 || x.End <= x.Start || !x.Failed || x.Status != "it broke" {
		t.Errorf("got %+v", x)
	}
	if len(x.Attributes) != 2 || x.Attributes["queue"] != "a\nb\uFFFD" || x.Attributes["count"] != "-7" {
		t.Errorf("got the attributes %+v", x.Attributes)
	}
	if len(x.Links) != 1 || x.Links[0].TraceID != other[3:35] || x.Links[0].SpanID != other[36:52] || x.Links[0].TraceState != "vendor=1,x=2" {
		t.Errorf("got the links %+v", x.Links)
	}
	y := got[1]
	if y.ParentSpanID != "" || y.TraceID == x.TraceID || len(y.Links) != maxLinks || y.DroppedLinksCount != 3 || len(y.Attributes) != maxAttributes || y.Failed {
		t.Errorf("got %+v", y)
	}
	if got, want := outcomes(t, registry), "dropped 0 failed 0 sent 2 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Spans that the caller asked not to record are not made, nor are those of a tracer that is not there; of traces that
// begin here, about the configured share is made.
func TestSampling(t *testing.T) {
	t.Parallel()
	var none *Tracer
	s := none.Start("x", Server, Context{})
	s.Set(Int("n", 1))
	s.Link(other)
	s.Fail("")
	s.End()
	if own := s.Context(); own.Valid() || s.Parented() {
		t.Errorf("a span that is not there has the context %+v", own)
	}
	c := newCollector(t)
	tr, _, _ := tracerTo(t, c.URL, 0.25)
	unwanted, _ := Parse(strings.Replace(parent, "-01", "-00", 1))
	if tr.Start("x", Server, unwanted) != nil {
		t.Error("a trace that is not recorded has a span")
	}
	made := 0
	for range 10_000 {
		if tr.Start("x", Server, Context{}) != nil {
			made++
		}
	}
	if made < 2300 || made > 2700 {
		t.Errorf("%d of 10000 traces were begun, want about 2500", made)
	}
}

// A busy collector is asked again, and spans that it refuses are counted. A collector that says no is not asked again.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(try int) (int, string, string)
		tries  int
		want   string
	}{
		"busy at first": {func(try int) (int, string, string) {
			if try < 4 {
				return []int{429, 502, 503, 504}[try], "0", "later"
			}
			return 200, "", "{}"
		}, 4, "dropped 0 failed 0 sent 3 "},
		"busy for good": {func(int) (int, string, string) { return 503, "", "" }, maxTries, "dropped 0 failed 3 sent 0 "},
		"no":            {func(int) (int, string, string) { return 400, "", "bad" }, 1, "dropped 0 failed 3 sent 0 "},
		"elsewhere":     {func(int) (int, string, string) { return 307, "", "" }, 1, "dropped 0 failed 3 sent 0 "},
		"some of them": {func(int) (int, string, string) {
			return 200, "", `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"x"}}`
		}, 1, "dropped 0 failed 2 sent 1 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			c.Answer = test.answer
			tr, registry, _ := tracerTo(t, c.URL+"/v1/traces", 1)
			batch := []*Span{}
			for range 3 {
				batch = append(batch, tr.Start("x", Server, Context{}))
			}
			for _, s := range batch {
				s.End()
			}
			for range test.tries {
				<-c.Got
			}
			for ended := false; !ended; { // the outcome of the last try is counted right after it
				ended = outcomes(t, registry) == test.want
				select {
				case <-c.Got:
					t.Fatalf("the collector was asked more than %d times", test.tries)
				case <-t.Context().Done():
					t.Fatalf("got %q, want %q", outcomes(t, registry), test.want)
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
}

// While the collector hangs, spans are kept up to a bound, those beyond it are dropped and counted, and no call waits.
func TestNothingWaitsForTheCollector(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	release := make(chan struct{})
	c.Answer = func(int) (int, string, string) { <-release; return 200, "", "" }
	tr, registry, end := tracerTo(t, c.URL, 1)
	const most = maxQueued + mostSpans // the waiting spans, and the batch that hangs
	for range most + 1000 {
		tr.Start("x", Server, Context{}).End() // this test ends only if none of them waits
	}
	tr.pending.mu.Lock()
	spans, bytes := len(tr.pending.spans), tr.pending.bytes
	tr.pending.mu.Unlock()
	if spans > maxQueued || bytes > maxQueuedBytes {
		t.Errorf("%d spans of %d bytes wait, want at most %d and %d", spans, bytes, maxQueued, maxQueuedBytes)
	}
	close(release)
	end()
	var dropped, failed, sent int
	if _, err := fmt.Sscanf(outcomes(t, registry), "dropped %d failed %d sent %d ", &dropped, &failed, &sent); err != nil {
		t.Fatal(err)
	}
	// A batch that hung for too long, on a slow machine, was sent again, and has arrived twice.
	if dropped < 1000 || dropped+failed+sent != most+1000 || len(c.Spans()) < sent {
		t.Errorf("dropped %d, failed %d, sent %d, arrived %d; want all %d of them, at least 1000 dropped", dropped, failed, sent, len(c.Spans()), most+1000)
	}
	if tr.pending.bytes != 0 {
		t.Errorf("nothing waits, and it takes %d bytes", tr.pending.bytes)
	}
}

// An endpoint is an address and nothing that could carry a secret into a log.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:4318":        "http://127.0.0.1:4318/v1/traces",
		"http://127.0.0.1:4318/":       "http://127.0.0.1:4318/v1/traces",
		"https://x.example/otlp/v1/tr": "https://x.example/otlp/v1/tr",
		"127.0.0.1:4318":               "",
		"grpc://127.0.0.1:4317":        "",
		"http://":                      "",
		"http://me:secret@x.example":   "",
		"http://x.example?key=secret":  "",
		"http://x.example#y":           "",
		"http://[::1":                  "",
	} {
		if got, err := CheckEndpoint(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
		if _, err := CheckEndpoint(text); err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the secret: %v", text, err)
		}
	}
}
