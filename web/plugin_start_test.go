package web

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// A server whose plugins are not open yet is ready, names them, and shows them as starting until they are.
func TestPluginsThatAreStarting(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.upload(wasmtest.Scorer(), declared("first", "1.0.0", "priority", "age_ms"), 201)
	f.do("POST", "/v1/plugins/first/activate", `{"version":"1.0.0"}`, 200, nil)
	// Another face over the same engine, whose plugins are as they are right after a start.
	registry := prometheus.NewRegistry()
	held := newPlugins(t, registry, slog.New(slog.DiscardHandler))
	if err := held.Open(f.engine.PluginStore(), f.engine); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := held.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := New(Options{Engine: f.engine, Plugins: held, Now: time.Now, Seed: func() uint64 { return 1 }, Logger: slog.New(slog.DiscardHandler), Registerer: registry, Gatherer: registry})
	if err != nil {
		t.Fatal(err)
	}
	f.address = serve(t, s)
	look := func() (p api.Plugin, check string) {
		var ready api.Readiness
		f.do("GET", "/readyz?verbose", "", 200, &ready)
		for _, c := range ready.Checks {
			if c.Name == "plugins" && c.OK {
				check = c.Detail
			}
		}
		f.do("GET", "/v1/plugins/first", "", 200, &p)
		return p, check
	}
	if p, check := look(); p.State != "starting" || p.Breaker.State != "starting" || p.Breaker.Reason == "" || !strings.Contains(check, "1 of 1 active plugins are starting") || !strings.HasSuffix(check, ": first") {
		t.Errorf("got %+v and the check %q, want that first is starting", p, check)
	}
	held.Start(t.Context())
	if p, check := look(); p.State != "active" || check != "1 active" {
		t.Errorf("got %s and the check %q, want it active", p.State, check)
	}
}
