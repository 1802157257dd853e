package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// bulk starts a bulk operation and lets it end.
func (s *scene) bulk(r api.BulkRequest) (got api.BulkOperation) {
	s.Helper()
	s.do("POST", "/v1/bulk-operations", r, http.StatusAccepted, &got)
	for got.State == api.BulkRunning {
		s.settle()
		s.do("GET", "/v1/bulk-operations/"+got.ID, nil, http.StatusOK, &got)
	}
	return got
}

// wantBulk compares an operation's end.
func (s *scene) wantBulk(got api.BulkOperation, done, unchanged, refused uint64) {
	s.Helper()
	if got.State != api.BulkCompleted || got.Matched != done+unchanged+refused || got.Done != done || got.Unchanged != unchanged || got.Refused != refused {
		s.Errorf("%s: got %+v, want it completed with %d done, %d unchanged, %d refused", got.Action, got, done, unchanged, refused)
	}
}

// 45. Given clear ready-only / waiting / destructive, then exactly those go; holders of destroyed items get 410 on
// complete. Quern clears by filter: it cancels the matching submissions with their chunks, and touches nothing else.
func TestBehaviour045ClearByFilter(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(3, "")
	a, b := s.insert("work", submission(3, "customer", "a")), s.insert("work", submission(3, "customer", "b"))
	held := s.reserve("work", request(`SelectOnly("customer", "a", Random)`, 1)).Reservations
	s.advance(time.Millisecond)
	s.wantBulk(s.bulk(api.BulkRequest{Queue: "work", Action: api.BulkCancel, Filter: api.BulkFilter{Meta: api.Meta{"customer": api.Text("a")}}, DryRun: true}), 1, 0, 0)
	s.wantCounts("work", "ready 5, reserved 1")
	s.wantBulk(s.bulk(api.BulkRequest{Queue: "work", Action: api.BulkCancel, Filter: api.BulkFilter{Meta: api.Meta{"customer": api.Text("a")}}}), 1, 0, 0)
	s.wantCounts("work", "ready 3")
	s.wantStatuses(s.completing("work", held...), 1, api.StatusGone)
	if got := s.submission(a.ID); got.State != api.StateCancelled || got.Skipped != 3 {
		t.Errorf("the cleared submission: got %+v, want it cancelled with 3 skipped", got)
	}
	if got := s.submission(b.ID); got.State != api.StateOpen || got.Ready != 3 {
		t.Errorf("the other one: got %+v, want it as it was", got)
	}
}

// 66. Given execution error, back-off 5 min / 3 attempts, then retried within 5 min twice, then DEAD, not deleted.
func TestBehaviour066RetriedThenDead(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("work", api.QueueSettingsInput{OnExhausted: new("dead_letter"), MaxAttempts: new(uint16(3)), RetryBackoff: &api.Backoff{BaseMS: 300_000, Factor: 1, CapMS: 300_000}})
	sub := s.insert("work", submission(1, "customer", "a"))
	for try := range 3 {
		got := s.reserve("work", request("Random", 1)).Reservations
		if len(got) != 1 || got[0].Attempt != uint32(try+1) {
			t.Fatalf("try %d: got %+v, want one chunk", try, got)
		}
		s.wantStatuses(s.failing("work", fmt.Sprint("error ", try), false, got...), 1, api.StatusOK)
		if try < 2 {
			s.wantCounts("work", "waiting 1")
		}
		s.advance(5*time.Minute + time.Millisecond)
	}
	s.reserveNone("work", "Random")
	if got := s.submission(sub.ID); got.Dead != 1 || s.statsOf("work").DeadLetters != 1 {
		t.Errorf("after three tries: got %+v, want one dead letter", got)
	}
}

// 67. Given a handler returning an error value (complete), then never retried.
func TestBehaviour067CompletedIsNeverRetried(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(3, "")
	sub := s.insert("work", submission(1, "customer", "a"))
	got := s.reserve("work", request("Random", 1)).Reservations
	s.results("work", "complete", api.CompleteRequest{Items: []api.CompleteItem{{Token: got[0].Token, Output: api.Bytes("error: no such row")}}})
	s.advance(24 * time.Hour)
	s.reopen(time.Hour)
	s.reserveNone("work", "Random")
	if got := s.submission(sub.ID); got.State != api.StateCompleted || got.Done != 1 {
		t.Errorf("submission: got %+v, want it completed", got)
	}
}

