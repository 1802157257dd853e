package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// event is one event of a stream.
type event struct{ name, id, data string }

// subscription is an open stream that a test reads event by event.
type subscription struct {
	t        testing.TB
	response *http.Response
	lines    *bufio.Scanner
}

func (f *fixture) subscribe(query, last string) *subscription {
	f.Helper()
	request, err := http.NewRequestWithContext(f.Context(), "GET", "http://"+f.address+"/v1/events"+query, nil)
	if err != nil {
		f.Fatal(err)
	}
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { response.Body.Close() })
	if got := response.Header.Get("Content-Type"); response.StatusCode != 200 || got != contentEvents {
		f.Fatalf("subscribe: got %d %s, want 200 %s", response.StatusCode, got, contentEvents)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	return &subscription{t: f, response: response, lines: lines}
}

// next reads the next event.
func (s *subscription) next() (e event) {
	s.t.Helper()
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e
			}
		}
	}
	s.t.Fatalf("the stream ended: %v", s.lines.Err())
	return e
}

// until reads events of a name until one is as wanted.
func until[T any](s *subscription, name string, wanted func(T) bool) (T, event) {
	s.t.Helper()
	for {
		e := s.next()
		if e.name != name {
			continue
		}
		var data T
		if err := json.Unmarshal([]byte(e.data), &data); err != nil {
			s.t.Fatalf("event %s: %v in %s", name, err, e.data)
		}
		if wanted(data) {
			return data, e
		}
	}
}

// A subscriber first gets the past, then each second the present state. Changes show in the frames, with the settings
// of values.
//
//quern:overlapping
func TestEventsTellWhatHappens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.subscribe("", "")
	f.insert(`{"meta":{"company":"acme"},"chunks":{"count":10,"prefix":"x"}}`)
	f.do("PUT", "/v1/queues/default/meta-keys/company/values/acme", `{"limit":2}`, 201, nil)
	f.reserve(`{"max":5}`)
	stats, _ := until(s, api.EventStats, func(f api.StatsFrame) bool { return f.Stats.Reserved == 2 })
	if stats.Queue != "default" || stats.Stats.Ready != 8 {
		t.Errorf("stats: got %+v, want 8 ready in default", stats)
	}
	keys, _ := until(s, api.EventKeys, func(f api.KeysFrame) bool {
		return len(f.Keys) == 1 && f.Keys[0].Top[0].InFlight == 2
	})
	if k := keys.Keys[0]; k.Key != "company" || !k.Whole || !k.Top[0].Saturated || k.Top[0].Limit == nil || *k.Top[0].Limit != 2 {
		t.Errorf("keys: got %+v, want acme at its limit of 2", k)
	}
	var strips api.KeySeries
	f.do("GET", "/v1/queues/default/meta-keys/company/timeseries", "", 200, &strips)
	if len(strips.Values) != 1 || len(strips.Values[0].InFlight) != engine.HeatCells || strips.Values[0].InFlight[engine.HeatCells-1] != 2 {
		t.Errorf("strips: got %+v, want one that ends in 2", strips)
	}
}

// A subscriber that comes back with the id of its last event gets the points after it and no others. An id of another
// run is as good as none.
//
//quern:overlapping
func TestEventsResume(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.subscribe("?topics=stats", "")
	all := func(api.Series) bool { return true }
	any := func(api.StatsFrame) bool { return true }
	until(s, api.EventStats, any)
	had, first := until(s, api.EventStats, any)
	// Frames that come close together, as on a busy machine, are one point. A second after the first there is another one.
	until(s, api.EventStats, func(f api.StatsFrame) bool { return f.At.Sub(had.At.Time) >= time.Second })
	s.response.Body.Close()
	for id, fresh := range map[string]bool{first.id: false, "other-1-1": true, "": true, first.id + "x-": true, "-": true} {
		series, again := until(f.subscribe("?topics=stats", id), api.EventSeries, all)
		before := 0
		for _, at := range series.At {
			if at <= had.At.UnixMilli() {
				before++
			}
		}
		if (before > 0) != fresh || before == len(series.At) || again.id == "" {
			t.Errorf("after %q: %d of %d points are up to the one it had; want some: %t, and later ones", id, before, len(series.At), fresh)
		}
	}
}

