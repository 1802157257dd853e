package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// A comparison goes by the scores that a reserve with the context would go by, and names for each strategy the blocks
// that are not scored. It leaves no trace in the plugin's statistics. why, which leaves scores out, names plugins that
// do not score.
func TestCompareAsksThePlugin(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	var chunk string
	for i := range 20 {
		sub := s.put(fmt.Sprint(i), 2, int64(i), api.Meta{"half": api.Int(int64(i / 10))})
		chunk = "/v1/submissions/" + sub.ID + "/chunks/0/why"
	}
	s.upload(wasmtest.Directed(), `{"name":"p","version":"1.0.0","abi":1,"columns":["priority"],"context":[{"key":"direction","type":"i64"}],"window":{"max":1024}}`)
	s.activate("p", "1.0.0")
	scored := func(text string) []byte { return request(text, 1).Strategy }
	ask := func(a, b string, direction int64, overlap int, warned string) {
		t.Helper()
		before := s.pluginStats("p").Batches
		var got api.CompareResponse
		s.do("POST", "/v1/queues/default/strategies/compare", api.CompareRequest{A: scored(a), B: scored(b), Max: 10,
			Context: api.Meta{"direction": api.Int(direction)}}, 200, &got)
		if got.Overlap != overlap || got.A.Picks != 10 || got.B.Picks != 10 {
			t.Errorf("%s with %s, direction %d: got %+v, want %d of 10 in common", a, b, direction, got, overlap)
		}
		if n := len(got.A.Warnings); n != min(len(warned), 1) || n > 0 && !strings.Contains(got.A.Warnings[0].Detail, warned) || len(got.B.Warnings) != 0 {
			t.Errorf("%s with %s: got the warnings %+v and %+v, want %q of the first", a, b, got.A.Warnings, got.B.Warnings, warned)
		}
		if now := s.pluginStats("p").Batches; now != before {
			t.Errorf("%s with %s: %d batches are in the statistics, %d were before", a, b, now, before)
		}
	}
	const plugin, formula = `OrElse(Plugin("p", explore=0, OldestFirst), OldestFirst)`, `Score(0 - priority, explore=0, OldestFirst)`
	ask(plugin, "OldestFirst", 1, 0, "")
	ask(plugin, "OldestFirst", -1, 10, "")
	ask(plugin, formula, -1, 10, "")
	ask(`Score(priority, explore=0, OldestFirst)`, formula, 1, 0, "")
	s.do("PUT", "/v1/plugins/p/settings", api.PluginSettings{Hold: "open"}, 200, nil)
	ask(plugin, "OldestFirst", 1, 10, "an operator holds it")
	var why api.WhyResponse
	s.do("POST", chunk, api.WhyRequest{Strategy: scored(plugin)}, 200, &why)
	if len(why.Warnings) != 1 || !strings.Contains(why.Warnings[0].Detail, "an operator holds it") {
		t.Errorf("why: got the warnings %+v, want that an operator holds the plugin", why.Warnings)
	}
	why = api.WhyResponse{}
	s.do("POST", chunk, api.WhyRequest{Strategy: scored(formula)}, 200, &why)
	if len(why.Warnings) != 0 {
		t.Errorf("why by a formula: got the warnings %+v, want none", why.Warnings)
	}
}
