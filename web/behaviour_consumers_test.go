package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// attachment is the stream of an attached consumer, read event by event.
type attachment struct {
	subscription
	drop context.CancelFunc // ends it as a crash would
}

func consumerPath(queue, consumer, below string) string {
	return queuePath(queue, "/consumers/"+url.PathEscape(consumer)+below)
}

// attach opens a stream and reads its hello.
func (s *scene) attach(queue, consumer string) (*attachment, api.Hello) {
	s.Helper()
	ctx, drop := context.WithCancel(context.Background())
	s.Cleanup(drop)
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.address+consumerPath(queue, consumer, "/attach"), nil)
	if err != nil {
		s.Fatal(err)
	}
	response, err := s.client.Transport.RoundTrip(request)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { response.Body.Close() })
	if got := response.Header.Get("Content-Type"); response.StatusCode != 200 || got != contentEvents {
		s.Fatalf("attach: got %d %s, want 200 %s", response.StatusCode, got, contentEvents)
	}
	a := &attachment{subscription{t: s, response: response, lines: bufio.NewScanner(response.Body)}, drop}
	return a, received[api.Hello](a, api.EventHello)
}

// received reads the next event, which must be this one.
func received[T any](a *attachment, name string) (data T) {
	a.t.Helper()
	e := a.next()
	if e.name != name {
		a.t.Fatalf("event: got %s %s, want %s", e.name, e.data, name)
	}
	if err := json.Unmarshal([]byte(e.data), &data); err != nil {
		a.t.Fatalf("event %s: %v in %s", name, err, e.data)
	}
	return data
}

// ends waits for the end of the stream, at which there must be no further event.
func (a *attachment) ends() {
	a.t.Helper()
	for a.lines.Scan() {
		if text := a.lines.Text(); text != "" && text[0] != ':' {
			a.t.Fatalf("the stream goes on: %s", text)
		}
	}
}

// crash ends the stream, and waits until the server has noticed.
func (s *scene) crash(queue, consumer string, a *attachment) {
	s.Helper()
	a.drop()
	for s.consumer(queue, consumer).State == api.ConsumerAttached {
	}
}

func (s *scene) consumer(queue, name string) (got api.ConsumerDetail) {
	s.Helper()
	s.do("GET", consumerPath(queue, name, ""), nil, http.StatusOK, &got)
	return got
}

// reserveAs takes chunks in a consumer's name, for an hour.
func (s *scene) reserveAs(queue, consumer string, most int) []api.Reservation {
	s.Helper()
	r := request("OldestFirst", most)
	r.Consumer, r.TimeoutMS = consumer, time.Hour.Milliseconds()
	got := s.reserve(queue, r).Reservations
	if len(got) != most {
		s.Fatalf("%s reserves: got %d chunks, want %d", consumer, len(got), most)
	}
	return got
}

// atOnce are settings by which nothing waits for a back-off, and chunks that are given up become dead letters.
func atOnce() api.QueueSettingsInput {
	return api.QueueSettingsInput{ExpiryBackoff: &api.Backoff{Factor: 1}, RetryBackoff: &api.Backoff{Factor: 1}, OnExhausted: new("dead_letter")}
}

