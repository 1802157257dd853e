package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// wantOne reserves one chunk and compares its attempt.
func (s *scene) wantOne(queue string, attempt uint32) api.Reservation {
	s.Helper()
	got := s.reserveAs(queue, "", 1)[0]
	if got.Attempt != attempt {
		s.Fatalf("chunk %s is handed out for the attempt %d, want %d", chunk(&got), got.Attempt, attempt)
	}
	return got
}

// 16: when a deadline passes the chunk is offered again with a try counted, and once a consumer holds it the old token can neither
// fail nor extend it.
func TestBehaviour016DeadlinePassed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", atOnce())
	s.insert("q", submission(1))
	old := s.wantOne("q", 1)
	s.advance(time.Hour)
	s.wantCounts("q", "ready 1")
	now := s.wantOne("q", 2)
	s.wantStatuses(s.failing("q", "late", false, old), 1, api.StatusLost)
	s.wantStatuses(s.extending("q", time.Hour, old), 1, api.StatusLost)
	s.wantStatuses(s.releasing("q", old), 1, api.StatusLost)
	s.wantCounts("q", "reserved 1")
	s.wantStatuses(s.completing("q", now), 1, api.StatusOK)
}

// 29: another reservation timeout is for new reservations; present deadlines stay.
func TestBehaviour029TimeoutChanged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	settings := atOnce()
	settings.ReservationTimeoutMS = new(int64(60_000))
	s.queue("q", settings)
	s.insert("q", submission(2))
	short := api.ReserveRequest{Max: 1}
	before := s.reserve("q", short).Reservations[0]
	settings.ReservationTimeoutMS = new(int64(3_600_000))
	s.queue("q", settings)
	after := s.reserve("q", short).Reservations[0]
	if got, want := after.Deadline.Sub(before.Deadline.Time), 59*time.Minute; got != want {
		t.Errorf("the new deadline is %s after the old one, want %s", got, want)
	}
	s.advance(time.Minute)
	s.wantCounts("q", "ready 1, reserved 1")
	s.advance(59 * time.Minute)
	s.wantCounts("q", "ready 2")
}

// 36, 37: a completion that comes too late counts as long as no other consumer holds the chunk; otherwise it is a conflict, and the
// holder is not disturbed.
func TestBehaviour036LateCompletion(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", atOnce())
	sub := s.insert("q", submission(2))
	held := s.reserveAs("q", "", 2)
	s.advance(time.Hour)
	s.wantStatuses(s.completing("q", held[0]), 1, api.StatusOK)
	t.Run("37", func(t *testing.T) {
		holder := s.wantOne("q", 2)
		s.wantStatuses(s.completing("q", held[1]), 1, api.StatusLost)
		s.wantCounts("q", "reserved 1, done 1")
		s.wantStatuses(s.completing("q", holder), 1, api.StatusOK)
		if got := s.submission(sub.ID); got.State != "completed" || got.Done != 2 {
			t.Errorf("submission: got %+v, want 2 of 2 done", got)
		}
	})
	t.Run("waiting", func(t *testing.T) { // 36, while the back-off runs
		s.queue("slow", api.QueueSettingsInput{ExpiryBackoff: &api.Backoff{BaseMS: 60_000, Factor: 1, CapMS: 60_000}})
		s.insert("slow", submission(1))
		late := s.wantOne("slow", 1)
		s.advance(time.Hour)
		s.wantCounts("slow", "waiting 1")
		s.wantStatuses(s.completing("slow", late), 1, api.StatusOK)
		s.wantCounts("slow", "")
	})
}

// 69: a consumer that goes on extending keeps its chunk to itself, however long the run.
func TestBehaviour069LongRunIsHeldByExtends(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{})
	s.insert("q", submission(1))
	r := request("Random", 1)
	r.TimeoutMS = 60_000
	held := s.reserve("q", r).Reservations[0]
	for range 120 {
		s.advance(30 * time.Second)
		s.wantStatuses(s.extending("q", time.Minute, held), 1, api.StatusOK)
		if reason := s.reserveNone("q", "Random"); reason != api.ReasonNothing {
			t.Fatalf("reason: got %s, want %s", reason, api.ReasonNothing)
		}
	}
	s.wantStatuses(s.completing("q", held), 1, api.StatusOK)
}

