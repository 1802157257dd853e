package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// A plugin is no way around a token's restriction: whatever the tenant asks, the plugin sees only the tenant's own
// candidates, however high it would score others. Tenants cannot see what a plugin is and does.
func TestTenantsReachNothingThroughAPlugin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 20 { // the plugin scores these higher
		f.insert(fmt.Sprintf(`{"priority":1000,"meta":{"company":8,"n":%d},"chunks":{"count":3,"prefix":"%s/"}}`, i, marker))
	}
	own := f.insert(`{"priority":1,"meta":{"company":7},"chunks":{"count":3,"prefix":"own/"}}`).ID
	f.inUse(wasmtest.Scorer(), "scorer", "priority", "attempts")
	tenant := access.Restriction{Queues: []string{"default"}, Entry: queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}}
	_, mine := f.token(engine.TokenRequest{Name: "tenant", Scopes: restrictableScopes, Restriction: tenant})
	_, admin := f.token(engine.TokenRequest{Name: "admin", Scopes: access.Admin})
	candidates := func() uint64 {
		var stats api.PluginStats
		got := f.as(admin, call{method: "GET", path: "/v1/plugins/scorer/stats"})
		if err := json.Unmarshal(got.body, &stats); err != nil || got.status != 200 {
			t.Fatalf("statistics: %d %s", got.status, got.body)
		}
		return stats.Candidates
	}
	ask := func(path, body string, status int) string {
		t.Helper()
		before := candidates()
		got := f.as(mine, call{method: "POST", path: path, body: body})
		if got.status != status || strings.Contains(string(got.body), marker) {
			t.Errorf("%s %s: got %d %s, want %d with nothing of the other's", path, body, got.status, got.body, status)
		}
		if seen := candidates() - before; seen > 2 { // two blocks at most, of one submission
			t.Errorf("%s %s: the plugin was shown %d candidates, and the tenant has 1", path, body, seen)
		}
		return string(got.body)
	}
	for _, text := range []string{
		`Plugin("scorer", Random)`, `OrElse(Plugin("scorer", OldestFirst), Random)`, `OrElse(SelectOnly("n", 1, Plugin("scorer", Random)), Plugin("scorer", Random))`,
		`Plugin("scorer", Fair("company", Random))`, `Score(priority * 2, Random)`,
	} {
		got := ask("/v1/queues/default/strategies/preview", fmt.Sprintf(`{"max":60,"strategy":%q}`, text), 200)
		if !strings.Contains(got, own) {
			t.Errorf("preview of %s: got %s, want the tenant's own", text, got)
		}
		ask("/v1/queues/default/strategies/explain", fmt.Sprintf(`{"max":60,"strategy":%q}`, text), 403)
		ask("/v1/queues/default/strategies/compare", fmt.Sprintf(`{"max":60,"a":%q,"b":"Random"}`, text), 403)
		var reserved api.ReserveResponse
		if err := json.Unmarshal([]byte(ask(reservePath, fmt.Sprintf(`{"max":60,"strategy":%q}`, text), 200)), &reserved); err != nil {
			t.Fatal(err)
		}
		if len(reserved.Reservations) != 3 {
			t.Errorf("reserve by %s: got %d chunks, want the tenant's 3", text, len(reserved.Reservations))
		}
		for _, r := range reserved.Reservations {
			f.as(mine, call{method: "POST", path: reservePath + "/release", body: fmt.Sprintf(`{"items":[{"token":%q}]}`, r.Token)})
		}
	}
	before := candidates()
	f.as(admin, call{method: "POST", path: reservePath, body: `{"max":1,"strategy":"Plugin(\"scorer\", Random)"}`})
	if seen := candidates() - before; seen < 20 {
		t.Errorf("an admin's reserve shows the plugin %d candidates, want all 21: the count would not tell of a leak", seen)
	}
	for _, path := range []string{"/v1/plugins", "/v1/plugins/scorer", "/v1/plugins/scorer/stats", "/v1/plugins/scorer/scores"} {
		if got := f.as(mine, call{method: "GET", path: path}); got.status != 403 && got.status != 404 {
			t.Errorf("GET %s for a tenant: got %d %s, want it refused", path, got.status, got.body)
		}
	}
}
