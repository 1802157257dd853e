package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// scene is where the numbered behaviours are acted out: a real engine on disk behind real HTTP, seen from outside only. Its clock
// stands still until the test moves it, and advance returns when the server has done all that is due by then, so no test sleeps.
// Names of queues may be "" for the default one.
type scene struct{ *shop }

// newScene opens one on a Monday morning.
func newScene(t testing.TB) *scene { return newSceneAt(t, time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)) }

// newSceneAt opens one at a time of the test's choosing.
func newSceneAt(t testing.TB, at time.Time) *scene {
	t.Helper()
	return &scene{newShopAt(t, at)}
}

// advance puts the clock forward and waits until everything that is due is done and committed.
func (s *scene) advance(d time.Duration) {
	s.Helper()
	s.ahead.Add(int64(d))
	s.settle()
}

// settle waits until everything that is due now is done and committed.
func (s *scene) settle() {
	s.Helper()
	for _, e := range s.engines() {
		if err := e.CatchUp(s.Context()); err != nil {
			s.Fatalf("catching up at %s: %v", s.now(), err)
		}
		if s.crew != nil {
			if err := e.Nodes().CatchUp(); err != nil {
				s.Fatalf("following the catalogue: %v", err)
			}
		}
	}
}

// reopen closes the server, lets so much time pass, opens it again on the same data, and waits until it has caught up.
func (s *scene) reopen(down time.Duration) {
	s.Helper()
	s.stop()
	s.client.CloseIdleConnections()
	s.ahead.Add(int64(down))
	s.start()
	s.settle()
}

// killed is reopen after a kill -9.
func (s *scene) killed(down time.Duration) {
	s.Helper()
	s.ahead.Add(int64(down))
	s.kill()
	s.settle()
}

// queuePath is /v1/queues/{queue} with a path below it.
func queuePath(queue, below string) string {
	if queue == "" {
		queue = engine.DefaultQueue
	}
	return "/v1/queues/" + queue + below
}

// call sends a request, with body encoded as JSON unless it is nil or a string, which goes out as it is.
func (s *scene) call(method, path string, body any) answer {
	s.Helper()
	text, raw := body.(string)
	if body != nil && !raw {
		b, err := json.Marshal(body)
		if err != nil {
			s.Fatal(err)
		}
		text = string(b)
	}
	return send(s, s.client, s.address, call{method: method, path: path, body: text})
}

// do sends a request that must answer with this status, and decodes the answer unless into is nil.
func (s *scene) do(method, path string, body any, status int, into any) answer {
	s.Helper()
	got := s.call(method, path, body)
	if got.status != status {
		s.Fatalf("%s %s %v: got %d, want %d: %s", method, path, body, got.status, status, got.body)
	}
	if into != nil {
		got.decode(s, into)
	}
	return got
}

// refused sends a request that must be refused with this status, and returns the problem.
func (s *scene) refused(method, path string, body any, status int) api.Problem {
	s.Helper()
	return s.do(method, path, body, status, nil).problem(s)
}

// queue creates a queue or changes its settings. A setting that is nil gets its default.
func (s *scene) queue(name string, settings api.QueueSettingsInput) (got api.Queue) {
	s.Helper()
	answered := s.call("PUT", queuePath(name, ""), api.PutQueueRequest{Settings: settings})
	if answered.status != http.StatusOK && answered.status != http.StatusCreated {
		s.Fatalf("PUT queue %q: %d %s", name, answered.status, answered.body)
	}
	answered.decode(s, &got)
	return got
}

// insert makes a submission; see submission for a short way to write one.
func (s *scene) insert(queue string, n api.NewSubmission) (got api.Submission) {
	s.Helper()
	s.do("POST", queuePath(queue, "/submissions"), n, http.StatusCreated, &got)
	return got
}

// submission asks for one as it is now.
func (s *scene) submission(id string) (got api.Submission) {
	s.Helper()
	s.do("GET", "/v1/submissions/"+id, nil, http.StatusOK, &got)
	return got
}

