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

// A rule that was lifted, is over, or ended with its submission can be read afterwards, also after a restart. It says
// by whom and why it was set, how and when it ended, and by whom it was lifted. engine/simtest tests past rules with
// checkpoints and crashes.
func TestPastRulesAreKept(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	sub := s.insert("", submission(1, "t", "a"))
	why := func(text string) func(*api.RuleRequest) { return func(r *api.RuleRequest) { r.Reason = text } }
	first := s.setRule("", api.ActionPause, onTenant("a"), why("their API is down"))
	s.setRule("", api.ActionPause, onQueue(), why("a deployment"), func(r *api.RuleRequest) { r.Until = api.At(s.now().Add(time.Minute)) })
	s.setRule("", api.ActionBlock, api.RuleMatch{Submission: sub.ID}, why("unpaid"))
	s.advance(10 * time.Second)
	s.do("DELETE", queuePath("", "/rules/"+first.ID+"?actor=bo"), nil, http.StatusNoContent, nil)
	s.advance(50 * time.Second)
	s.do("POST", "/v1/submissions/"+sub.ID+"/cancel", nil, http.StatusOK, nil)
	s.wantRules("")
	past := func() (got []string) {
		var page api.Page[api.Rule]
		s.do("GET", queuePath("", "/rules?state=ended"), nil, http.StatusOK, &page)
		for _, r := range page.Items {
			if r.Since.IsZero() || r.Actor != "eve" {
				t.Errorf("an ended rule: got %+v, want what was said when it was set", r)
			}
			got = append(got, fmt.Sprintf("%s: %s at +%s by %q", r.Reason, r.End, r.EndedAt.Sub(first.Since.Time), r.LiftedBy))
		}
		return got
	}
	want := []string{`unpaid: submission_ended at +1m0s by ""`, `a deployment: over at +1m0s by ""`, `their API is down: lifted at +10s by "bo"`}
	if got := past(); !slices.Equal(got, want) {
		t.Errorf("ended rules: got %q, want %q", got, want)
	}
	s.restart()
	if got := past(); !slices.Equal(got, want) {
		t.Errorf("ended rules after a restart: got %q, want %q", got, want)
	}
	if p := s.refused("GET", queuePath("", "/rules?state=all"), nil, http.StatusUnprocessableEntity); len(p.Errors) != 1 {
		t.Errorf("an unknown state: got %+v, want one error", p.Errors)
	}
}

// One dead letter goes on to another queue: there it is a submission with its origin, and here it counts as forwarded.
// A queue that does not exist and the letter's own queue are refused, and a second forward finds nothing.
func TestForwardOneDeadLetter(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "")
	s.queue("rejects", api.QueueSettingsInput{})
	sub := s.dying(3, "no luck")
	path := queuePath("work", "/dead-letters/"+sub.ID+"/1/forward")
	for _, to := range []string{"work", "nowhere", ""} {
		if p := s.refused("POST", path, api.ForwardRequest{To: to}, http.StatusUnprocessableEntity); len(p.Errors) != 1 || p.Errors[0].Pointer != "/to" {
			t.Errorf("forwarding to %q: got %+v, want /to pointed at", to, p.Errors)
		}
	}
	var after api.Submission
	s.do("POST", path, api.ForwardRequest{To: "rejects"}, http.StatusOK, &after)
	if after.Forwarded != 1 || after.Skipped != 1 || after.Dead != 2 {
		t.Errorf("its submission: got %+v, want 2 dead and 1 skipped that was forwarded", after)
	}
	s.advance(0)
	if got := s.copies("rejects"); len(got) != 1 || got["work/"+sub.ID+"/1"] != 1 {
		t.Errorf("the other queue has %v, want chunk 1 once", got)
	}
	if p := s.refused("POST", path, api.ForwardRequest{To: "rejects"}, http.StatusNotFound); p.Code != api.CodeUnknownDeadLetter {
		t.Errorf("a second time: got %s, want %s", p.Code, api.CodeUnknownDeadLetter)
	}
}

// The list of submissions can be narrowed to those of one schedule, open or ended, also after a restart and when the schedule is deleted.
func TestSubmissionsOfASchedule(t *testing.T) {
	t.Parallel()
	s := newSceneAt(t, time.Date(2026, 1, 5, 16, 30, 0, 0, time.UTC))
	for _, name := range []string{"hourly", "other"} {
		s.schedule(name, cron("@hourly"))
	}
	s.insert("", submission(1, "t", "a"))
	s.advance(30 * time.Minute)
	s.advance(time.Hour)
	of := func(query string) (list []api.Submission) {
		var page api.Page[api.Submission]
		s.do("GET", queuePath("", "/submissions?"+query), nil, http.StatusOK, &page)
		return page.Items
	}
	before := of("schedule=hourly")
	if len(before) != 2 {
		t.Fatalf("schedule=hourly: got %d submissions, want the 2 of that schedule", len(before))
	}
	s.do("POST", "/v1/submissions/"+before[0].ID+"/cancel", nil, http.StatusOK, nil)
	s.restart()
	got := of("schedule=hourly")
	for _, x := range got {
		if x.Schedule != "hourly" {
			t.Errorf("schedule=hourly lists %+v", x)
		}
	}
	if len(got) != 2 || len(of("schedule=hourly&state=cancelled")) != 1 || len(of("schedule=none")) != 0 {
		t.Errorf("after a restart: got %d, %d cancelled and %d of no schedule; want 2, 1, 0", len(got), len(of("schedule=hourly&state=cancelled")), len(of("schedule=none")))
	}
	s.refused("GET", queuePath("", "/submissions?schedule=a&schedule=b"), nil, http.StatusUnprocessableEntity)
}

