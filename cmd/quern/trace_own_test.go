//go:build unix

package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/web/trace/tracetest"
)

// The server's own acts have spans too: a schedule's emission, whose context goes with the submission that it inserts, and the
// turns of a bulk operation. The headers that are configured go to the collector and nowhere else.
func TestServerTracesWhatItDoesByItself(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-t0ken"
	collector := tracetest.New(t.Errorf)
	t.Cleanup(collector.Close)
	var authorized, others atomic.Int32
	inner := collector.Config.Handler
	collector.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+secret {
			authorized.Add(1)
		} else {
			others.Add(1)
		}
		inner.ServeHTTP(w, r)
	})
	env := append(os.Environ(), "QUERN_OTLP_HEADERS=Authorization=Bearer%20"+secret)
	s, err := startServer(quernCopy(t), env, t.TempDir(), "--otlp-endpoint", collector.URL, "--log-level", "debug")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if _, err := c.PutSchedule(ctx, "default", "pulse", &api.ScheduleDefinition{Spec: "@every 1s", Template: api.ScheduleTemplate{Chunks: api.Chunks{Count: 1, Template: "x"}}}, client.Condition{}); err != nil {
		t.Fatal(err)
	}
	found, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: 1, WaitMS: 20_000})
	if err != nil || len(found.Reservations) != 1 || found.Reservations[0].Trace == "" {
		t.Fatalf("got %+v, %v; want a chunk of the schedule with a trace", found, err)
	}
	priority := int64(7)
	bulk, err := c.StartBulk(ctx, &api.BulkRequest{Queue: "default", Action: api.BulkReprioritize, Priority: &priority})
	if err != nil {
		t.Fatal(err)
	}
	for bulk.State == api.BulkRunning {
		if bulk, err = c.Bulk(ctx, bulk.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("the server ended with %v; it said: %s", err, s.stderr.String())
	}
	carried, turns := false, 0
	for _, span := range collector.Spans() {
		switch span.Name {
		case "emit default":
			if span.Kind != 4 || span.Attributes["quern.schedule"] != "pulse" || span.Attributes["messaging.batch.message_count"] == "0" {
				t.Errorf("got %+v, want a producer's span of pulse", span)
			}
			carried = carried || strings.HasPrefix(found.Reservations[0].Trace, "00-"+span.TraceID+"-"+span.SpanID)
		case "bulk default":
			turns++
			if span.Kind != 1 || span.Attributes["quern.bulk_operation"] != bulk.ID || span.Attributes["messaging.operation.name"] != "reprioritize" {
				t.Errorf("got %+v, want an internal span of %s", span, bulk.ID)
			}
		}
	}
	if !carried || turns == 0 {
		t.Errorf("an emission's span is what the reservation %q carries: %v; %d turns of the bulk operation have spans, want at least one", found.Reservations[0].Trace, carried, turns)
	}
	if authorized.Load() == 0 || others.Load() != 0 {
		t.Errorf("%d requests had the header, %d had not", authorized.Load(), others.Load())
	}
	if strings.Contains(s.stderr.String(), secret) {
		t.Errorf("the log has the secret: %s", s.stderr.String())
	}
	show := exec.Command(quernCopy(t), "config", "show", "-o", "json")
	show.Env = env
	if out, err := show.CombinedOutput(); err != nil || bytes.Contains(out, []byte(secret)) || !bytes.Contains(out, []byte("(hidden)")) {
		t.Errorf("config show: %v, the secret in it: %v", err, bytes.Contains(out, []byte(secret)))
	}
}
