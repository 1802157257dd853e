package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// handler answers every call with f, which is given the body.
func handler(t *testing.T, f func(w http.ResponseWriter, r *http.Request, body string)) *Client {
	t.Helper()
	return newFake(t, 0, func(w http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			f(w, r, string(body))
		}
		return true
	}).client()
}

const openSubmission = `{"id":"7","queue":"q","state":"open","chunks":2,"ready":2,"waiting":0,"reserved":0,"done":0,"dead":0,"created_at":"2026-01-31T00:00:00.001Z","new_field":[1]}`

// The friendly calls carry everything there and back.
func TestReservationCalls(t *testing.T) {
	t.Parallel()
	f := newFake(t, 4, nil)
	f.results["complete 1"] = api.StatusLost
	c := f.client()
	got, err := c.Reserve(t.Context(), "default", &api.ReserveRequest{Max: 3, Strategy: json.RawMessage(`"OldestFirst"`)})
	if err != nil || len(got.Reservations) != 3 || got.Reason != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	r := got.Reservations[1]
	if string(r.Content.Bytes) != "row 1" || r.Submission != "72057594037927936" || r.Attempt != 1 || r.Meta["company"] != api.Int(1) || r.Priority != 7 || r.Deadline.UnixMilli() != 1_800_000_000_000 {
		t.Errorf("got %+v", r)
	}
	extended, err := c.Extend(t.Context(), "default", []api.ExtendItem{{Token: r.Token, TimeoutMS: 5}, {Token: "no"}})
	if err != nil || extended[0].Deadline.UnixMilli() != 1_800_000_060_000 || extended[1].Status != api.StatusUnknown {
		t.Errorf("extend: got %+v, %v", extended, err)
	}
	done, err := c.Complete(t.Context(), "default", []api.CompleteItem{{Token: got.Reservations[0].Token, Output: api.Bytes("out")}, {Token: r.Token}})
	if err != nil || done[0].Status != api.StatusOK || done[1].Status != api.StatusLost || done[1].Detail == "" {
		t.Errorf("complete: got %+v, %v", done, err)
	}
	delay := int64(50)
	x, err := c.Exchange(t.Context(), "default", &api.ExchangeRequest{
		Fail:    []api.FailItem{{Token: got.Reservations[2].Token, Error: "why", Fatal: true, RetryAfterMS: &delay}},
		Reserve: &api.ReserveRequest{Max: 10},
	})
	if err != nil || len(x.Fail) != 1 || x.Fail[0].Status != api.StatusOK || len(x.Reservations) != 1 || x.Reservations[0].Index != 3 {
		t.Errorf("exchange: got %+v, %v", x, err)
	}
	failed, err := c.Fail(t.Context(), "default", []api.FailItem{{Token: string(token(99))}})
	if err != nil || failed[0].Status != api.StatusUnknown {
		t.Errorf("fail: got %+v, %v", failed, err)
	}
	empty, err := c.Reserve(t.Context(), "default", &api.ReserveRequest{Max: 1})
	if err != nil || len(empty.Reservations) != 0 || empty.Reason == nil || *empty.Reason != api.ReasonNothing {
		t.Errorf("got %+v, %v; want nothing", empty, err)
	}
	if want := (api.FailItem{Error: "why", Fatal: true, RetryAfterMS: &delay}); !reflect.DeepEqual(f.failed[2], want) || f.done[0] != "out" {
		t.Errorf("the server has %+v and %q", f.failed[2], f.done[0])
	}
}

// An exchange whose answer has the results of other items is an error: a caller takes them by the place of its items.
func TestExchangeOfOtherItems(t *testing.T) {
	t.Parallel()
	c := handler(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		io.WriteString(w, `{"complete":[],"fail":[{"status":"ok"}],"extend":[],"reservations":[],"reason":null,"retry_after_ms":null}`)
	})
	got, err := c.Exchange(t.Context(), "default", &api.ExchangeRequest{Complete: []api.CompleteItem{{Token: string(token(1))}}})
	if err == nil || !strings.Contains(err.Error(), "0 results for 1 items") {
		t.Errorf("got %+v, %v; want an error", got, err)
	}
}