// cancel cancels a submission.
func (s *scene) cancel(id string) (got api.Submission) {
	s.Helper()
	s.do("POST", "/v1/submissions/"+id+"/cancel", nil, http.StatusOK, &got)
	return got
}

// reserve asks once for chunks, for so long as the request says (see request for a short way to write one).
func (s *scene) reserve(queue string, r api.ReserveRequest) (got api.ReserveResponse) {
	s.Helper()
	s.do("POST", queuePath(queue, "/reservations"), r, http.StatusOK, &got)
	return got
}

// reserveNone asks for chunks where there must be none, and returns the reason.
func (s *scene) reserveNone(queue, strategy string) string {
	s.Helper()
	got := s.reserve(queue, request(strategy, 1000))
	if len(got.Reservations) != 0 {
		s.Fatalf("%s gave %d chunks, the first %s; want none", strategy, len(got.Reservations), chunk(&got.Reservations[0]))
	}
	return *got.Reason
}

// reserveAll asks until there is nothing left.
func (s *scene) reserveAll(queue, strategy string) (got []api.Reservation) {
	s.Helper()
	for {
		answer := s.reserve(queue, request(strategy, 1000))
		if len(answer.Reservations) == 0 {
			return got
		}
		got = append(got, answer.Reservations...)
	}
}

// reserving sends a request that waits up to a minute for its first chunk, and returns once the server lets it wait. The answer
// arrives on the channel, which is closed without one when ctx ends before.
func (s *scene) reserving(ctx context.Context, queue string, r api.ReserveRequest) <-chan api.ReserveResponse {
	s.Helper()
	before := s.statsOf(queue).ConsumersWaiting
	r.WaitMS = time.Minute.Milliseconds()
	answers := make(chan api.ReserveResponse, 1)
	go func() {
		defer close(answers)
		var got api.ReserveResponse
		if err := s.ask(ctx, "POST", queuePath(queue, "/reservations"), r, &got); err == nil {
			answers <- got
		} else if ctx.Err() == nil {
			s.Errorf("waiting for chunks: %v", err)
		}
	}()
	for s.statsOf(queue).ConsumersWaiting <= before {
		select {
		case <-s.Context().Done():
			s.Fatal("the test ended before the consumer waited")
		case got, is := <-answers:
			s.Fatalf("the consumer did not wait: %+v (%v)", got, is)
		default: // the test waits by the requests of this loop
		}
	}
	return answers
}

// results sends complete, fail, extend or release with items of the test's own making.
func (s *scene) results(queue, verb string, request any) []api.Result {
	s.Helper()
	var got api.ResultsResponse
	s.do("POST", queuePath(queue, "/reservations/"+verb), request, http.StatusOK, &got)
	return got.Results
}

// completing, failing, extending and releasing finish chunks in one call and return the statuses in order.
func (s *scene) completing(queue string, list ...api.Reservation) []string {
	s.Helper()
	body := api.CompleteRequest{}
	for i := range list {
		body.Items = append(body.Items, api.CompleteItem{Token: list[i].Token})
	}
	return statuses(s.results(queue, "complete", body))
}

// failing says why, and whether for good; see results for retry_after_ms.
func (s *scene) failing(queue, why string, fatal bool, list ...api.Reservation) []string {
	s.Helper()
	body := api.FailRequest{}
	for i := range list {
		body.Items = append(body.Items, api.FailItem{Token: list[i].Token, Error: why, Fatal: fatal})
	}
	return statuses(s.results(queue, "fail", body))
}

func (s *scene) extending(queue string, timeout time.Duration, list ...api.Reservation) []string {
	s.Helper()
	body := api.ExtendRequest{}
	for i := range list {
		body.Items = append(body.Items, api.ExtendItem{Token: list[i].Token, TimeoutMS: timeout.Milliseconds()})
	}
	return statuses(s.results(queue, "extend", body))
}