// 91. Given run_at in the past, then it is offered at once. (OldestFirst goes by the time of the insert, not by run_at.)
func TestBehaviour091RunAtInThePastIsNow(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	past, later := submission(1, "t", "past"), submission(1, "t", "later")
	past.RunAt, later.RunAt = api.At(s.now().Add(-24*time.Hour)), api.At(s.now().Add(time.Hour))
	s.insert("", later)
	s.insert("", past)
	if got := s.reserve("", request("OldestFirst", 5)).Reservations; len(got) != 1 || got[0].Meta["t"] != api.Text("past") {
		t.Errorf("at once: got %+v, want the one of the past", got)
	}
	s.advance(time.Hour)
	if got := s.reserve("", request("OldestFirst", 5)).Reservations; len(got) != 1 || got[0].Meta["t"] != api.Text("later") {
		t.Errorf("an hour later: got %+v, want the other one", got)
	}
}

// 107. Given kill/dead item, then visible with its error log; redrive makes it READY with attempts 0.
func TestBehaviour107RedriveResetsAttempts(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(10, "")
	sub := s.dying(1, "no such row")
	var page api.Page[api.DeadLetter]
	s.do("GET", queuePath("work", "/dead-letters"), nil, http.StatusOK, &page)
	if len(page.Items) != 1 || page.Items[0].Submission != sub.ID || page.Items[0].Error != "no such row" {
		t.Fatalf("dead letters: got %+v, want the one with its error", page.Items)
	}
	s.do("POST", queuePath("work", "/dead-letters/"+sub.ID+"/0/redrive"), nil, http.StatusOK, nil)
	got := s.reserve("work", request("Random", 1)).Reservations
	if len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("after the redrive: got %+v, want the chunk at its first attempt", got)
	}
}

// 108. Given trace(id), then all life-cycle events with reasons in order: a dead letter has its attempts, each with the
// consumer, the time that it held the chunk, and the reason of its end, over redrives and restarts.
func TestBehaviour108TriesInOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("work", api.QueueSettingsInput{OnExhausted: new("dead_letter"), MaxAttempts: new(uint16(2)), ExpiryBackoff: &api.Backoff{Factor: 1}, RetryBackoff: &api.Backoff{Factor: 1}})
	sub := s.insert("work", submission(1, "customer", "a"))
	reserve := func(consumer string) []api.Reservation {
		r := request("Random", 1)
		r.Consumer, r.TimeoutMS = consumer, time.Minute.Milliseconds()
		return s.reserve("work", r).Reservations
	}
	first := reserve("one")
	s.advance(3 * time.Second)
	s.failing("work", "first", false, first...)
	reserve("two")
	s.advance(time.Minute)
	s.do("POST", queuePath("work", "/dead-letters/"+sub.ID+"/0/redrive"), nil, http.StatusOK, nil)
	s.reopen(0)
	third := reserve("three")
	s.advance(time.Second)
	s.failing("work", "third", true, third...)
	var d api.DeadLetter
	s.do("GET", queuePath("work", "/dead-letters/"+sub.ID+"/0"), nil, http.StatusOK, &d)
	var got []string
	for _, a := range d.History {
		got = append(got, fmt.Sprint(a.Consumer, " ", time.Duration(a.HeldMS)*time.Millisecond, " ", a.Expired, " ", a.Error))
	}
	want := []string{"one 3s false first", "two 1m0s true the reservation's deadline passed", "three 1s false third"}
	if !slices.Equal(got, want) || d.Redrives != 1 || d.Attempts != 1 {
		t.Errorf("tries: got %q, %d redrives, want %q and 1", got, d.Redrives, want)
	}
}

// 109. Given logs retention 24 h, then older go, dead letters stay, and so do their submissions. They go only by a
// retention of their own.
func TestBehaviour109RetentionAndDeadLetters(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("work", api.QueueSettingsInput{OnExhausted: new("dead_letter"), MaxAttempts: new(uint16(1)), RetentionSeconds: new(int64(86_400))})
	done := s.insert("work", submission(1, "customer", "a"))
	s.wantStatuses(s.completing("work", s.reserve("work", request("Random", 1)).Reservations...), 1, api.StatusOK)
	open := s.insert("work", submission(2, "customer", "b"))
	s.failing("work", "no", true, s.reserve("work", request("Random", 1)).Reservations...)
	s.advance(25 * time.Hour)
	s.do("GET", "/v1/submissions/"+done.ID, nil, http.StatusNotFound, nil)
	if got := s.submission(open.ID); got.Dead != 1 || s.statsOf("work").DeadLetters != 1 {
		t.Errorf("the dead letter of an open submission: got %+v, want it there", got)
	}
	s.completing("work", s.reserve("work", request("Random", 1)).Reservations...)
	s.advance(100 * 24 * time.Hour)
	if got := s.submission(open.ID); got.Dead != 1 || got.State != api.StateCompletedWithDead || s.statsOf("work").DeadLetters != 1 {
		t.Errorf("long after its end: got %+v, want its dead letter there", got)
	}
}