// 70: a reservation cannot be extended beyond the hard cap; then it expires.
func TestBehaviour070HardCap(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	settings := atOnce()
	settings.MaxReservationMS, settings.ReservationTimeoutMS = new(int64(600_000)), new(int64(60_000))
	s.queue("q", settings)
	s.insert("q", submission(1))
	held := s.reserve("q", api.ReserveRequest{Max: 1}).Reservations[0]
	limit := s.now().Add(10 * time.Minute)
	extend := func(verb string) api.Result {
		t.Helper()
		items := []api.ExtendItem{{Token: held.Token, TimeoutMS: 300_000}}
		if verb == "extend" {
			return s.results("q", "extend", api.ExtendRequest{Items: items})[0]
		}
		var got api.ExchangeResponse
		s.do("POST", queuePath("q", "/reservations/exchange"), api.ExchangeRequest{Extend: items}, http.StatusOK, &got)
		return got.Extend[0]
	}
	for n := range 5 {
		for _, verb := range []string{"extend", "exchange"} {
			want := s.now().Add(5 * time.Minute)
			if want.After(limit) {
				want = limit
			}
			if got := extend(verb); got.Status != api.StatusOK || !got.Deadline.Equal(want) {
				t.Fatalf("%s %d: got %+v, want the deadline %s", verb, n, got, want)
			}
		}
		if n < 4 {
			s.advance(2 * time.Minute)
		}
	}
	s.advance(limit.Sub(s.now()))
	s.wantCounts("q", "ready 1")
	next := s.reserve("q", api.ReserveRequest{Max: 1}).Reservations[0]
	if next.Attempt != 2 {
		t.Errorf("attempt after the cap: got %d, want 2", next.Attempt)
	}
	if got := extend("extend"); got.Status != api.StatusLost {
		t.Errorf("extend after the cap: got %+v, want lost", got)
	}
	s.wantStatuses(s.completing("q", next), 1, api.StatusOK)
}

// 72: however often a chunk is handed out and given back, its attempts do not change.
func TestBehaviour072HandingOutCountsNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(1))
	for range 50 {
		s.wantStatuses(s.releasing("", s.wantOne("", 1)), 1, api.StatusOK)
	}
	for range 10 {
		a, _ := s.attach("", "w")
		if got := s.reserveAs("", "w", 1); got[0].Attempt != 1 {
			t.Fatalf("attempt: got %d, want 1", got[0].Attempt)
		}
		s.do("POST", consumerPath("", "w", "/detach"), nil, http.StatusOK, nil)
		a.ends()
	}
	s.wantOne("", 1)
	s.killed(time.Second)
	s.wantOne("", 1)
}

// 95: of a batch that one consumer works through, each extend keeps its own chunk only, and chunks that were not begun
// can be given back without counting an attempt.
func TestBehaviour095BatchOfASequentialConsumer(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	settings := atOnce()
	settings.SuspectShare = new(1.0) // expired chunks come back beside fresh ones
	s.queue("q", settings)
	s.insert("q", submission(10))
	r := request("OldestFirst", 10)
	r.TimeoutMS = 60_000
	held := s.reserve("q", r).Reservations
	s.advance(50 * time.Second)
	s.wantStatuses(s.extending("q", time.Minute, held[0]), 1, api.StatusOK)
	s.wantStatuses(s.releasing("q", held[5:]...), 5, api.StatusOK)
	s.wantCounts("q", "ready 5, reserved 5")
	s.advance(10 * time.Second) // the deadline of all but the first
	s.wantCounts("q", "ready 9, reserved 1")
	for _, again := range s.reserveAs("q", "", 9) {
		want := uint32(1)
		if again.Index < 5 {
			want = 2
		}
		if again.Attempt != want {
			t.Errorf("chunk %d: got attempt %d, want %d", again.Index, again.Attempt, want)
		}
	}
	s.wantStatuses(s.completing("q", held[0]), 1, api.StatusOK)
}

