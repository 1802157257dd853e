package web

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// A preview and an explanation of a strategy with a plugin or a formula foresee, for each context, the chunks that a
// reserve with it then takes: in several windows, beside limits and other branches, spread over candidates. The
// plugin's statistics, and its charged time, are as before.
func TestPreviewAsksThePlugin(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	for i := range 40 {
		s.put(fmt.Sprint(i), 2, int64(i), api.Meta{"firm": api.Int(int64(i % 7))})
	}
	for _, take := range []string{"all", "spread"} {
		s.upload(wasmtest.Directed(), `{"name":"`+take+`","version":"1.0.0","abi":1,"columns":["priority"],"context":[{"key":"direction","type":"i64"}],"window":{"max":1024},"take":"`+take+`"}`)
		s.activate(take, "1.0.0")
	}
	first := map[string]string{}
	for _, text := range []string{
		`Plugin("all", explore=0, OldestFirst)`,
		`Plugin("all", window=16, explore=3, OldestFirst)`,
		`Plugin("spread", explore=0, OldestFirst)`,
		`Score(priority * context.direction, explore=0, OldestFirst)`,
		`Score(if(priority * context.direction > -20, skipped + attempts + priority * context.direction, 0/0), window=16, NewestFirst)`,
		`MaxSimultaneous("firm", 2, Plugin("all", explore=0, OldestFirst))`,
		`OrElse(MaxSimultaneous("firm", 1, OldestFirst), Plugin("all", window=16, explore=0, Fair("firm", OldestFirst)), OldestFirst)`,
		`OrElse(Score(inflight("firm") * context.direction, window=16, PreferDistinct("firm", 1, OldestFirst)), Score(priority * context.direction, NewestFirst))`,
	} {
		for _, direction := range []int64{1, -1} {
			about := api.Meta{"direction": api.Int(direction)}
			before := s.pluginStats("all")
			asked := api.PreviewRequest{Strategy: request(text, 1).Strategy, Max: 50, Context: about}
			var preview, again api.PreviewResponse
			s.do("POST", "/v1/queues/default/strategies/preview", asked, 200, &preview)
			s.do("POST", "/v1/queues/default/strategies/preview", asked, 200, &again)
			var x api.ExplainResponse
			s.do("POST", "/v1/queues/default/strategies/explain", asked, 200, &x)
			if got := s.pluginStats("all"); !reflect.DeepEqual(got, before) {
				t.Errorf("%s: the preview changed the statistics from %+v to %+v", text, before, got)
			}
			var foreseen, explained, taken []string
			for _, p := range preview.Picks {
				foreseen = append(foreseen, fmt.Sprint(p.Submission, "/", p.Index))
			}
			for _, p := range x.Picks {
				explained = append(explained, fmt.Sprint(p.Pick.Submission, "/", p.Pick.Index))
			}
			var got api.ReserveResponse
			s.do("POST", reservePath, api.ReserveRequest{Strategy: asked.Strategy, Max: 50, Context: about}, 200, &got)
			var release api.ReleaseRequest
			for _, r := range got.Reservations {
				taken = append(taken, fmt.Sprint(r.Submission, "/", r.Index))
				release.Items = append(release.Items, api.ReleaseItem{Token: r.Token})
			}
			s.do("POST", reservePath+"/release", release, 200, nil)
			if len(taken) < 7 || !slices.Equal(foreseen, taken) || !slices.Equal(explained, taken) || len(preview.Warnings)+len(x.Warnings) != 0 {
				t.Errorf("%s with %v: foreseen\n%v\nexplained\n%v\ntaken\n%v\nwarnings %v %v", text, about, foreseen, explained, taken, preview.Warnings, x.Warnings)
			}
			if !slices.EqualFunc(preview.Picks, again.Picks, func(a, b api.PreviewPick) bool { return a.Submission == b.Submission && a.Index == b.Index }) {
				t.Errorf("%s: asked again, it foresees something else", text)
			}
			if was := first[text]; was == fmt.Sprint(foreseen) {
				t.Errorf("%s: the other context gives the same, %s", text, was)
			}
			first[text] = fmt.Sprint(foreseen)
		}
	}
}