// A dead letter goes when it is older than the queue's dead_retention_seconds, not a second before: its chunk is
// skipped then, and a submission without further dead letters goes by the retention of submissions. Setting it again to
// 0 keeps those that are left.
func TestDeadRetention(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	settings := api.QueueSettingsInput{
		OnExhausted: new("dead_letter"), MaxAttempts: new(uint16(1)), RetentionSeconds: new(int64(86_400)), DeadRetentionSeconds: new(int64(7 * 86_400)),
	}
	s.queue("work", settings)
	var got api.Queue
	s.do("GET", queuePath("work", ""), nil, http.StatusOK, &got)
	if got.Settings.DeadRetentionSeconds != 7*86_400 {
		t.Errorf("settings: got %+v, want 7 days for dead letters", got.Settings)
	}
	if p := s.refused("PATCH", queuePath("work", ""), map[string]any{"settings": map[string]any{"dead_retention_seconds": 1 << 40}}, http.StatusUnprocessableEntity); len(p.Errors) != 1 || p.Errors[0].Pointer != "/settings/dead_retention_seconds" {
		t.Errorf("too long a retention: got %+v, want it refused by its name", p)
	}
	ended := s.dying(2, "first")
	s.advance(3 * 24 * time.Hour)
	open := s.insert("work", submission(3, "customer", "b"))
	s.failing("work", "second", true, s.reserve("work", request("Random", 1)).Reservations...)
	s.advance(4*24*time.Hour - 2*time.Second)
	if n := s.statsOf("work").DeadLetters; n != 3 {
		t.Errorf("two seconds before the first are too old: %d dead letters, want 3", n)
	}
	s.reopen(0)
	s.advance(2 * time.Minute)
	if n := s.statsOf("work").DeadLetters; n != 1 {
		t.Errorf("when the first are too old: %d dead letters, want 1", n)
	}
	s.advance(2 * time.Minute)
	s.do("GET", "/v1/submissions/"+ended.ID, nil, http.StatusNotFound, nil)
	s.advance(3 * 24 * time.Hour)
	if got := s.submission(open.ID); got.Dead != 0 || got.Skipped != 1 || got.Ready != 2 {
		t.Errorf("the open one: got %+v, want its dead chunk skipped", got)
	}
	var text string
	for line := range strings.SplitSeq(string(s.do("GET", "/metrics", nil, http.StatusOK, nil).body), "\n") {
		if strings.HasPrefix(line, "quern_dead_letters_aged_total") && strings.Contains(line, `"work"`) {
			text = line
		}
	}
	if text != `quern_dead_letters_aged_total{queue="work"} 3` {
		t.Errorf("metrics: got %q, want 3 since the start", text)
	}
	s.failing("work", "third", true, s.reserve("work", request("Random", 1)).Reservations...)
	s.do("PATCH", queuePath("work", ""), map[string]any{"settings": map[string]any{"dead_retention_seconds": 0}}, http.StatusOK, nil)
	s.advance(100 * 24 * time.Hour)
	if n := s.statsOf("work").DeadLetters; n != 1 {
		t.Errorf("without a retention of their own: %d dead letters, want 1", n)
	}
}

// A bulk operation goes on after a restart where it was, at its rate, and tells so.
func TestBulkAtARateOverARestart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "")
	s.dying(50, "no")
	s.advance(time.Second)
	var op api.BulkOperation
	s.do("POST", "/v1/bulk-operations", api.BulkRequest{Queue: "work", Action: api.BulkRedrive, RatePerSecond: 10}, http.StatusAccepted, &op)
	s.settle()
	s.advance(time.Second)
	s.do("GET", "/v1/bulk-operations/"+op.ID, nil, http.StatusOK, &op)
	if op.State != api.BulkRunning || op.Done != 11 {
		t.Errorf("after a second: got %+v, want 11 done", op)
	}
	s.reopen(time.Hour)
	s.do("GET", "/v1/bulk-operations/"+op.ID, nil, http.StatusOK, &op)
	if op.State != api.BulkRunning || op.Done != 12 {
		t.Errorf("after an hour's restart: got %+v, want 12 done: nothing is caught up on", op)
	}
	for range 5 {
		s.advance(time.Second)
	}
	s.do("GET", "/v1/bulk-operations/"+op.ID, nil, http.StatusOK, &op)
	s.wantBulk(op, 50, 0, 0)
	s.wantCounts("work", "ready 50")
}
