package web

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// deadLetters makes a queue whose chunks are dead letters after so many attempts, and one to forward them to.
func (s *scene) deadLetters(attempts uint16, to string) {
	s.Helper()
	if to != "" {
		s.queue(to, api.QueueSettingsInput{})
	}
	s.queue("work", api.QueueSettingsInput{
		OnExhausted: new("dead_letter"), MaxAttempts: new(attempts), MaxExpiries: new(uint8(250)), DeadLetterQueue: new(to), ExpiryBackoff: &api.Backoff{Factor: 1},
	})
}

// dying inserts a submission of so many chunks and lets each of them fail for good.
func (s *scene) dying(n int, why string) api.Submission {
	s.Helper()
	sub := s.insert("work", submission(uint32(n), "customer", "a"))
	got := s.reserve("work", request("NewestFirst", n)).Reservations
	s.wantStatuses(s.failing("work", why, true, got...), n, api.StatusOK)
	return s.submission(sub.ID)
}

// copies are the submissions of a queue by the chunks that they were forwarded from.
func (s *scene) copies(queue string) map[string]int {
	s.Helper()
	var page api.Page[api.Submission]
	s.do("GET", queuePath(queue, "/submissions?limit=1000"), nil, http.StatusOK, &page)
	got := map[string]int{}
	for _, sub := range page.Items {
		if o := sub.ForwardedFrom; o != nil {
			got[fmt.Sprintf("%s/%s/%d", o.Queue, o.Submission, o.Index)]++
		}
	}
	return got
}

// wantCopies: each chunk of these submissions of the queue "work" is in another queue, once, and nothing else is.
func (s *scene) wantCopies(queue string, subs ...api.Submission) {
	s.Helper()
	got, want := s.copies(queue), 0
	for _, sub := range subs {
		for i := range sub.Chunks {
			want++
			if n := got[fmt.Sprintf("work/%s/%d", sub.ID, i)]; n != 1 {
				s.Errorf("queue %q has %d copies of chunk %s/%d, want 1", queue, n, sub.ID, i)
			}
		}
	}
	if len(got) != want {
		s.Errorf("queue %q has copies of %d chunks, want %d: %v", queue, len(got), want, got)
	}
}

// 20. Given max_attempts 2 and two expiries, then the item is DEAD after the second, once, with reason and counts.
func TestBehaviour020DeadAfterTheSecondExpiry(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(2, "")
	sub := s.insert("work", submission(1, "customer", "a"))
	for range 2 {
		r := request("Random", 1)
		r.TimeoutMS = time.Minute.Milliseconds()
		if got := s.reserve("work", r).Reservations; len(got) != 1 {
			t.Fatalf("got %d chunks, want 1", len(got))
		}
		s.advance(time.Minute)
	}
	if got := s.submission(sub.ID); got.Dead != 1 || got.State != api.StateCompletedWithDead {
		t.Errorf("submission: got %+v, want one dead chunk", got)
	}
	s.reserveNone("work", "Random")
	var d api.DeadLetter
	s.do("GET", queuePath("work", "/dead-letters/"+sub.ID+"/0"), nil, http.StatusOK, &d)
	if d.Attempts != 2 || d.Expiries != 2 || d.Error == "" || len(d.History) != 2 || !d.History[1].Expired {
		t.Errorf("dead letter: got %+v, want 2 attempts, 2 expiries, the reason and both tries", d)
	}
	if n := s.statsOf("work").DeadLetters; n != 1 {
		t.Errorf("dead letters: got %d, want 1", n)
	}
}

// 24. Given fail(fatal), then DEAD at once with the consumer's message.
func TestBehaviour024FatalIsDeadAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(10, "")
	sub := s.dying(1, "the picture is no picture")
	var d api.DeadLetter
	s.do("GET", queuePath("work", "/dead-letters/"+sub.ID+"/0"), nil, http.StatusOK, &d)
	if d.Error != "the picture is no picture" || d.Attempts != 1 {
		t.Errorf("dead letter: got %+v, want the message and 1 attempt", d)
	}
}

// 25. Given no dead letter policy (skip), then the item is dropped, counted and logged.
func TestBehaviour025SkipCountsWhatIsDropped(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("work", api.QueueSettingsInput{OnExhausted: new("skip")})
	sub := s.dying(2, "no use")
	if sub.State != api.StateCompleted || sub.Skipped != 2 || sub.Dead != 0 {
		t.Errorf("submission: got %+v, want completed with 2 skipped", sub)
	}
	var chunk api.Chunk
	s.do("GET", "/v1/submissions/"+sub.ID+"/chunks/1", nil, http.StatusOK, &chunk)
	if chunk.State != "skipped" || chunk.Error != "no use" || chunk.Attempts != 1 {
		t.Errorf("chunk: got %+v, want it skipped with its error", chunk)
	}
	if st := s.statsOf("work"); st.DeadLetters != 0 || st.FailedTotal != 2 {
		t.Errorf("stats: got %+v, want no dead letters and 2 failed", st)
	}
}

