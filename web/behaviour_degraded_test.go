package web

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/sdk/api"
)

// sick is a scene whose journal refuses to note the ends of submissions by their dead_deadline, until it has taken so many more
// batches: the refusal is SQLite's own, by a trigger. There are forty such submissions; work is another one.
func sick(t *testing.T, batches int64) (s *scene, dying []api.Submission, work api.Submission) {
	s = newScene(t)
	s.alone()
	for range 40 {
		n := submission(2)
		n.DeadDeadline = api.At(s.now().Add(time.Hour))
		dying = append(dying, s.insert("", n))
	}
	work = s.insert("", submission(20))
	s.stop()
	s.client.CloseIdleConnections()
	conn, err := sqlitedb.Open(filepath.Join(s.dir, "shards", "0000", "journal.db"), sqlitelog.Kind, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last, err := conn.Int("SELECT max(n) FROM batch")
	if err == nil {
		err = conn.Exec(fmt.Sprintf("CREATE TRIGGER sick BEFORE INSERT ON batch WHEN NEW.n < %d AND instr(NEW.bytes, CAST('its dead_deadline passed' AS BLOB)) BEGIN SELECT RAISE(ABORT, 'the disk is sick'); END", last+batches))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	return s, dying, work
}

// passes lets the worker pass every six seconds, longer than any pause, until `until`.
func (s *scene) passes(until func(api.Lifecycle) bool) {
	s.Helper()
	for range 60 {
		if until(s.lifecycle("")) {
			return
		}
		s.advance(6 * time.Second)
	}
	s.Fatalf("after 60 passes: %+v", s.lifecycle(""))
}

func lifecycleKind(l api.Lifecycle, name string) api.LifecycleKind {
	for _, k := range l.Kinds {
		if k.Kind == name {
			return k
		}
	}
	return api.LifecycleKind{}
}

func TestBehaviour042AFailingDiskTakesNothingNewIn(t *testing.T) {
	t.Parallel()
	s, dying, work := sick(t, 9)
	asked := briefly(`NewestFirst`, 3)
	asked.TimeoutMS = (2 * time.Hour).Milliseconds() // beyond the hour that passes
	held := s.reserve("", asked).Reservations
	if len(held) != 3 || held[0].Submission != work.ID {
		t.Fatalf("reserved %+v, want three chunks of %s", held, work.ID)
	}
	s.do("GET", "/readyz", nil, http.StatusOK, nil)
	s.advance(time.Hour)
	s.passes(func(l api.Lifecycle) bool { return l.Degraded })
	s.do("GET", "/readyz", nil, http.StatusServiceUnavailable, nil)
	refused := s.do("POST", queuePath("", "/submissions"), submission(1), http.StatusServiceUnavailable, nil)
	if refused.header.Get("Retry-After") == "" {
		t.Error("the refused insert has no Retry-After")
	}
	s.wantStatuses(s.completing("", held[0]), 1, "ok")
	s.wantStatuses(s.failing("", "no", false, held[1]), 1, "ok")
	s.wantStatuses(s.extending("", time.Minute, held[2]), 1, "ok")
	s.passes(func(l api.Lifecycle) bool { return !l.Degraded && s.statsOf("").SubmissionsOpen == 1 })
	for _, sub := range dying {
		if got := s.submission(sub.ID); got.State != "expired" {
			t.Errorf("recovered: submission %s is %s, want expired", sub.ID, got.State)
		}
	}
	s.do("GET", "/readyz", nil, http.StatusOK, nil)
	s.insert("", submission(1))
	if got := s.submission(work.ID); got.Done != 1 {
		t.Errorf("what was completed meanwhile: %d done, want 1", got.Done)
	}
}

func TestBehaviour043ARepairedDiskCatchesUp(t *testing.T) {
	t.Parallel()
	s, dying, _ := sick(t, 6)
	s.advance(time.Hour)
	if got := lifecycleKind(s.lifecycle(""), "dead_deadline"); got.Failed == 0 || got.Error == "" || got.Done != 0 {
		t.Fatalf("while the disk is sick: %+v, want failures and nothing done", got)
	}
	s.passes(func(api.Lifecycle) bool { return s.statsOf("").SubmissionsOpen == 1 }) // no client's call but looking
	for _, sub := range dying {
		if got := s.submission(sub.ID); got.State != "expired" {
			t.Errorf("repaired: submission %s is %s, want expired", sub.ID, got.State)
		}
	}
	s.reopen(time.Second)
	if got := s.statsOf("").SubmissionsOpen; got != 1 {
		t.Errorf("restarted: %d submissions are open, want 1", got)
	}
}

func TestBehaviour098OneFailingKindStopsNoOther(t *testing.T) {
	t.Parallel()
	s, dying, work := sick(t, 1_000_000) // it does not recover
	later := submission(1)
	later.RunAt = api.At(s.now().Add(time.Hour + time.Minute))
	runs := s.insert("", later)
	s.advance(time.Hour)
	held := s.reserve("", briefly(`NewestFirst`, 2)).Reservations
	if len(held) != 2 || held[0].Submission != work.ID {
		t.Fatalf("reserved %+v, want two chunks of %s", held, work.ID)
	}
	s.wantStatuses(s.failing("", "no", false, held[1]), 1, "ok")
	s.passes(func(l api.Lifecycle) bool { return len(l.Parked) >= 3 })
	s.advance(20 * time.Minute)
	if got := s.submission(runs.ID); got.Ready != 1 {
		t.Errorf("run_at: %d ready, want 1", got.Ready)
	}
	l := s.lifecycle("")
	if got := lifecycleKind(l, "dead_deadline"); got.Failed < 3 || got.Parked < 3 {
		t.Errorf("the failing kind: %+v; want its failures counted and its actions parked", got)
	}
	for _, p := range l.Parked {
		if p.Kind != "dead_deadline" || p.Error == "" || p.Index != nil {
			t.Errorf("parked: %+v, want the end of a submission with its error", p)
		}
	}
	if got := s.submission(dying[0].ID); got.State != "open" {
		t.Errorf("what cannot be ended is %s, want open", got.State)
	}
	// A reload behind a failed commit offers what is due too, and counts it as done by no kind.
	if got := lifecycleKind(l, "run_at"); got.Pending != 0 || got.Failed != 0 {
		t.Errorf("another kind: %+v, want nothing left of it and nothing failed", got)
	}
	var retried api.Retried
	s.do("POST", queuePath("", "/lifecycle/retry"), nil, http.StatusOK, &retried)
	if retried.Retried < 3 {
		t.Errorf("retried %d, want what was parked", retried.Retried)
	}
}