// All subscribers get the same bytes. A subscriber that is too slow hears of it, and gets the newest.
//
//quern:overlapping
func TestEventsAreShared(t *testing.T) {
	t.Parallel()
	s := bareServer(t)
	watched := watching{s.engine, s.streams, &events{run: "run"}, nil}
	frame := &engine.Frame{Number: 9, At: 1_700_000_000_000}
	one, err := watched.events.encode("default", frame)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := watched.events.encode("default", frame); err != nil || two != one {
		t.Errorf("the second subscriber of a frame: %p, %v; want the same bytes %p", two, err, one)
	}
	if next, err := watched.events.encode("default", &engine.Frame{Number: 10, At: 1_700_000_001_000}); err != nil || next == one {
		t.Errorf("the next frame: %p, %v; want other bytes than %p", next, err, one)
	}
	for last, want := range map[uint64]string{0: "", 8: "", 5: `data: {"queue":"default","frames":3}`} {
		w := httptest.NewRecorder()
		slow := newStream(watched, s.echo.NewContext(httptest.NewRequest("GET", "/", nil), w), eventsRequest{queues: []string{"default"}, stats: true, last: last})
		if err := slow.frame(slow.queues[0], frame); err != nil {
			t.Fatal(err)
		}
		got := w.Body.String()
		if strings.Contains(got, "event: skipped") != (want != "") || !strings.Contains(got, want) || !strings.HasSuffix(got, string(one.stats)) {
			t.Errorf("after frame %d: got %s, want %q and then the frame", last, got, want)
		}
	}
}

// One stream follows several queues: each event names its queue, a queue that is missing or deleted is closed, and the others continue. It
// ends with the last.
//
//quern:overlapping
func TestEventsOfSeveralQueues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/a", "{}", 201, nil)
	f.do("PUT", "/v1/queues/b", "{}", 201, nil)
	f.do("POST", "/v1/queues/b/submissions", `{"chunks":{"count":7,"prefix":"x"}}`, 201, nil)
	until(f.subscribe("?topics=stats&queue=b", ""), api.EventStats, func(f api.StatsFrame) bool { return f.Stats.Ready == 7 })
	s := f.subscribe("?queue=a&queue=nope&queue=b&queue=a&topics=stats,keys,consumers,schedules", "")
	heard := map[string]map[string]bool{}
	for len(heard["a"]) < 5 || len(heard["b"]) < 5 || len(heard["nope"]) < 1 {
		e := s.next()
		var data struct{ Queue, Code, Detail string }
		if err := json.Unmarshal([]byte(e.data), &data); err != nil {
			t.Fatalf("%s: %v in %s", e.name, err, e.data)
		}
		if heard[data.Queue] == nil {
			heard[data.Queue] = map[string]bool{}
			if first := e.name; (data.Queue == "nope") != (first == api.EventClosed) || data.Queue != "nope" && first != api.EventSeries {
				t.Errorf("the first of %s is %s, want its series, or that it is closed", data.Queue, first)
			}
		}
		heard[data.Queue][e.name] = true
		if data.Queue == "nope" && (data.Code != "unknown_queue" || !strings.Contains(data.Detail, `no queue "nope"`)) {
			t.Errorf("closed: got %s, want why", e.data)
		}
	}
	if len(heard) != 3 || heard["a"][api.EventClosed] || heard["b"][api.EventClosed] {
		t.Errorf("heard %v, want a, b and nope, of which nope alone is closed", heard)
	}
	var made api.Page[api.Submission]
	f.do("GET", "/v1/queues/b/submissions", "", 200, &made)
	f.do("POST", "/v1/submissions/"+made.Items[0].ID+"/cancel", "", 200, nil)
	f.do("DELETE", "/v1/queues/b", "", 204, nil)
	until(s, api.EventClosed, func(c api.Closed) bool { return c.Queue == "b" })
	for range 6 {
		if e := s.next(); !strings.HasPrefix(e.data, `{"queue":"a"`) {
			t.Errorf("with b gone: got %s %s, want a", e.name, e.data)
		}
	}
	f.do("DELETE", "/v1/queues/a", "", 204, nil)
	until(s, api.EventClosed, func(c api.Closed) bool { return c.Queue == "a" })
	blank := s.lines.Scan()
	if blank && s.lines.Scan() {
		t.Errorf("without a queue: got %s, want the end", s.lines.Text())
	}
}