// 68: the chunks of a killed consumer run again after its heartbeat is lost. That counts as an attempt, and not as an
// expiry.
func TestBehaviour068KilledConsumersWorkRunsAgain(t *testing.T) {
	t.Parallel()
	t.Run("heartbeat lost", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.queue("q", atOnce())
		sub := s.insert("q", submission(3))
		a, hello := s.attach("q", "host-1")
		if hello.ConsumerGraceMS != 30_000 || hello.Epoch == 0 || hello.HeartbeatMS <= 0 || hello.Consumer != "host-1" {
			t.Errorf("hello: got %+v, want a grace of 30 s, an epoch and a heartbeat", hello)
		}
		held := s.reserveAs("q", "host-1", 2)
		s.crash("q", "host-1", a)
		s.advance(29 * time.Second)
		s.wantCounts("q", "ready 1, reserved 2")
		if got := s.consumer("q", "host-1"); got.State != api.ConsumerAway || !got.LostAt.Equal(s.now().Add(time.Second)) {
			t.Errorf("consumer: got %+v, want it away, and lost in a second", got)
		}
		s.advance(time.Second)
		s.wantCounts("q", "ready 3")
		if got := s.statsOf("q"); got.LostTotal != 2 || got.ExpiredTotal != 0 {
			t.Errorf("stats: got %d lost and %d expired, want 2 and 0", got.LostTotal, got.ExpiredTotal)
		}
		again := s.reserveAs("q", "host-2", 3)
		for _, r := range again {
			want := uint32(1)
			if slices.ContainsFunc(held, func(h api.Reservation) bool { return h.Index == r.Index }) {
				want = 2
			}
			if r.Attempt != want {
				t.Errorf("chunk %d is handed out for the attempt %d, want %d", r.Index, r.Attempt, want)
			}
		}
		s.wantStatuses(s.completing("q", held[0]), 1, api.StatusLost)
		s.wantStatuses(s.completing("q", again...), 3, api.StatusOK)
		if got := s.submission(sub.ID); got.State != "completed" {
			t.Errorf("submission: got %s, want completed", got.State)
		}
		s.refused("GET", consumerPath("q", "host-1", ""), nil, http.StatusNotFound)
	})
	t.Run("the reservation ends", func(t *testing.T) { // it never attached
		t.Parallel()
		s := newScene(t)
		s.queue("q", atOnce())
		s.insert("q", submission(1))
		s.reserveAs("q", "host-1", 1)
		s.advance(59 * time.Minute)
		s.wantCounts("q", "reserved 1")
		s.advance(time.Minute)
		if got := s.reserveAs("q", "host-2", 1); got[0].Attempt != 2 {
			t.Errorf("attempt: got %d, want 2", got[0].Attempt)
		}
	})
	t.Run("many spot instances", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		settings := atOnce()
		settings.OnExhausted = new("fail_submission")
		s.queue("q", settings)
		sub := s.insert("q", submission(1))
		for try := range 9 {
			a, _ := s.attach("q", "spot")
			if got := s.reserveAs("q", "spot", 1); got[0].Attempt != uint32(try+1) {
				t.Fatalf("attempt: got %d, want %d", got[0].Attempt, try+1)
			}
			s.crash("q", "spot", a)
			s.advance(30 * time.Second)
		}
		if got := s.submission(sub.ID); got.State != "open" || got.Ready != 1 {
			t.Fatalf("after 9 lost consumers: got %+v, want the chunk ready", got)
		}
		a, _ := s.attach("q", "spot")
		s.reserveAs("q", "spot", 1)
		s.crash("q", "spot", a)
		s.advance(30 * time.Second)
		if got := s.submission(sub.ID); got.State != "failed" {
			t.Errorf("after 10: got %s, want failed: a chunk that kills its consumers ends at max_attempts", got.State)
		}
	})
	t.Run("history", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		settings := atOnce()
		settings.MaxAttempts, settings.ConsumerGraceMS = new(uint16(2)), new(int64(5000))
		s.queue("q", settings)
		sub := s.insert("q", submission(1))
		for range 2 {
			a, _ := s.attach("q", "host-1")
			s.reserveAs("q", "host-1", 1)
			s.advance(7 * time.Second)
			s.crash("q", "host-1", a)
			s.advance(5 * time.Second)
		}
		var got api.DeadLetter
		s.do("GET", queuePath("q", "/dead-letters/"+sub.ID+"/0"), nil, http.StatusOK, &got)
		if got.Attempts != 2 || got.Expiries != 0 || len(got.History) != 2 {
			t.Fatalf("dead letter: got %+v, want 2 attempts, no expiry and their history", got)
		}
		for i, try := range got.History {
			if !try.Lost || try.Expired || try.Consumer != "host-1" || try.HeldMS != 12_000 {
				t.Errorf("try %d: got %+v, want it lost by host-1 after 12 s", i, try)
			}
		}
	})
}

