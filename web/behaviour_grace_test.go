package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// During the restart grace, why answers that the grace holds the chunk back, and until when.
func TestGraceIsReported(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{RestartGraceMS: new(int64(60_000))})
	sub := s.insert("q", submission(3, "customer", "a"))
	s.killed(time.Hour)
	until := s.now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	ask := func(strategy string) (p api.PreviewResponse, x api.ExplainResponse, c api.CompareResponse, w api.WhyResponse) {
		t.Helper()
		of := map[string]any{"strategy": strategy}
		s.do("POST", queuePath("q", "/strategies/preview"), of, http.StatusOK, &p)
		s.do("POST", queuePath("q", "/strategies/explain"), of, http.StatusOK, &x)
		s.do("POST", queuePath("q", "/strategies/compare"), map[string]any{"a": strategy, "b": "Random"}, http.StatusOK, &c)
		s.do("POST", "/v1/submissions/"+sub.ID+"/chunks/1/why", of, http.StatusOK, &w)
		return p, x, c, w
	}
	const limited = `MaxSimultaneous("customer", 2, OldestFirst)`
	p, x, c, w := ask(limited)
	for name, got := range map[string]api.Time{"preview": p.RestartGraceUntil, "explain": x.RestartGraceUntil, "compare": c.RestartGraceUntil, "why": w.RestartGraceUntil, "the branch": w.Branches[0].Until} {
		if !got.Time.Equal(until) {
			t.Errorf("%s: until %s, want %s", name, got, until)
		}
	}
	if len(p.Picks) != 0 || len(x.Picks) != 0 || c.A.Picks != 0 || c.B.Picks != 3 || x.Tree[0].Refused.Chunks != 3 {
		t.Errorf("foreseen under a limit: %+v, %+v, %+v; want nothing, and 3 chunks refused", p.Picks, x.Picks, c)
	}
	if b := w.Branches[0]; b.Obstacle != api.ObstacleGrace || b.Key != "customer" || !strings.Contains(b.Detail, until.Format("15:04:05")) {
		t.Errorf("why: got %+v, want the grace in words, with its end", b)
	}
	if p, _, _, w := ask("OldestFirst"); len(p.Picks) != 3 || w.Branches[0].Obstacle != api.ObstacleNone || p.RestartGraceUntil.IsZero() {
		t.Errorf("without a limit: got %d picks and %+v, want 3 and no obstacle, and the grace told", len(p.Picks), w.Branches[0])
	}
	s.advance(time.Minute)
	p, x, c, w = ask(limited)
	if !p.RestartGraceUntil.IsZero() || !x.RestartGraceUntil.IsZero() || !c.RestartGraceUntil.IsZero() || !w.RestartGraceUntil.IsZero() || len(p.Picks) != 2 {
		t.Errorf("when it is over: got %+v, %+v, %+v; want nothing of it, and 2 picks", p, c, w)
	}
}
