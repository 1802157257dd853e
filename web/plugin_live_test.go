package web

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// A dry run against the candidates that a queue has at the moment says which chunks would be taken, and how that
// differs from the order without the plugin and from the active version. It takes nothing.
//
//quern:overlapping
func TestDryRunOnLiveCandidates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.rising(6)
	f.upload(wasmtest.Scorer(), declared("live", "1.0.0", "priority", "limit:none"), 201)
	f.upload(wasmtest.Scorer(), declared("live", "2.0.0", "limit:none", "priority"), 201)
	const path, body = "/v1/plugins/live/versions/1.0.0/dry-run", `{"queue":"default","strategy":"OldestFirst","want":2}`
	var got api.PluginTried
	f.do("POST", path, body, 200, &got)
	l := got.Live
	if l == nil || l.Rows != 6 || l.Skipped != 0 || len(l.Picks) != 2 || l.Picks[0].Row != 5 || l.Picks[1].Row != 4 || *l.Picks[0].Score != 55 {
		t.Fatalf("got %+v, want the last two of six", l)
	}
	if !slices.Equal(l.Gained, []int{5, 4}) || !slices.Equal(l.Lost, []int{0, 1}) || l.ActiveOverlap != nil {
		t.Errorf("got %+v, want 5 and 4 gained, 0 and 1 lost, and no active version", l)
	}
	counted := 0
	for _, bin := range l.Histogram {
		counted += bin.Count
	}
	if counted != 6 || l.Histogram[0].From != 5 || l.Histogram[len(l.Histogram)-1].To != 55 {
		t.Errorf("got the histogram %+v, want six scores from 5 to 55", l.Histogram)
	}
	f.do("POST", "/v1/plugins/live/activate", `{"version":"2.0.0"}`, 200, nil)
	f.do("POST", path, body, 200, &got)
	if l := got.Live; l.ActiveOverlap == nil || *l.ActiveOverlap != 0 || *l.ActiveTau != -1 || !slices.Equal(l.ActiveGained, []int{5, 4}) || !slices.Equal(l.ActiveLost, []int{0, 1}) {
		t.Errorf("against the active version: got %+v, want that they disagree in everything", l)
	}
	f.do("POST", path, `{"queue":"default","strategy":"NewestFirst","want":2}`, 200, &got)
	if l := got.Live; !slices.Equal(l.Gained, []int{}) || !slices.Equal(l.Lost, []int{}) {
		t.Errorf("in an order that is the plugin's: got %+v gained, %+v lost", l.Gained, l.Lost)
	}
	for _, wrong := range []string{`{"queue":"default","strategy":"Oldest"}`, `{"queue":"none"}`, `{"queue":"default","rows":100000}`} {
		if got := f.send(call{method: "POST", path: path, body: wrong}); got.status != 422 && got.status != 404 {
			t.Errorf("%s: got %d %s", wrong, got.status, got.body)
		}
	}
	var stats api.Stats
	f.do("GET", "/v1/queues/default/stats", "", 200, &stats)
	if stats.Ready != 6 || stats.Reserved != 0 {
		t.Errorf("got %+v, want all six still there", stats)
	}
}

// Behaviour 1: a plugin of every language is uploaded, is ready with a report, and serves. `make plugins` builds them.
func TestPluginBehaviour01EveryLanguage(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("QUERN_PLUGINS")
	if dir == "" {
		t.Skip("the examples need toolchains beside Go's: `make plugins` installs them, builds the examples, and runs this test with them")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s holds no modules: %v", dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.insert(`{"chunks":{"count":1,"template":"x"}}`)
			module, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := manifest.Extract(module)
			if err != nil {
				t.Fatal(err)
			}
			var v api.PluginVersion
			f.upload(module, string(raw), 201).decode(t, &v)
			if v.State != api.PluginReady || len(v.SHA256) != 64 || !(v.Report.NsPerCandidate > 0) || !(v.Report.FuelPerCandidate > 0) {
				t.Errorf("got %+v, want it ready with a report", v)
			}
			f.do("POST", "/v1/plugins/"+v.Name+"/activate", `{"version":"`+v.Version+`"}`, 200, nil)
			if texts, _ := f.taken(1, `Plugin("`+v.Name+`", OldestFirst)`); !slices.Equal(texts, []string{"x"}) {
				t.Errorf("reserved %v through it, want x", texts)
			}
			var stats api.PluginStats
			f.do("GET", "/v1/plugins/"+v.Name+"/stats", "", 200, &stats)
			if stats.Batches != 1 || stats.Fallbacks != 0 || len(stats.Faults) != 0 {
				t.Errorf("got %+v, want one batch and nothing that failed", stats)
			}
		})
	}
}