// 96: a stale consumer cannot complete what another one holds now, in any call.
func TestBehaviour096StaleConsumer(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", atOnce())
	s.insert("q", submission(1))
	stale := s.wantOne("q", 1)
	s.advance(time.Hour)
	holder := s.wantOne("q", 2)
	var got api.ExchangeResponse
	s.do("POST", queuePath("q", "/reservations/exchange"), api.ExchangeRequest{Complete: []api.CompleteItem{{Token: stale.Token, Output: api.Bytes("stale")}}}, http.StatusOK, &got)
	if got.Complete[0].Status != api.StatusLost || got.Complete[0].Code != "reservation_lost" {
		t.Errorf("the stale one: got %+v, want lost", got.Complete[0])
	}
	s.wantStatuses(s.completingWith("q", holder.Token, "right"), 1, api.StatusOK)
	body := s.do("GET", "/v1/submissions/"+holder.Submission+"/outputs", nil, http.StatusOK, nil).body
	if want := "{\"index\":0,\"output\":{\"text\":\"right\"}}\n"; string(body) != want {
		t.Errorf("output: got %q, want %q", body, want)
	}
}

func (s *scene) completingWith(queue, token, output string) []string {
	s.Helper()
	return statuses(s.results(queue, "complete", api.CompleteRequest{Items: []api.CompleteItem{{Token: token, Output: api.Bytes(output)}}}))
}

// 44: a caller that waits when the server stops is answered, and acknowledged work is there after the next start.
//
//quern:overlapping
func TestBehaviour044Shutdown(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(3, "k", "other"))
	a := s.reserving(t.Context(), "", request(`SelectOnly("k", "mine", Random)`, 1))
	b := s.reserving(t.Context(), "", request(`SelectOnly("k", "mine", Random)`, 1))
	s.reopen(time.Second)
	for _, answer := range []<-chan api.ReserveResponse{a, b} {
		if got, answered := <-answer; !answered || len(got.Reservations) != 0 || got.RetryAfterMS == nil {
			t.Errorf("a waiting reserve: got %+v (%v), want an empty answer that asks to come back", got, answered)
		}
	}
	s.wantCounts("", "ready 3")
}

// The moment of the next try may be named, over all ways to fail, and holds across a restart (38).
func TestBehaviour038RetryAt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(3))
	held := s.reserveAs("", "", 3)
	at := api.At(s.now().Add(time.Hour))
	s.wantStatuses(statuses(s.results("", "fail", api.FailRequest{Items: []api.FailItem{{Token: held[0].Token, RetryAt: at}}})), 1, api.StatusOK)
	var got api.ExchangeResponse
	s.do("POST", queuePath("", "/reservations/exchange"), api.ExchangeRequest{Fail: []api.FailItem{
		{Token: held[1].Token, RetryAt: at}, {Token: held[2].Token, RetryAt: api.At(s.now().Add(-time.Hour))},
	}}, http.StatusOK, &got)
	s.wantStatuses(statuses(got.Fail), 2, api.StatusOK)
	s.wantCounts("", "ready 1, waiting 2")
	s.reopen(time.Hour - time.Millisecond)
	s.wantCounts("", "ready 1, waiting 2")
	s.advance(time.Millisecond)
	s.wantCounts("", "ready 3")
	again := s.wantOne("", 2)
	for _, wrong := range []struct {
		item    api.FailItem
		pointer string
	}{
		{api.FailItem{Token: again.Token, RetryAt: at, RetryAfterMS: new(int64(0))}, "/items/0/retry_at"},
		{api.FailItem{Token: again.Token, RetryAt: api.At(s.now().Add(31 * 24 * time.Hour))}, "/items/0/retry_at"},
		{api.FailItem{Token: again.Token, RetryAfterMS: new(int64(-1))}, "/items/0/retry_after_ms"},
	} {
		p := s.refused("POST", queuePath("", "/reservations/fail"), api.FailRequest{Items: []api.FailItem{wrong.item}}, http.StatusUnprocessableEntity)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != wrong.pointer {
			t.Errorf("%+v: got %+v, want %s", wrong.item, p.Errors, wrong.pointer)
		}
	}
	s.wantCounts("", "ready 2, reserved 1")
}