// The stream of several queues begins again whatever the last event was: an id is a place in the stream of one queue.
//
//quern:overlapping
func TestEventsOfSeveralQueuesResume(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/a", "{}", 201, nil)
	const query = "?topics=stats&queue=a&queue=default"
	s := f.subscribe(query, "")
	first, _ := until(s, api.EventStats, func(f api.StatsFrame) bool { return f.Queue == "a" })
	_, last := until(s, api.EventStats, func(next api.StatsFrame) bool { return next.At.After(first.At.Time) })
	again := f.subscribe(query, last.id)
	for _, name := range []string{"a", "default"} {
		series, _ := until(again, api.EventSeries, func(api.Series) bool { return true })
		if series.Queue != name || series.At[0] > first.At.UnixMilli() {
			t.Errorf("after %s: got %s from %d on, want %s from %d or before", last.id, series.Queue, series.At[0], name, first.At.UnixMilli())
		}
	}
}

// A wrong request is refused before a stream begins, and so is one stream too many.
func TestEventsRefuse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	many := make([]string, queue.MaxQueues+1)
	for i := range many {
		many[i] = fmt.Sprint("q", i)
	}
	for path, code := range map[string]string{
		"?topics=stats,nope": "invalid", "?topics=": "invalid", "?every=1": "invalid", "?queue=nope": "unknown_queue", "?queue=": "unknown_queue",
		"?queue=a&queue=b": "unknown_queue", "?queue=default,nope": "unknown_queue",
		"?queue=" + strings.Join(many, "&queue="): "invalid",
	} {
		if got := f.send(call{method: "GET", path: "/v1/events" + path}).problem(t); got.Code != code {
			t.Errorf("%s: got %s, want %s", path, got.Code, code)
		}
	}
	for range maxSubscribers {
		if !f.server.streams.enter("") {
			t.Fatal("a place is missing")
		}
	}
	if got := f.send(call{method: "GET", path: "/v1/events"}).problem(t); got.Code != string(queue.CodeOverloaded) {
		t.Errorf("one too many: got %s, want %s", got.Code, queue.CodeOverloaded)
	}
	for range maxSubscribers {
		f.server.streams.leave("")
	}
	f.subscribe("", "").next()
}

// The points of a queue are columns of one length with rates between neighbours; `after` cuts them off.
func TestSeries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.subscribe("?topics=stats", "")
	f.insert(`{"chunks":{"count":1000,"prefix":"x"}}`)
	until(s, api.EventStats, func(f api.StatsFrame) bool { return f.Stats.Ready == 1000 })
	var series api.Series
	f.do("GET", "/v1/queues/default/timeseries", "", 200, &series)
	n := len(series.At)
	if n == 0 || len(series.Ready) != n || len(series.Waiting) != n || len(series.Reserved) != n || len(series.Dead) != n || len(series.InsertedRate) != n || len(series.ReservedRate) != n || len(series.DoneRate) != n || len(series.FailedRate) != n {
		t.Fatalf("columns differ in length: %+v", series)
	}
	if series.Ready[n-1] != 1000 {
		t.Errorf("ready: got %v, want 1000 at the end", series.Ready)
	}
	after := api.Time{Time: queue.Time(series.At[n-1] - 1).Std()}.UTC().Format(api.TimeFormat)
	var tail api.Series
	f.do("GET", "/v1/queues/default/timeseries?after="+after, "", 200, &tail)
	if len(tail.At) == 0 || tail.At[0] != series.At[n-1] {
		t.Errorf("after %s: got %v, want from %d on", after, tail.At, series.At[n-1])
	}
	if got := f.send(call{method: "GET", path: "/v1/queues/default/timeseries?after=yesterday"}); got.status != 422 {
		t.Errorf("after=yesterday: got %d, want 422: %s", got.status, got.body)
	}
}

// Of many values a frame names the first and sums the others, however many there are.
func TestFrameOfManyValues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 300 {
		f.insert(fmt.Sprintf(`{"meta":{"company":%d},"chunks":{"count":2,"prefix":"x"}}`, i))
	}
	keys, _ := until(f.subscribe("?topics=keys", ""), api.EventKeys, func(f api.KeysFrame) bool { return len(f.Keys) == 1 && f.Keys[0].Values == 300 })
	k := keys.Keys[0]
	if len(k.Top) != engine.FrameValues || k.Rest.Values != 300-engine.FrameValues || k.Rest.Ready != 2*(300-engine.FrameValues) {
		t.Errorf("got %d values and %+v, want %d and the sum of the others", len(k.Top), k.Rest, engine.FrameValues)
	}
}
