package web

import (
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// A reserve and an exchange whose plugin does not score say so, and why, as preview and validate do, also beside chunks that
// a later branch gave: its breaker is open, it is quarantined, an operator holds it. While it scores there is no warning.
func TestReserveWarnsOfPluginsThatDoNotScore(t *testing.T) {
	t.Parallel()
	s, _ := moodyScene(t, 100)
	s.do("PUT", "/v1/queues/default/strategies/moods", api.StrategyRequest{Strategy: request(orElse("moody"), 1).Strategy}, 201, nil)
	ask := func(when, want string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			asked := request(text, 1)
			if text[0] == '{' {
				asked.Strategy = []byte(text)
			}
			got := s.reserve("", asked)
			var exchanged api.ExchangeResponse
			s.do("POST", reservePath+"/exchange", api.ExchangeRequest{Reserve: &asked}, 200, &exchanged)
			var preview api.PreviewResponse
			s.do("POST", "/v1/queues/default/strategies/preview", api.PreviewRequest{Strategy: asked.Strategy}, 200, &preview)
			var valid api.ValidStrategy
			s.do("POST", "/v1/queues/default/strategies/validate", api.StrategyRequest{Strategy: asked.Strategy}, 200, &valid)
			if len(got.Reservations) != 1 || len(exchanged.Reservations) != 1 {
				t.Fatalf("%s, %s: got %+v and %+v, want a chunk each", when, text, got, exchanged)
			}
			for by, warnings := range map[string][]api.StrategyWarning{
				"reserve": got.Warnings, "exchange": exchanged.Warnings, "preview": preview.Warnings, "validate": valid.Warnings,
			} {
				if want == "" && len(warnings) == 0 {
					continue
				}
				if len(warnings) != 1 || warnings[0].Kind != "plugin_unavailable" || !strings.HasSuffix(warnings[0].Detail, want) {
					t.Errorf("%s, %s, %s: got the warnings %+v, want %q", when, by, text, warnings, want)
				}
			}
		}
	}
	plain, pinned, named := orElse("moody"), orElse("moody@1.0.0"), `{"name":"moods"}`
	s.fault()
	s.fault()
	for _, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		s.fault()
		ask("the breaker opened", "its breaker is open", plain, pinned, named)
		s.advance(wait)
	}
	s.fault()
	ask("after the fifth opening", "it is quarantined", plain, pinned, named)
	s.upload(wasmtest.Scorer(), declared("moody", "2.0.0", "priority", "limit:none"))
	s.activate("moody", "2.0.0")
	ask("another version is active", "", plain, named)
	ask("another version is active", "it is quarantined", pinned)
	s.do("PUT", "/v1/plugins/moody/settings", api.PluginSettings{Hold: "open"}, 200, nil)
	ask("taken out of use", "an operator holds it", plain, named)
}