// An insert as JSON lines sends the submission and its chunks, and an error among them breaks it off.
func TestInsertStream(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[wire.InsertRequest]
	c := handler(t, func(w http.ResponseWriter, r *http.Request, body string) {
		var request wire.InsertRequest
		if err := request.DecodeLines([]byte(body)); err != nil || r.Header.Get("Content-Type") != mediaLines || r.Header.Get("Traceparent") != "00-a" {
			t.Errorf("got %v with the headers %v", err, r.Header)
		}
		got.Store(&request)
		io.WriteString(w, openSubmission)
	})
	rows := func(n int, fault error) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for i := range n {
				if !yield(fmt.Appendf(nil, "row\n%d", i), nil) {
					return
				}
			}
			if fault != nil {
				yield(nil, fault)
			}
		}
	}
	s, err := c.InsertStream(t.Context(), "q", &api.NewSubmission{Priority: 3}, rows(20_000, nil), WithTrace("00-a"))
	if err != nil || s.ID != "7" {
		t.Fatalf("got %+v, %v", s, err)
	}
	request := got.Load()
	if len(request.Inline) != 20_000 || string(request.Inline[19_999]) != "row\n19999" || request.Priority != 3 {
		t.Errorf("the server read %d chunks and priority %d", len(request.Inline), request.Priority)
	}
	got.Store(nil)
	fault := errors.New("the source broke")
	if _, err := c.InsertStream(t.Context(), "q", &api.NewSubmission{}, rows(20_000, fault), WithTrace("00-a")); !errors.Is(err, fault) {
		t.Errorf("got %v, want %v", err, fault)
	}
	if got.Load() != nil {
		t.Error("the server took a broken-off insert for a whole one")
	}
}

// A refusal in the middle of the chunks ends an insert as JSON lines, and the caller gets it.
func TestInsertStreamRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t, 0, func(w http.ResponseWriter, r *http.Request) bool {
		io.ReadFull(r.Body, make([]byte, 100))
		writeProblem(w, api.Problem{Title: "Disk full", Status: 507, Code: api.CodeDiskFull})
		return true
	})
	forever := func(yield func([]byte, error) bool) {
		for yield([]byte(strings.Repeat("x", 1000)), nil) {
			continue
		}
	}
	_, err := f.client().InsertStream(t.Context(), "q", &api.NewSubmission{}, forever)
	var refused *Error
	if err == nil || errors.As(err, &refused) && refused.Code != api.CodeDiskFull {
		t.Errorf("got %v, want %s or a broken connection", err, api.CodeDiskFull)
	}
}

// Wait asks until the submission is no longer open, and asks the server to hold its answers.
func TestWait(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	c := handler(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Path != "/v1/submissions/7" || r.Header.Get("Prefer") != "wait=30" {
			t.Errorf("got %s with Prefer %q", r.URL, r.Header.Get("Prefer"))
		}
		state := "open"
		if calls.Add(1) == 3 {
			state = "completed"
		}
		io.WriteString(w, strings.Replace(openSubmission, "open", state, 1))
	})
	s, err := c.Wait(t.Context(), "7")
	if err != nil || s.State != api.StateCompleted || calls.Load() != 3 {
		t.Errorf("got %+v, %v after %d calls", s, err, calls.Load())
	}
}

// The iterators go through all pages, can be left, can be used again, and end with the first error.
func TestLists(t *testing.T) {
	t.Parallel()
	c := handler(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		query := r.URL.Query()
		want := []string{"s:a&b=c"}
		if r.URL.Path != "/v1/queues/q/submissions" || !slices.Equal(query["state"], []string{"open", "failed"}) || !slices.Equal(query["meta.mode"], want) || query.Get("meta.company") != "5" || query.Get("limit") != "2" {
			t.Errorf("got %s", r.URL)
		}
		switch query.Get("cursor") {
		case "":
			io.WriteString(w, `{"items":[`+openSubmission+`,`+openSubmission+`],"next":"a/b="}`)
		case "a/b=":
			io.WriteString(w, `{"items":[`+openSubmission+`],"next":"bad"}`)
		default:
			writeProblem(w, api.Problem{Title: "Invalid", Status: 422, Code: api.CodeInvalid})
		}
	})
	list := c.List(t.Context(), "q", ListOptions{States: []string{"open", "failed"}, Meta: api.Meta{"mode": api.Text("a&b=c"), "company": api.Int(5)}, Limit: 2})
	for range 2 {
		n := 0
		var last error
		for s, err := range list {
			if last = err; err == nil {
				n++
				if s.ID != "7" || s.CreatedAt.UnixMilli()%1000 != 1 {
					t.Errorf("got %+v", s)
				}
			}
		}
		if n != 3 || CodeOf(last) != api.CodeInvalid {
			t.Errorf("got %d submissions and %v, want 3 and %s", n, last, api.CodeInvalid)
		}
	}
	for range list {
		break
	}
}