// A bulk operation says who started it, and the life-cycle worker until when the restart grace runs, also after a restart.
func TestOperationsTellWhoAndUntilWhen(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(2, "t", "a"))
	var b api.BulkOperation
	s.do("POST", "/v1/bulk-operations", api.BulkRequest{Queue: "default", Action: api.BulkCancel, RatePerSecond: 1, Actor: "ana"}, http.StatusAccepted, &b)
	s.restart()
	var after api.BulkOperation
	if s.do("GET", "/v1/bulk-operations/"+b.ID, nil, http.StatusOK, &after); b.Actor != "ana" || after.Actor != "ana" {
		t.Errorf("the operation was started by %q, after a restart by %q; want ana", b.Actor, after.Actor)
	}
	long := strings.Repeat("x", 129)
	if p := s.refused("POST", "/v1/bulk-operations", api.BulkRequest{Queue: "default", Action: api.BulkCancel, Actor: long}, http.StatusUnprocessableEntity); len(p.Errors) != 1 || p.Errors[0].Pointer != "/actor" {
		t.Errorf("a long actor: got %+v, want /actor pointed at", p.Errors)
	}
	if got := s.lifecycle(""); !got.GraceUntil.IsZero() {
		t.Errorf("the restart grace of a queue that has none runs until %s", got.GraceUntil)
	}
	s.queue("careful", api.QueueSettingsInput{RestartGraceMS: new(int64(60_000))})
	s.restart()
	if got := s.lifecycle("careful"); !got.GraceUntil.IsZero() {
		t.Errorf("a restart grace runs until %s after a planned restart, which forgets nothing", got.GraceUntil)
	}
	s.kill()
	if got, want := s.lifecycle("careful").GraceUntil, api.At(s.now().Add(time.Minute)); !got.Equal(want.Time) {
		t.Errorf("the restart grace runs until %s, want %s", got, want)
	}
	s.advance(time.Minute)
	if got := s.lifecycle("careful").GraceUntil; !got.IsZero() {
		t.Errorf("the restart grace that is over runs until %s", got)
	}
}

// The list of submissions can be narrowed by the time of their insert, open or ended, over pages and restarts.
// created_after includes its moment, and created_before does not.
func TestSubmissionsByAge(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	start := s.now()
	var all []api.Submission
	for i := range 6 {
		sub := s.insert("", submission(1, "t", "a"))
		if all = append(all, sub); i%2 == 0 {
			s.cancel(sub.ID)
		}
		s.advance(time.Hour)
	}
	s.restart()
	at := func(hours int) string { return start.Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339) }
	for _, test := range []struct {
		query    string
		from, to int // of all, the newest first in the answer
	}{
		{"created_before=" + at(2), 0, 2},
		{"created_after=" + at(2), 2, 6},
		{"created_after=" + at(1) + "&created_before=" + at(4), 1, 4},
		{"created_before=" + at(0), 0, 0},
		{"created_after=" + at(6), 6, 6},
		{"created_before=9999-01-01T00:00:00Z", 0, 6},
		{"created_after=9999-01-01T00:00:00Z", 6, 6},
	} {
		var got []string
		for query := test.query + "&limit=2"; ; {
			var page api.Page[api.Submission]
			s.do("GET", queuePath("", "/submissions?"+query), nil, http.StatusOK, &page)
			for _, x := range page.Items {
				got = append(got, x.ID)
			}
			if page.Next == "" {
				break
			}
			query = test.query + "&limit=2&cursor=" + page.Next
		}
		var want []string
		for _, x := range slices.Backward(all[test.from:test.to]) {
			want = append(want, x.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", test.query, got, want)
		}
	}
	for _, query := range []string{"created_before=yesterday", "created_after=1960-01-01T00:00:00Z", "created_after=" + at(1) + "&created_after=" + at(2)} {
		if p := s.refused("GET", queuePath("", "/submissions?"+query), nil, http.StatusUnprocessableEntity); len(p.Errors) != 1 || !strings.HasPrefix(p.Errors[0].Pointer, "/query/created_") {
			t.Errorf("%s: got %+v, want its parameter pointed at", query, p.Errors)
		}
	}
}