// A consumer hears what concerns it. The cases show when its reservations are lost, and when they are not.
//
//quern:overlapping
func TestAttachedConsumers(t *testing.T) {
	t.Parallel()
	t.Run("it comes back in time", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.insert("", submission(1))
		a, _ := s.attach("", "host 1/ä")
		held := s.reserveAs("", "host 1/ä", 1)
		s.crash("", "host 1/ä", a)
		s.advance(29 * time.Second)
		if _, hello := s.attach("", "host 1/ä"); hello.Reserved != 1 {
			t.Errorf("hello: got %+v, want 1 reserved", hello)
		}
		s.advance(10 * time.Minute)
		s.wantCounts("", "reserved 1")
		s.wantStatuses(s.completing("", held...), 1, api.StatusOK)
	})
	t.Run("it is heard of otherwise", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.insert("", submission(2))
		a, _ := s.attach("", "host-1")
		held := s.reserveAs("", "host-1", 2)
		s.crash("", "host-1", a)
		s.advance(20 * time.Second)
		s.wantStatuses(s.extending("", time.Hour, held[0]), 1, api.StatusOK)
		s.advance(29 * time.Second)
		s.wantCounts("", "reserved 2")
		s.advance(time.Second)
		s.wantCounts("", "waiting 2")
	})
	t.Run("it leaves", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.insert("", submission(3))
		a, _ := s.attach("", "host-1")
		s.reserveAs("", "host-1", 2)
		var got api.Released
		s.do("POST", consumerPath("", "host-1", "/detach"), nil, http.StatusOK, &got)
		if got.Released != 2 {
			t.Errorf("released: got %d, want 2", got.Released)
		}
		a.ends()
		s.wantCounts("", "ready 3")
		if again := s.reserveAs("", "host-2", 3); again[0].Attempt != 1 || again[1].Attempt != 1 {
			t.Errorf("attempts: got %d and %d, want 1: a clean leave counts nothing", again[0].Attempt, again[1].Attempt)
		}
	})
	t.Run("its work is taken", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		first, second := s.insert("", submission(1)), s.insert("", submission(2))
		a, _ := s.attach("", "host-1")
		held := s.reserveAs("", "host-1", 2)
		s.cancel(first.ID)
		want := api.RevokedEvent{Items: []api.Revoked{{Token: held[0].Token, Reason: "submission_ended"}}}
		if got := received[api.RevokedEvent](a, api.EventRevoked); !slices.Equal(got.Items, want.Items) {
			t.Errorf("cancelled: got %+v, want %+v", got, want)
		}
		var released api.Released
		s.do("POST", consumerPath("", "host-1", "/release"), nil, http.StatusOK, &released)
		want.Items[0] = api.Revoked{Token: held[1].Token, Reason: "operator"}
		if got := received[api.RevokedEvent](a, api.EventRevoked); !slices.Equal(got.Items, want.Items) || released.Released != 1 {
			t.Errorf("released: got %+v and %d, want %+v and 1", got, released.Released, want)
		}
		again := s.reserveAs("", "host-1", 1)
		if again[0].Submission != second.ID || again[0].Attempt != 1 {
			t.Errorf("again: got %+v, want the same chunk with its first attempt", again[0])
		}
		s.advance(time.Hour)
		want.Items[0] = api.Revoked{Token: again[0].Token, Reason: "expired"}
		if got := received[api.RevokedEvent](a, api.EventRevoked); !slices.Equal(got.Items, want.Items) {
			t.Errorf("expired: got %+v, want %+v", got, want)
		}
		if got := s.statsOf(""); got.RevokedTotal != 3 || got.ConsumersAttached != 1 {
			t.Errorf("stats: got %d revoked and %d attached, want 3 and 1", got.RevokedTotal, got.ConsumersAttached)
		}
	})
	t.Run("the server restarts", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.insert("", submission(1))
		a, hello := s.attach("", "host-1")
		held := s.reserveAs("", "host-1", 1)
		s.reopen(time.Minute)
		a.ends()
		s.wantCounts("", "reserved 1")
		a, again := s.attach("", "host-1")
		if again.Epoch <= hello.Epoch || again.Reserved != 1 {
			t.Errorf("hello: got %+v, want a later epoch than %d, and the chunk reserved", again, hello.Epoch)
		}
		s.wantStatuses(s.extending("", time.Hour, held...), 1, api.StatusOK)
		s.killed(time.Minute)
		a.ends()
		s.wantCounts("", "ready 1") // and no try is counted
		if _, third := s.attach("", "host-1"); third.Epoch <= again.Epoch || third.Reserved != 0 {
			t.Errorf("hello after a kill: got %+v, want a later epoch than %d, and nothing reserved", third, again.Epoch)
		}
		s.wantStatuses(s.extending("", time.Hour, held...), 1, api.StatusOK)
		s.wantCounts("", "reserved 1")
	})
}

