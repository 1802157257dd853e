//quern:overlapping
package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// begin sends a request whose answer comes later.
func (f *fixture) begin(ctx context.Context, c call) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		defer close(answers)
		request, err := http.NewRequestWithContext(ctx, c.method, "http://"+f.address+c.path, strings.NewReader(c.body))
		if err != nil {
			f.Error(err)
			return
		}
		request.Header.Set("Content-Type", contentJSON)
		for name, value := range c.header {
			request.Header.Set(name, value)
		}
		response, err := f.client.Do(request)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				f.Errorf("%s %s: %v", c.method, c.path, err)
			}
			return
		}
		defer response.Body.Close()
		var body bytes.Buffer
		if _, err := body.ReadFrom(response.Body); err != nil {
			f.Errorf("%s %s: %v", c.method, c.path, err)
		}
		answers <- answer{status: response.StatusCode, header: response.Header, body: body.Bytes()}
	}()
	return answers
}

// A consumer that waits is woken by an insert that its strategy can serve, and not by one that it cannot.
func TestReserveWaitsForAnInsert(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	waiting := f.begin(t.Context(), call{method: "POST", path: reservePath, body: `{"max":5,"wait_ms":60000,"strategy":"SelectOnly(\"kind\", \"wanted\", Random)"}`})
	f.waiters(1)
	f.insert(`{"chunks":{"inline":["no"]},"meta":{"kind":"other"}}`)
	f.waiters(1)
	wanted := f.insert(`{"chunks":{"inline":["yes"]},"meta":{"kind":"wanted"}}`)
	var got api.ReserveResponse
	(<-waiting).decode(t, &got)
	if len(got.Reservations) != 1 || got.Reservations[0].Submission != wanted.ID || string(got.Reservations[0].Content.Bytes) != "yes" {
		t.Errorf("got %+v, want the chunk of %s", got, wanted.ID)
	}
}

// A wait that finds nothing says so.
func TestReserveWaitEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.reserve(`{"max":1,"wait_ms":1}`)
	if len(got.Reservations) != 0 || got.Reason == nil || *got.Reason != api.ReasonNothing {
		t.Errorf("got %+v, want nothing", got)
	}
}

// A consumer that goes away ends its wait, and later chunks are for others.
func TestReserveWaitEndsWithTheClient(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := f.begin(ctx, call{method: "POST", path: reservePath, body: `{"max":1,"wait_ms":60000}`})
	f.waiters(1)
	cancel()
	<-waiting
	f.noWaiters()
	f.insert(`{"chunks":{"inline":["x"]}}`)
	f.reserveOne()
}

// noWaiters waits until no request is parked in the default queue.
func (f *fixture) noWaiters() {
	f.Helper()
	for {
		var stats api.Stats
		f.do("GET", "/v1/queues/default/stats", "", 200, &stats)
		if stats.ConsumersWaiting == 0 {
			return
		}
		runtime.Gosched()
	}
}

// When the server stops, waiting callers get an answer that asks them to come back, and the server is not ready any
// more.
func TestStopEndsWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	submission := f.insert(`{"chunks":{"count":1,"prefix":"a/"},"meta":{"kind":"other"}}`)
	body := `{"max":1,"wait_ms":60000,"strategy":"SelectOnly(\"kind\", \"wanted\", Random)"}`
	reserve := f.begin(t.Context(), call{method: "POST", path: reservePath, body: body})
	exchange := f.begin(t.Context(), call{method: "POST", path: reservePath + "/exchange", body: `{"complete":[{"token":"none"}],"reserve":` + body + `}`})
	get := f.begin(t.Context(), call{method: "GET", path: "/v1/submissions/" + submission.ID, header: map[string]string{"Prefer": "wait=60"}})
	f.waiters(2)
	f.server.Stop()
	for name, waiting := range map[string]<-chan answer{"reserve": reserve, "exchange": exchange} {
		got := <-waiting
		var out api.ExchangeResponse
		got.decode(t, &out)
		if got.status != 200 || len(out.Reservations) != 0 || out.RetryAfterMS == nil || *out.RetryAfterMS != 1000 {
			t.Errorf("%s: got %d %s, want an empty answer with retry_after_ms 1000", name, got.status, got.body)
		}
		if name == "exchange" && (len(out.Complete) != 1 || out.Complete[0].Status != api.StatusUnknown) {
			t.Errorf("exchange: got %+v, want the result of what was finished", out.Complete)
		}
	}
	var out api.Submission
	if got := <-get; got.status != 200 {
		t.Errorf("get: got %d %s, want 200", got.status, got.body)
	} else if got.decode(t, &out); out.State != api.StateOpen {
		t.Errorf("get: got %+v, want it open", out)
	}
	ready := f.send(call{method: "GET", path: "/readyz"})
	if p := ready.problem(t); ready.status != 503 || p.Code != string(codeNotReady) || ready.header.Get("Retry-After") != "1" {
		t.Errorf("readyz: got %d %s, want 503 not_ready", ready.status, ready.body)
	}
}

