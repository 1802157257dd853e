package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// wantRecent compares the recent submissions of a schedule: the minute of each tick, and the state of its submission.
func (s *scene) wantRecent(name string, want ...string) {
	s.Helper()
	var got []string
	for _, e := range s.scheduleNow(name).Recent {
		got = append(got, e.At.UTC().Format("15:04 ")+e.State)
	}
	if len(got) != len(want) {
		s.Errorf("recent of %s: got %v, want %v", name, got, want)
		return
	}
	for i := range want {
		if got[i] != want[i] {
			s.Errorf("recent of %s: got %v, want %v", name, got, want)
			return
		}
	}
}

// A schedule shows the states of its last submissions: of ticks, triggers and backfills, after a restart only the open
// ones, and never more than 24.
func TestScheduleSaysWhatBecameOfItsSubmissions(t *testing.T) {
	t.Parallel()
	s := newSceneAt(t, time.Date(2026, 1, 5, 16, 30, 0, 0, time.UTC))
	s.schedule("hour", cron("@hourly"))
	s.wantRecent("hour")
	s.advance(30 * time.Minute)
	s.wantRecent("hour", "17:00 open")
	got := s.reserve("", request("OldestFirst", 1))
	s.advance(10 * time.Minute)
	var triggered api.Submission
	s.do("POST", schedulePath("hour", "/trigger"), nil, http.StatusCreated, &triggered)
	s.do("POST", "/v1/submissions/"+triggered.ID+"/cancel", nil, http.StatusOK, nil)
	s.complete(got.Reservations[0])
	s.wantRecent("hour", "17:00 completed", "17:10 cancelled")
	s.advance(50 * time.Minute)
	s.wantRecent("hour", "17:00 completed", "17:10 cancelled", "18:00 open")
	s.do("DELETE", schedulePath("hour", ""), nil, http.StatusNoContent, nil)
	s.schedule("hour", cron("@hourly"))
	s.wantRecent("hour")

	for range 30 {
		s.advance(time.Hour)
	}
	recent := s.scheduleNow("hour").Recent
	if len(recent) != 24 || recent[23].Submission != s.scheduleNow("hour").LastSubmission {
		t.Fatalf("got %d submissions, the last %+v; want the last 24", len(recent), recent[len(recent)-1])
	}
	s.reopen(time.Second)
	if again := s.scheduleNow("hour").Recent; len(again) != 24 || again[0] != recent[0] {
		t.Errorf("after a restart got %d, from %+v on; want the 24 that are open, from %+v on", len(again), again[0], recent[0])
	}
}

// A dry backfill counts, also more than could be inserted at once, and inserts nothing.
func TestBackfillCountsFirst(t *testing.T) {
	t.Parallel()
	s := newSceneAt(t, time.Date(2026, 1, 5, 16, 30, 0, 0, time.UTC))
	s.schedule("hour", cron("@hourly"))
	at := func(text string) api.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return api.Time{Time: parsed}
	}
	for _, c := range []struct {
		from, to, first string
		want            int64
	}{
		{"2026-01-05T10:00:00Z", "2026-01-05T12:59:00Z", "10:00", 3},
		{"2026-01-05T10:01:00Z", "2026-01-05T10:59:00Z", "", 0},
		{"2025-01-05T10:00:00Z", "2026-01-05T09:59:59Z", "10:00", 365 * 24},
	} {
		var got api.Backfilled
		s.do("POST", schedulePath("hour", "/backfill"), api.BackfillRequest{From: at(c.from), To: at(c.to), DryRun: true}, http.StatusOK, &got)
		first := ""
		if !got.FirstAt.IsZero() {
			first = got.FirstAt.UTC().Format("15:04")
		}
		if got.Ticks != c.want || first != c.first || len(got.Submissions) != 0 {
			t.Errorf("%s to %s: got %+v, want %d ticks from %q on and no submission", c.from, c.to, got, c.want, c.first)
		}
	}
	s.wantRuns("hour")
	var made api.Backfilled
	s.do("POST", schedulePath("hour", "/backfill"), api.BackfillRequest{From: at("2026-01-05T10:00:00Z"), To: at("2026-01-05T12:59:00Z")}, http.StatusOK, &made)
	if made.Ticks != 3 || len(made.Submissions) != 3 {
		t.Errorf("got %+v, want three submissions", made)
	}
	s.wantRecent("hour", "10:00 open", "11:00 open", "12:00 open")
}