// Outputs come line by line, and a broken line is an error rather than an end.
func TestOutputs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	c := handler(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		io.WriteString(w, `{"index":0,"output":{"text":"a\nb"}}`+"\n"+`{"index":4294967295,"output":{"base64":"/w=="}}`+"\n"+`{"index":5,"output":{"text":"`+long+`"}}`)
		if strings.Contains(r.URL.Path, "/8/") {
			io.WriteString(w, "\n{\"index\":")
		}
	})
	want := []api.Output{{Index: 0, Output: api.Bytes("a\nb")}, {Index: 4294967295, Output: api.Bytes{0xff}}, {Index: 5, Output: api.Bytes(long)}}
	for _, id := range []string{"7", "8"} {
		var got []api.Output
		var last error
		for output, err := range c.Outputs(t.Context(), id) {
			if last = err; err == nil {
				got = append(got, output)
			}
		}
		if !reflect.DeepEqual(got, want) || (last != nil) != (id == "8") {
			t.Errorf("submission %s: got %d outputs and %v", id, len(got), last)
		}
	}
	for _, err := range newFake(t, 0, nil).client().Outputs(t.Context(), "9") {
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != 404 {
			t.Errorf("got %v, want a refusal with 404", err)
		}
	}
}

// The calls about queues send and read what the interface says.
func TestQueues(t *testing.T) {
	t.Parallel()
	const queue = `{"name":"q","settings":{"durability":"relaxed","max_attempts":5,"max_expiries":3,"on_exhausted":"fail_submission","reservation_timeout_ms":1,"max_reservation_ms":2,"retry_backoff":{"base_ms":1,"factor":1.5,"cap_ms":2},"expiry_backoff":{"base_ms":0,"factor":2,"cap_ms":0},"retention_seconds":60},"created_at":"2026-01-31T00:00:00.000Z"}`
	c := handler(t, func(w http.ResponseWriter, r *http.Request, body string) {
		switch call := r.Method + " " + r.URL.Path + " " + body; call {
		case `PUT /v1/queues/q {"settings":{"durability":"relaxed","max_attempts":5}}`, "GET /v1/queues/q ":
			io.WriteString(w, queue)
		case "GET /v1/queues ":
			io.WriteString(w, `{"items":[`+queue+`]}`)
		case "GET /v1/queues/q/stats ":
			io.WriteString(w, `{"ready":18446744073709551615,"oldest_ready_seconds":1.5,"later_added":1}`)
		case "GET /v1/queues/q/meta-keys/company/values ":
			io.WriteString(w, `{"items":[{"value":123,"ready":4,"in_flight":2,"limit":null,"weight":1,"saturated":false},{"value":"x"}]}`)
		case "GET /version ":
			io.WriteString(w, `{"version":"1.2.3","go":"go1.26"}`)
		case "DELETE /v1/queues/q ":
			w.WriteHeader(http.StatusNoContent)
		default:
			t.Errorf("got %s", call)
		}
	})
	var want api.Queue
	if err := json.Unmarshal([]byte(queue), &want); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	put, err := c.PutQueue(ctx, "q", api.QueueSettingsInput{Durability: new(api.DurabilityRelaxed), MaxAttempts: new(uint16(5))})
	if err != nil || !reflect.DeepEqual(*put, want) {
		t.Errorf("put: got %+v, %v", put, err)
	}
	if got, err := c.Queue(ctx, "q"); err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("get: got %+v, %v", got, err)
	}
	for got, err := range c.Queues(ctx) {
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("list: got %+v, %v", got, err)
		}
	}
	if got, err := c.Stats(ctx, "q"); err != nil || got.Ready != 1<<64-1 || got.OldestReadySeconds != 1.5 {
		t.Errorf("stats: got %+v, %v", got, err)
	}
	var values []api.MetaValue
	for got, err := range c.Values(ctx, "q", "company", "") {
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, got.Value)
	}
	if !slices.Equal(values, []api.MetaValue{api.Int(123), api.Text("x")}) {
		t.Errorf("values: got %v", values)
	}
	if got, err := c.Version(ctx); err != nil || got.Version != "1.2.3" {
		t.Errorf("version: got %+v, %v", got, err)
	}
	if err := c.DeleteQueue(ctx, "q"); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// A server that is not there is an error after the tries, at once when the context ends.
func TestNoServer(t *testing.T) {
	t.Parallel()
	c := mustNew(t, "http://127.0.0.1:1", WithRetries(1))
	if _, err := c.Get(t.Context(), "7"); err == nil || errors.As(err, new(*Error)) {
		t.Errorf("got %v, want a connection error", err)
	}
	if err := release(t.Context(), c); err == nil || errors.As(err, new(*Error)) {
		t.Errorf("got %v, want a connection error", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := release(ended, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