func (s *scene) releasing(queue string, list ...api.Reservation) []string {
	s.Helper()
	body := api.ReleaseRequest{}
	for i := range list {
		body.Items = append(body.Items, api.ReleaseItem{Token: list[i].Token})
	}
	return statuses(s.results(queue, "release", body))
}

func statuses(list []api.Result) (got []string) {
	for i := range list {
		got = append(got, list[i].Status)
	}
	return got
}

// wantStatuses fails unless all of n results are this one.
func (s *scene) wantStatuses(got []string, n int, want string) {
	s.Helper()
	if len(got) != n || strings.Count(strings.Join(got, " ")+" ", want+" ") != n {
		s.Fatalf("results: got %v, want %d of %q", got, n, want)
	}
}

// statsOf are a queue's numbers.
func (s *scene) statsOf(queue string) (got api.Stats) {
	s.Helper()
	s.do("GET", queuePath(queue, "/stats"), nil, http.StatusOK, &got)
	return got
}

// wantCounts compares the chunks of a queue's open submissions in each state: "ready 3, waiting 1", in this order and
// without zeros, of ready, waiting, reserved, paused, blocked, done, skipped, dead.
func (s *scene) wantCounts(queue, want string) {
	s.Helper()
	got := s.statsOf(queue)
	var parts []string
	for _, c := range []struct {
		name string
		n    uint64
	}{
		{"ready", got.Ready}, {"waiting", got.Waiting}, {"reserved", got.Reserved}, {"paused", got.Paused}, {"blocked", got.Blocked},
		{"done", got.Done}, {"skipped", got.Skipped}, {"dead", got.Dead},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", c.name, c.n))
		}
	}
	if text := strings.Join(parts, ", "); text != want {
		s.Errorf("counts of queue %q: got %q, want %q", queue, text, want)
	}
}

// The harness itself: the clock stands still until advance moves it. All that is due happens before advance returns,
// and nothing happens while the server is down.
//
//quern:overlapping
func TestSceneHasItsOwnClock(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("own", api.QueueSettingsInput{ExpiryBackoff: &api.Backoff{Factor: 1}})
	n := submission(3, "t", "a")
	late := submission(2, "t", "b")
	late.RunAt = api.At(s.now().Add(time.Hour))
	s.insert("own", n)
	s.insert("own", late)
	s.wantCounts("own", "ready 3, waiting 2")
	r := request("OldestFirst", 10)
	r.TimeoutMS = time.Minute.Milliseconds()
	held := s.reserve("own", r).Reservations
	if len(held) != 3 {
		t.Fatalf("got %d chunks, want 3", len(held))
	}
	if got, want := held[0].Deadline.Time, s.now().Add(time.Minute); !got.Equal(want) {
		t.Errorf("deadline: got %s, want %s", got, want)
	}
	s.wantStatuses(s.completing("own", held[0]), 1, api.StatusOK)
	s.wantStatuses(s.releasing("own", held[1]), 1, api.StatusOK)
	s.advance(59*time.Second + 999*time.Millisecond)
	s.wantCounts("own", "ready 1, waiting 2, reserved 1, done 1")
	s.advance(time.Millisecond)
	s.wantCounts("own", "ready 2, waiting 2, done 1")
	waiting := s.reserving(t.Context(), "own", request(`SelectOnly("t", "b", Random)`, 5))
	s.advance(time.Hour)
	if got := (<-waiting).Reservations; len(got) != 2 {
		t.Errorf("the consumer that waited has %d chunks, want 2", len(got))
	}
	s.killed(time.Hour)
	s.wantCounts("own", "ready 4, done 1")
	if got, want := s.now(), time.Date(2026, 1, 5, 10, 1, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("clock: got %s, want %s", got, want)
	}
	p := s.refused("GET", queuePath("none", "/stats"), nil, http.StatusNotFound)
	if p.Code != "unknown_queue" {
		t.Errorf("code: got %q, want unknown_queue", p.Code)
	}
}
