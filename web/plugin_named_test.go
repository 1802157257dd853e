package web

import (
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// A plugin that a stored strategy names is deleted only by force, and the refusal names the strategies. Deactivated or deleted, it does not break
// them: their reservations go on with the next branch, and their answers, validate and the log say so.
func TestStoredStrategyOutlivesItsPlugin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert(`{"chunks":{"count":10,"template":"t"}}`)
	f.do("PUT", "/v1/queues/other", `{}`, 201, nil)
	for _, version := range []string{"1.0.0", "2.0.0"} {
		f.upload(wasmtest.Scorer(), declared("p", version, "priority", "age_ms"), 201)
	}
	f.do("POST", "/v1/plugins/p/activate", `{"version":"2.0.0"}`, 200, nil)
	const base = "/v1/queues/default/strategies/"
	f.do("PUT", base+"nightly", `{"strategy":"OrElse(Plugin(\"p\", OldestFirst), Random)"}`, 201, nil)
	f.do("PUT", "/v1/queues/other/strategies/pinned", `{"strategy":"OrElse(Plugin(\"p@1.0.0\", OldestFirst), Random)"}`, 201, nil)
	reserve := func(when string, warned ...string) {
		t.Helper()
		var exchanged api.ExchangeResponse
		f.do("POST", reservePath+"/exchange", `{"reserve":{"max":1,"strategy":{"name":"nightly"}}}`, 200, &exchanged)
		got := f.reserve(`{"max":1,"strategy":{"name":"nightly"}}`)
		if len(got.Reservations) != 1 || len(exchanged.Reservations) != 1 {
			t.Errorf("%s: got %+v and %+v, want a chunk each", when, got, exchanged)
		}
		for _, warnings := range [][]api.StrategyWarning{got.Warnings, exchanged.Warnings} {
			if len(warnings) != len(warned) || len(warned) > 0 && (warnings[0].Kind != "plugin_unusable" || !strings.Contains(warnings[0].Detail, warned[0])) {
				t.Errorf("%s: got the warnings %+v, want %q", when, warnings, warned)
			}
		}
	}
	refused := func(path string, names ...string) {
		t.Helper()
		got := f.do("DELETE", path, "", 409, nil)
		for _, name := range append(names, "force") {
			if !strings.Contains(string(got.body), name) {
				t.Errorf("DELETE %s: got %s, want it to name %q", path, got.body, name)
			}
		}
	}
	reserve("active")
	refused("/v1/plugins/p/versions/1.0.0", "pinned", "other")
	f.do("DELETE", "/v1/plugins/p/versions/1.0.0?force=true", "", 204, nil)
	f.do("POST", "/v1/plugins/p/deactivate", ``, 200, nil)
	reserve("deactivated", "no version is active")
	refused("/v1/plugins/p", "nightly", "default", "pinned", "other")
	f.do("DELETE", "/v1/plugins/p?force=true", "", 204, nil)
	reserve("deleted", "names no plugin")
	if !strings.Contains(f.log.String(), "a stored strategy names a plugin that cannot be used") {
		t.Error("the log does not tell of the strategy")
	}
	var valid api.ValidStrategy
	f.do("POST", base+"validate", `{"strategy":{"name":"nightly"}}`, 200, &valid)
	if len(valid.Warnings) != 1 || valid.Warnings[0].Kind != "plugin_unusable" || !strings.Contains(valid.Warnings[0].Detail, "p") {
		t.Errorf("got %+v, want a warning of the plugin", valid.Warnings)
	}
	// In a strategy that is written out, it is the caller's mistake.
	f.do("POST", reservePath, `{"max":1,"strategy":"OrElse(Plugin(\"p\", OldestFirst), Random)"}`, 422, nil)
	// Once no strategy names it, nothing needs force.
	f.upload(wasmtest.Scorer(), declared("q", "1.0.0", "priority", "age_ms"), 201)
	f.do("DELETE", "/v1/plugins/q", "", 204, nil)
}