// A producer that waits for its result is answered when the submission ends.
func TestPreferWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	submission := f.insert(`{"chunks":{"inline":["x"]}}`)
	path := "/v1/submissions/" + submission.ID
	waiting := f.begin(t.Context(), call{method: "GET", path: path, header: map[string]string{"Prefer": "respond-async, wait=60"}})
	held := f.reserveOne()
	if got := f.results("complete", `{"token":"`+held.Token+`"}`); got[0].Status != api.StatusOK {
		t.Fatalf("complete: got %+v", got)
	}
	got := <-waiting
	var out api.Submission
	got.decode(t, &out)
	if out.State != api.StateCompleted || got.header.Get("Preference-Applied") != "wait=60" {
		t.Errorf("got %s with Preference-Applied %q, want completed, wait=60", got.body, got.header.Get("Preference-Applied"))
	}
	// More than the longest wait is granted as the longest; of an ended submission the answer comes at once.
	if got := f.send(call{method: "GET", path: path, header: map[string]string{"Prefer": "wait=3600"}}); got.header.Get("Preference-Applied") != "wait=60" {
		t.Errorf("wait=3600: got %q, want wait=60", got.header.Get("Preference-Applied"))
	}
}

// An exchange that waits for new work has committed what it finished before it waits.
func TestExchangeFinishesBeforeItWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert(`{"chunks":{"inline":["x"]}}`)
	held := f.reserveOne()
	waiting := f.begin(t.Context(), call{method: "POST", path: reservePath + "/exchange", body: `{"complete":[{"token":"` + held.Token + `","output":"out"}],"reserve":{"max":1,"wait_ms":60000}}`})
	f.waiters(1)
	var done api.Submission
	f.do("GET", "/v1/submissions/"+held.Submission, "", 200, &done)
	if done.State != api.StateCompleted {
		t.Errorf("while the exchange waits the submission is %s, want completed", done.State)
	}
	f.insert(`{"chunks":{"inline":["y"]}}`)
	var got api.ExchangeResponse
	(<-waiting).decode(t, &got)
	if len(got.Complete) != 1 || got.Complete[0].Status != api.StatusOK || len(got.Reservations) != 1 || string(got.Reservations[0].Content.Bytes) != "y" {
		t.Errorf("got %+v, want the result and the new chunk", got)
	}
}

// A wait outlives the deadlines of ordinary requests: here they pass (the end of a body that does not come shows it)
// and the answer still arrives. All other steps call the engine directly, without the deadlines, because a busy machine
// may take longer than they last.
func TestWaitsOutliveDeadlines(t *testing.T) {
	t.Parallel()
	f := newFixtureSeeded(t, rand.Uint64(), func(s *Server) { s.clock.patience.read, s.clock.patience.write = time.Second, 2*time.Second })
	insert := func(kind string) queue.Submission {
		meta := queue.Meta{{Key: "kind", Value: queue.StringValue(kind)}}
		s, _, err := queueAt(f.engine, engine.DefaultQueue).Insert(t.Context(), queue.NewSubmission{Meta: meta, Chunks: queue.Chunks{Count: 1, Prefix: "a/"}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	submission := insert("other")
	body := `{"max":1,"wait_ms":60000,"strategy":"SelectOnly(\"kind\", \"wanted\", Random)"}`
	reserve := f.begin(t.Context(), call{method: "POST", path: reservePath, body: body})
	get := f.begin(t.Context(), call{method: "GET", path: "/v1/submissions/" + submission.ID.String(), header: map[string]string{"Prefer": "wait=60"}})
	f.waiters(1)
	for range 3 { // together they take longer than either deadline
		connection, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", reservePath); err != nil {
			t.Fatal(err)
		}
		// On a busy machine even this answer may come too late: then the connection just ends.
		head := make([]byte, 12)
		if _, err := io.ReadFull(connection, head); err == nil && string(head) != "HTTP/1.1 408" {
			t.Errorf("the slow body got %q, want HTTP/1.1 408", head)
		}
	}
	insert("wanted")
	if got := <-reserve; got.status != 200 || !bytes.Contains(got.body, []byte(`"token"`)) {
		t.Errorf("reserve: got %d %s, want the chunk", got.status, got.body)
	}
	if _, err := queueAt(f.engine, engine.DefaultQueue).Submissions.Cancel(t.Context(), submission.ID); err != nil {
		t.Fatal(err)
	}
	if got := <-get; got.status != 200 || !bytes.Contains(got.body, []byte(api.StateCancelled)) {
		t.Errorf("get: got %d %s, want it cancelled", got.status, got.body)
	}
}