// If a plugin fails on the candidates of a preview, the preview goes on without it, as a reserve does, with a warning.
// However often that happens, its breaker stays closed; once reserves have opened it, the preview does not ask the
// plugin.
func TestPreviewLeavesTheBreakerAlone(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	for i := range 9 {
		s.put(fmt.Sprint(i), 1, int64(i-1), nil)
	}
	s.use(wasmtest.Moody(wasmtest.FirstBelowZero(), wasmtest.Endless()), "moody", "priority", "limit:none")
	ask := func(want string, priorities ...int64) {
		t.Helper()
		var preview api.PreviewResponse
		var x api.ExplainResponse
		asked := api.PreviewRequest{Strategy: request(orElse("moody"), 1).Strategy, Max: 3}
		for range 12 {
			s.do("POST", "/v1/queues/default/strategies/preview", asked, 200, &preview)
		}
		s.do("POST", "/v1/queues/default/strategies/explain", asked, 200, &x)
		for _, warnings := range [][]api.StrategyWarning{preview.Warnings, x.Warnings} {
			if len(warnings) != 1 || warnings[0].Kind != "plugin_unavailable" || !strings.Contains(warnings[0].Detail, want) {
				t.Errorf("got the warnings %+v, want one that says %q", warnings, want)
			}
		}
		for i, priority := range priorities {
			if len(preview.Picks) != 3 || len(x.Picks) != 3 || preview.Picks[i].Priority != priority || x.Picks[i].Pick.Priority != priority {
				t.Fatalf("got %+v and %+v, want the priorities %v", preview.Picks, x.Picks, priorities)
			}
		}
	}
	ask("fuel", -1, 0, 1)
	stats := s.pluginStats("moody")
	if stats.Breaker.State != "closed" || len(stats.Faults) != 0 || stats.Batches != 0 || stats.Fallbacks != 0 {
		t.Errorf("after the previews: %+v, want no trace of them", stats)
	}
	for range 3 {
		got := s.reserve("", request(orElse("moody"), 1))
		s.do("POST", reservePath+"/release", api.ReleaseRequest{Items: []api.ReleaseItem{{Token: got.Reservations[0].Token}}}, 200, nil)
	}
	ask("breaker is open", -1, 0, 1)
	s.advance(6 * time.Second)
	ask("fuel", -1, 0, 1) // half-open: a question is not its trial
	if state := s.plugin("moody").State; state != "half_open" {
		t.Errorf("after the previews it is %s, want half_open", state)
	}
}

// A chunk that the scores of a branch pass over comes by a later one, and the explanation says so.
func TestExplainSaysThatScoresPassOver(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	s.put("low", 1, 1, nil)
	s.put("high", 1, 5, nil)
	var x api.ExplainResponse
	text := `OrElse(Score(if(priority > 3, priority, 0/0), OldestFirst), OldestFirst)`
	s.do("POST", "/v1/queues/default/strategies/explain", api.PreviewRequest{Strategy: request(text, 1).Strategy}, 200, &x)
	if len(x.Picks) != 2 || len(x.Branches) != 2 || x.Picks[0].Pick.Branch != 1 || x.Picks[1].Pick.Branch != 2 || len(x.Picks[0].Skipped) != 0 {
		t.Fatalf("got %+v, want one by the scores, then one by what follows them", x)
	}
	if skipped := x.Picks[1].Skipped; len(skipped) != 1 || skipped[0].Obstacle != api.ObstacleScore || !strings.Contains(x.Picks[1].Pick.Path, "OrElse[1]") {
		t.Errorf("got %+v, want the scores as what kept the first branch from it", x.Picks[1])
	}
}
