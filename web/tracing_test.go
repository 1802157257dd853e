//quern:overlapping
package web

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/web/trace"
	"github.com/quern-queue/quern/web/trace/tracetest"
)

const (
	producerTrace = "0af7651916cd43dd8448eb211c80319c"
	producer      = "00-" + producerTrace + "-b7ad6b7169203331-01"
	secondTrace   = "4bf92f3577b34da6a3ce929d0e0e4736"
	second        = "00-" + secondTrace + "-00f067aa0ba902b7-01"
	consumerTrace = "1111111111111111aaaaaaaaaaaaaaaa"
	consumer      = "00-" + consumerTrace + "-2222222222222222-01"
	uninterested  = "00-3333333333333333aaaaaaaaaaaaaaaa-2222222222222222-00"
)

// traced is a fixture whose spans go to a collector. spans ends the tracer, and gives the spans that arrived.
func traced(t *testing.T) (f *fixture, spans func() map[string][]tracetest.Span) {
	t.Helper()
	c := tracetest.New(t.Errorf)
	t.Cleanup(c.Close)
	tracer, err := trace.New(trace.Options{Endpoint: c.URL, Ratio: 1, Now: time.Now, Seed: rand.Uint64, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	f = newFixtureSeeded(t, rand.Uint64(), func(s *Server) { s.tracing.tracer = tracer })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tracer.Run(ctx) }()
	return f, func() map[string][]tracetest.Span {
		t.Helper()
		f.client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		byName := map[string][]tracetest.Span{}
		for _, s := range c.Spans() {
			byName[s.Name] = append(byName[s.Name], s)
		}
		return byName
	}
}

// with sends a request under a trace context.
func (f *fixture) with(trace, path, body string, status int, into any) answer {
	f.Helper()
	parent, state, _ := strings.Cut(trace, ";")
	got := f.send(call{method: "POST", path: path, body: body, header: map[string]string{"Traceparent": parent, "Tracestate": state}})
	if got.status != status {
		f.Fatalf("POST %s %s: got %d, want %d: %s", path, body, got.status, status, got.body)
	}
	if into != nil {
		got.decode(f, into)
	}
	return got
}

func linked(s *tracetest.Span) (traces []string) {
	for _, l := range s.Links {
		traces = append(traces, l.TraceID)
	}
	slices.Sort(traces)
	return traces
}

// only is the one span of a name.
func only(t *testing.T, spans map[string][]tracetest.Span, name string) tracetest.Span {
	t.Helper()
	if len(spans[name]) != 1 {
		t.Fatalf("there are %d spans %q, want one: %+v", len(spans[name]), name, spans[name])
	}
	return spans[name][0]
}

// An insert is part of the producer's trace. A reserve and the calls after it are part of the consumer's trace, or
// begin one. They are linked to the producers' spans, and are not their children. Consumers get the producers' contexts
// as they came.
func TestSpansAcrossTheQueue(t *testing.T) {
	t.Parallel()
	f, spans := traced(t)
	f.with(producer+";vendor=1", insertPath, `{"chunks":{"count":2,"template":"a"}}`, 201, nil)
	f.with(producer, insertPath, `{"chunks":{"count":1,"template":"b"},"trace":"`+second+`;other=2"}`, 201, nil)
	var got api.ReserveResponse
	f.with(consumer, reservePath, `{"max":10,"strategy":"OldestFirst","consumer":"c-1"}`, 200, &got)
	var traces []string
	for _, r := range got.Reservations {
		traces = append(traces, r.Trace)
	}
	if want := []string{producer + ";vendor=1", producer + ";vendor=1", second + ";other=2"}; !slices.Equal(traces, want) {
		t.Errorf("the reservations carry %q, want %q", traces, want)
	}
	items := func(from, to int) string {
		var all []string
		for _, r := range got.Reservations[from:to] {
			all = append(all, fmt.Sprintf(`{"token":%q}`, r.Token))
		}
		return strings.Join(all, ",")
	}
	f.with(consumer, reservePath+"/complete", `{"items":[`+items(0, 1)+`]}`, 200, nil)
	f.results("fail", strings.Replace(items(1, 2), "}", `,"error":"no"}`, 1))
	f.do("POST", reservePath+"/exchange", `{"complete":[`+items(2, 3)+`],"reserve":{"max":1,"strategy":"SelectOnly(\"no\",1,Random)"}}`, 200, nil)
	f.results("release", items(0, 1)) // done by now: nothing to release
	f.with(consumer, "/v1/queues/absent/reservations", `{"max":1}`, 404, nil)
	all := spans()

	inserts := all["insert default"]
	if len(inserts) != 2 || inserts[0].TraceID != producerTrace || inserts[0].ParentSpanID != "b7ad6b7169203331" || inserts[0].TraceState != "vendor=1" || inserts[0].Kind != 2 {
		t.Fatalf("the inserts are %+v", inserts)
	}
	if a := inserts[0].Attributes; a["messaging.system"] != "quern" || a["messaging.operation.type"] != "send" || a["messaging.batch.message_count"] != "2" || a["http.response.status_code"] != "201" {
		t.Errorf("the insert has %v", a)
	}
	if got := linked(&inserts[1]); !slices.Equal(got, []string{secondTrace}) {
		t.Errorf("the insert that names another trace is linked to %v", got)
	}
	reserve := only(t, all, "reserve default")
	if reserve.TraceID != consumerTrace || reserve.ParentSpanID != "2222222222222222" || !slices.Equal(linked(&reserve), []string{producerTrace, secondTrace}) || reserve.Links[0].TraceState != "vendor=1" {
		t.Errorf("the reserve is %+v, want it in the consumer's trace, linked to both producers", reserve)
	}
	if a := reserve.Attributes; a["messaging.batch.message_count"] != "3" || a["quern.consumer"] != "c-1" || a["messaging.operation.type"] != "receive" {
		t.Errorf("the reserve has %v", a)
	}
	complete := only(t, all, "complete default")
	if complete.TraceID != consumerTrace || !slices.Equal(linked(&complete), []string{producerTrace}) || complete.Attributes["quern.settled_count"] != "1" {
		t.Errorf("the completion is %+v", complete)
	}
	fail := only(t, all, "fail default")
	if fail.ParentSpanID != "" || fail.TraceID == producerTrace || !slices.Equal(linked(&fail), []string{producerTrace}) {
		t.Errorf("the failure is %+v, want a trace of its own, linked to the producer", fail)
	}
	exchange := only(t, all, "exchange default")
	if !slices.Equal(linked(&exchange), []string{secondTrace}) || exchange.Attributes["quern.empty_reason"] != "nothing" || exchange.Attributes["quern.settled_count"] != "1" {
		t.Errorf("the exchange is %+v", exchange)
	}
	if release := only(t, all, "release default"); release.Attributes["quern.not_ok_count"] != "1" {
		t.Errorf("the release is %+v, want one that did not count", release)
	}
	if wrong := only(t, all, "reserve absent"); wrong.Attributes["error.type"] != "unknown_queue" || wrong.Failed {
		t.Errorf("the reserve of no queue is %+v, want a mistake of the caller's", wrong)
	}
}

// A call that finds no work, or only moves deadlines, leaves no span unless the caller has a trace. A call whose caller
// asks not to record leaves none either. A submission whose producer has no trace carries that of its insert.
func TestUnwantedSpans(t *testing.T) {
	t.Parallel()
	f, spans := traced(t)
	f.reserve(`{"max":1}`)
	f.reserve(`{"max":1,"wait_ms":1}`)
	f.do("POST", reservePath+"/exchange", `{"reserve":{"max":1}}`, 200, nil)
	f.with(uninterested, insertPath, `{"chunks":{"count":1,"template":"a"}}`, 201, nil)
	f.with(consumer, reservePath, `{"max":1,"wait_ms":1,"strategy":"SelectOnly(\"no\",1,Random)"}`, 200, nil)
	f.insert(`{"chunks":{"count":1,"template":"b"}}`)
	got := f.reserve(`{"max":2,"strategy":"OldestFirst"}`)
	f.do("POST", reservePath+"/exchange", `{"extend":[{"token":"`+got.Reservations[0].Token+`"}]}`, 200, nil)
	f.do("POST", reservePath+"/exchange", `{"extend":[{"token":"`+got.Reservations[0].Token+`"}],"reserve":{"max":1}}`, 200, nil)
	if len(got.Reservations) != 2 || got.Reservations[0].Trace != uninterested {
		t.Errorf("got %+v, want the first with the trace that it came with", got.Reservations)
	}
	if refused := f.send(call{method: "POST", path: insertPath, body: `{"chunks":{"count":1,"template":"a"},"trace":"mine"}`}); refused.problem(t).Errors[0].Pointer != "/trace" {
		t.Errorf("got %s, want /trace refused", refused.body)
	}
	all := spans()
	inserts := all["insert default"]
	if len(inserts) != 2 || inserts[1].Attributes["error.type"] != "invalid" { // the last one is the one refused
		t.Fatalf("the inserts are %+v", inserts)
	}
	own := "00-" + inserts[0].TraceID + "-" + inserts[0].SpanID + "-01"
	if got.Reservations[1].Trace != own {
		t.Errorf("the submission without a trace carries %q, want that of its insert, %q", got.Reservations[1].Trace, own)
	}
	reserves := all["reserve default"]
	if len(reserves) != 2 || reserves[0].TraceID != consumerTrace || reserves[0].Attributes["messaging.batch.message_count"] != "0" || len(reserves[1].Links) != 2 || len(all["exchange default"]) != 0 {
		t.Errorf("got %+v and %+v, want the one without work that has a trace, and the one that found something", reserves, all["exchange default"])
	}
}

// An extend has a span if its caller has a trace, linked to the producer's. Without a trace it has none, as consumers
// extend all the time.
func TestExtendsAreTracedForThoseWhoTrace(t *testing.T) {
	t.Parallel()
	f, spans := traced(t)
	f.with(producer, insertPath, `{"chunks":{"count":1,"template":"a"}}`, 201, nil)
	got := f.reserve(`{"max":1}`)
	extend := fmt.Sprintf(`{"items":[{"token":%q,"timeout_ms":60000}]}`, got.Reservations[0].Token)
	f.do("POST", reservePath+"/extend", extend, 200, nil)
	f.with(consumer, reservePath+"/extend", extend, 200, nil)
	if span := only(t, spans(), "extend default"); span.TraceID != consumerTrace || !slices.Equal(linked(&span), []string{producerTrace}) || span.Attributes["quern.settled_count"] != "1" {
		t.Errorf("got %+v, want it in the consumer's trace and linked to the producer's", span)
	}
}
