//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/internal/loopback"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/web/trace/tracetest"
)

// A server with a collector sends it a span for every insert, reserve and completion, and the remaining spans at its end.
func TestServerSendsSpans(t *testing.T) {
	t.Parallel()
	collector := tracetest.New(t.Errorf)
	t.Cleanup(collector.Close)
	s, err := startServer(quernCopy(t), os.Environ(), t.TempDir(), "--otlp-endpoint", collector.URL)
	if err != nil {
		t.Fatal(err)
	}
	const producer = "0af7651916cd43dd8448eb211c80319c"
	workThrough(t, s.url, "00-"+producer+"-b7ad6b7169203331-01")
	response, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(text), `quern_trace_spans_total{outcome="dropped"} 0`) {
		t.Errorf("/metrics does not count spans: %v", err)
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("the server ended with %v; it said: %s", err, s.stderr.String())
	}
	inserted, linked := 0, 0
	for _, span := range collector.Spans() {
		switch {
		case span.Name == "insert default" && span.TraceID == producer && span.ParentSpanID == "b7ad6b7169203331":
			inserted++
		case span.TraceID == producer:
			t.Errorf("%+v is in the producer's trace", span)
		}
		for _, l := range span.Links {
			if l.TraceID == producer && l.SpanID == "b7ad6b7169203331" {
				linked++
			}
		}
	}
	if inserted != 1 || linked < 2 {
		t.Errorf("%d inserts in the producer's trace and %d spans linked to it; want 1, and at least the reserve and the completion; got %+v", inserted, linked, collector.Spans())
	}
}

// A collector that is not there stops nothing.
func TestServerWithoutItsCollector(t *testing.T) {
	t.Parallel()
	s, err := startServer(quernCopy(t), os.Environ(), t.TempDir(), "--otlp-endpoint", "http://"+loopback.Refused)
	if err != nil {
		t.Fatal(err)
	}
	workThrough(t, s.url, "")
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("the server ended with %v; it said: %s", err, s.stderr.String())
	}
	if !strings.Contains(s.stderr.String(), "spans could not be sent") {
		t.Errorf("the log does not say so: %s", s.stderr.String())
	}
}

// workThrough inserts some chunks under a trace, works on them, and waits until the submission has ended.
func workThrough(t *testing.T, url, trace string) {
	t.Helper()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	inserted, err := c.Insert(client.WithTraceContext(t.Context(), trace), "default", &api.NewSubmission{Chunks: api.Chunks{Count: 5, Template: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	worked := make(chan error, 1)
	go func() {
		worked <- c.Work(ctx, client.WorkOptions{}, func(context.Context, *client.Chunk) ([]byte, error) { return nil, nil })
	}()
	if done, err := c.Wait(t.Context(), inserted.ID); err != nil || done.State != "completed" {
		t.Errorf("the submission is %+v, %v; want it completed", done, err)
	}
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
}