// Drain and quiet keep work from a consumer, also from one that waits for some; resume takes both back.
//
//quern:overlapping
func TestOrdersForConsumers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a, _ := s.attach("", "host-1")
	order := func(name string) (got api.Consumer) {
		t.Helper()
		s.do("POST", consumerPath("", "host-1", "/"+name), nil, http.StatusOK, &got)
		return got
	}
	mine := request("Random", 1)
	mine.Consumer = "host-1"
	for _, o := range []struct{ order, reason string }{{"drain", api.ReasonDraining}, {"quiet", api.ReasonQuiet}} {
		waiting := s.reserving(t.Context(), "", mine)
		if got := order(o.order); got.Draining != (o.order == "drain") || got.Quiet != (o.order == "quiet") {
			t.Errorf("%s: got %+v", o.order, got)
		}
		received[struct{}](a, o.order)
		if got := <-waiting; len(got.Reservations) != 0 || *got.Reason != o.reason {
			t.Errorf("%s: the waiting reserve got %+v, want none and %s", o.order, got, o.reason)
		}
		sub := s.insert("", submission(1))
		if got := s.reserve("", mine); len(got.Reservations) != 0 || *got.Reason != o.reason || got.RetryAfterMS == nil {
			t.Errorf("%s: a reserve got %+v, want none, %s and when to ask again", o.order, got, o.reason)
		}
		if got := s.reserveAs("", "host-2", 1); got[0].Submission != sub.ID {
			t.Errorf("another consumer got %+v, want the chunk", got)
		}
		if got := order("resume"); got.Draining || got.Quiet {
			t.Errorf("resume: got %+v", got)
		}
		received[struct{}](a, api.EventResume)
		s.insert("", submission(1))
		if got := s.reserve("", mine); len(got.Reservations) != 1 {
			t.Errorf("after resume: got %+v, want a chunk", got)
		}
	}
	order("drain")
	received[struct{}](a, api.EventDrain)
	s.do("POST", consumerPath("", "host-1", "/detach"), nil, http.StatusOK, nil)
	if got := s.reserve("", mine); len(got.Reservations) != 1 {
		t.Errorf("a consumer that left and comes back: got %+v, want one of the chunks that it gave back", got)
	}
}

// 47: a draining queue refuses inserts, lets its chunks be done, and says when it is empty.
func TestBehaviour047DrainingQueue(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("old", api.QueueSettingsInput{})
	s.insert("old", submission(2))
	s.queue("old", api.QueueSettingsInput{Draining: new(true)})
	if p := s.refused("POST", queuePath("old", "/submissions"), submission(1), http.StatusConflict); p.Code != "queue_draining" {
		t.Errorf("code: got %s, want queue_draining", p.Code)
	}
	if got := s.statsOf("old"); got.Draining != 1 || got.Empty != 0 {
		t.Errorf("stats: got draining %d and empty %d, want 1 and 0", got.Draining, got.Empty)
	}
	held := s.reserveAs("old", "w", 2)
	s.wantStatuses(s.completing("old", held[0]), 1, api.StatusOK)
	s.reopen(time.Minute)
	s.refused("POST", queuePath("old", "/submissions"), submission(1), http.StatusConflict)
	s.wantStatuses(s.completing("old", held[1]), 1, api.StatusOK)
	if got := s.statsOf("old"); got.Draining != 1 || got.Empty != 1 {
		t.Errorf("stats in the end: got draining %d and empty %d, want 1 and 1", got.Draining, got.Empty)
	}
	s.queue("old", api.QueueSettingsInput{})
	s.insert("old", submission(1))
}