// 26. Given a crash after dead-letter insert before source delete (forwarding), then after restart exactly one dead copy exists. Here the
// server is closed in the middle and opened again, many times; TestForwardKillNine kills the real binary, and
// TestForwardAcrossCrashes has a crash at each step.
func TestBehaviour026OneCopyAcrossRestarts(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "dead")
	var all []api.Submission
	for range 5 {
		all = append(all, s.dying(7, "no"))
		s.reopen(0)
	}
	s.wantCopies("dead", all...)
	if st := s.statsOf("work"); st.Outgoing != 0 || st.DeadLetters != 0 {
		t.Errorf("stats: got %+v, want nothing on its way and no dead letters", st)
	}
}

// 27. Given a consumer waiting on the dead queue, when an item is forwarded there, then it is woken at once.
//
//quern:overlapping
func TestBehaviour027ForwardWakesWhoWaits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "dead")
	waiting := s.reserving(t.Context(), "dead", request("Random", 5))
	sub := s.dying(1, "no luck")
	got := (<-waiting).Reservations
	if len(got) != 1 {
		t.Fatalf("the consumer that waited has %d chunks, want 1", len(got))
	}
	if got[0].Meta["customer"] != api.Text("a") {
		t.Errorf("meta of the forwarded chunk: got %v, want that of its submission", got[0].Meta)
	}
	from := s.submission(got[0].Submission).ForwardedFrom
	if from == nil || from.Queue != "work" || from.Submission != sub.ID || from.Attempts != 1 || from.Error != "no luck" || from.DiedAt.IsZero() {
		t.Errorf("forwarded from: got %+v, want chunk 0 of %s after 1 try", from, sub.ID)
	}
	if sub.State != api.StateCompleted || sub.Skipped != 1 || sub.Forwarded != 1 {
		t.Errorf("its submission: got %+v, want completed with 1 skipped, forwarded", sub)
	}
	var chunk api.Chunk
	s.do("GET", "/v1/submissions/"+sub.ID+"/chunks/0", nil, http.StatusOK, &chunk)
	if chunk.State != "forwarded" || chunk.ForwardedTo != "dead" || chunk.Error != "no luck" {
		t.Errorf("chunk: got %+v, want it forwarded to dead", chunk)
	}
}

// 31. Given a dead queue added after creation, then later failures go there; changed: new target; removed: policy applies.
func TestBehaviour031DeadQueueChangesAtRunTime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("one", api.QueueSettingsInput{})
	s.queue("two", api.QueueSettingsInput{})
	s.deadLetters(1, "")
	change := func(to string) {
		s.do("PATCH", queuePath("work", ""), api.ChangeQueueRequest{Settings: api.QueueSettingsInput{DeadLetterQueue: &to}}, http.StatusOK, nil)
	}
	before := s.dying(2, "before")
	held := s.insert("work", submission(3, "customer", "b"))
	inFlight := s.reserve("work", request(`SelectOnly("customer", "b", Random)`, 3)).Reservations
	change("one")
	s.wantStatuses(s.failing("work", "was in flight", true, inFlight...), 3, api.StatusOK)
	first := s.dying(2, "first")
	change("two")
	second := s.dying(4, "second")
	change("")
	last := s.dying(2, "last")
	s.settle()
	s.wantCopies("one", held, first)
	s.wantCopies("two", second)
	if before.Dead != 2 || last.Dead != 2 || s.statsOf("work").DeadLetters != 4 {
		t.Errorf("without a dead queue: got %d and %d dead chunks, want 2 and 2", before.Dead, last.Dead)
	}
}

// 32. Given a dead queue that does not exist, is itself, or has its own dead queue, then configuration is refused.
func TestBehaviour032DeadQueuesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "dead")
	for _, c := range []struct{ queue, to string }{{"work", "nowhere"}, {"work", "work"}, {"other", "work"}, {"new", "nowhere"}, {"dead", "other"}} {
		if c.queue == "other" {
			s.queue("other", api.QueueSettingsInput{})
		}
		p := s.refused("PUT", queuePath(c.queue, ""), api.PutQueueRequest{Settings: api.QueueSettingsInput{DeadLetterQueue: &c.to}}, http.StatusUnprocessableEntity)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/settings/dead_letter_queue" {
			t.Errorf("%s to %s: got %+v, want it refused for its dead_letter_queue", c.queue, c.to, p)
		}
	}
	s.refused("GET", queuePath("new", ""), nil, http.StatusNotFound)
	s.refused("DELETE", queuePath("dead", ""), nil, http.StatusConflict)
	sub := s.dying(1, "no")
	s.settle()
	s.wantCopies("dead", sub)
}

// 33. Given an update that omits max_attempts, then it is unchanged. That is PATCH; PUT replaces all settings, and says so.
func TestBehaviour033ChangeLeavesWhatItOmits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(7, "")
	s.do("PATCH", queuePath("work", ""), api.ChangeQueueRequest{Settings: api.QueueSettingsInput{RetentionSeconds: new(int64(60))}}, http.StatusOK, nil)
	var got api.Queue
	s.do("GET", queuePath("work", ""), nil, http.StatusOK, &got)
	if got.Settings.MaxAttempts != 7 || got.Settings.OnExhausted != "dead_letter" || got.Settings.RetentionSeconds != 60 {
		t.Errorf("settings: got %+v, want max_attempts 7 and dead_letter as before, and a retention of 60 s", got.Settings)
	}
	s.refused("PATCH", queuePath("nowhere", ""), api.ChangeQueueRequest{}, http.StatusNotFound)
}
