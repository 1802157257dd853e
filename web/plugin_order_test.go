package web

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// inUse uploads a module for two columns and activates it.
func (f *fixture) inUse(module []byte, name string, columns ...string) {
	f.Helper()
	f.upload(module, declared(name, "1.0.0", columns...), 201)
	f.do("POST", "/v1/plugins/"+name+"/activate", `{"version":"1.0.0"}`, 200, nil)
}

// taken reserves up to so many chunks by a strategy and gives their texts.
func (f *fixture) taken(most int, strategy string) (texts []string, got api.ReserveResponse) {
	f.Helper()
	got = f.reserve(fmt.Sprintf(`{"max":%d,"strategy":%q}`, most, strategy))
	for _, r := range got.Reservations {
		texts = append(texts, string(r.Content.Bytes))
	}
	return texts, got
}

// giveBack releases reservations.
func (f *fixture) giveBack(list []api.Reservation) {
	f.Helper()
	items := make([]string, len(list))
	for i, r := range list {
		items[i] = fmt.Sprintf(`{"token":%q}`, r.Token)
	}
	for _, r := range f.results("release", strings.Join(items, ",")) {
		if r.Status != "ok" {
			f.Errorf("release: got %+v", r)
		}
	}
}

// Behaviour 15: candidates that score NaN are never reserved through the branch, and are through the fallback.
func TestPluginBehaviour15NaNSkipsATenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 6 {
		value := i % 2 // 0/0 for tenant 0
		f.insert(fmt.Sprintf(`{"chunks":{"count":2,"template":"t%d"},"meta":{"tenant":%d,"score":%d}}`, i%2, value, value*i))
	}
	f.inUse(wasmtest.Quotient(), "nan", "meta_i64:score", "meta_i64:tenant")
	texts, _ := f.taken(100, `Plugin("nan", OldestFirst)`)
	if want := slices.Repeat([]string{"t1"}, 6); !slices.Equal(texts, want) {
		t.Errorf("got %v, want %v", texts, want)
	}
	texts, got := f.taken(100, `Plugin("nan", OldestFirst)`)
	if len(texts) != 0 || got.Reason == nil || *got.Reason != api.ReasonAllSkipped {
		t.Errorf("got %v, %+v; want nothing, because all are skipped", texts, got)
	}
	metrics := f.send(call{method: "GET", path: "/metrics"})
	if want := `quern_reserve_empty_total{queue="default",reason="all_skipped"} 1`; !strings.Contains(string(metrics.body), want) {
		t.Errorf("/metrics has no %s", want)
	}
	texts, _ = f.taken(100, `OrElse(Plugin("nan", OldestFirst), OldestFirst)`)
	if want := slices.Repeat([]string{"t0"}, 6); !slices.Equal(texts, want) {
		t.Errorf("with a fallback: got %v, want %v", texts, want)
	}
}

// Behaviour 16: infinite scores are scores, and equal ones keep the inner order.
func TestPluginBehaviour16InfiniteAndEqualScores(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, s := range []struct {
		text string
		a, b int
	}{{"lowest", -1, 0}, {"five", 5, 1}, {"highest", 1, 0}, {"other five", 10, 2}} {
		f.insert(fmt.Sprintf(`{"chunks":{"count":1,"template":%q},"meta":{"a":%d,"b":%d}}`, s.text, s.a, s.b))
	}
	f.inUse(wasmtest.Quotient(), "inf", "meta_i64:a", "meta_i64:b")
	want := []string{"highest", "five", "other five", "lowest"}
	texts, got := f.taken(10, `Plugin("inf", explore=0, OldestFirst)`)
	if !slices.Equal(texts, want) {
		t.Errorf("at once: got %q, want %q", texts, want)
	}
	f.giveBack(got.Reservations)
	for i := range want {
		if texts, _ := f.taken(1, `Plugin("inf", explore=0, OldestFirst)`); !slices.Equal(texts, want[i:i+1]) {
			t.Errorf("chunk %d: got %q, want %q", i, texts, want[i])
		}
	}
}

// Behaviour 18: whatever the scores, a limit around the plugin holds at every moment.
//
//quern:overlapping
func TestPluginBehaviour18LimitAroundAPlugin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for tenant := range 3 {
		for range 20 {
			f.insert(fmt.Sprintf(`{"chunks":{"count":3,"template":"%d"},"meta":{"tenant":%d},"priority":%d}`, tenant, tenant, 10*tenant))
		}
	}
	f.inUse(wasmtest.Scorer(), "greedy", "priority", "limit:none")
	var mu sync.Mutex
	held, most := map[string]int{}, map[string]int{}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 12 {
				_, got := f.taken(2, `MaxSimultaneous("tenant", 2, Plugin("greedy", OldestFirst))`)
				mu.Lock()
				for _, r := range got.Reservations {
					text := string(r.Content.Bytes)
					held[text]++
					most[text] = max(most[text], held[text])
				}
				mu.Unlock()
				for _, r := range got.Reservations {
					mu.Lock()
					held[string(r.Content.Bytes)]-- // before it is free for others
					mu.Unlock()
					f.results("complete", fmt.Sprintf(`{"token":%q}`, r.Token))
				}
			}
		})
	}
	group.Wait()
	if most["2"] == 0 {
		t.Error("the tenant with the highest scores got nothing")
	}
	for tenant, n := range most {
		if n > 2 {
			t.Errorf("%d chunks of tenant %s were in flight at once, want at most 2", n, tenant)
		}
	}
	if texts, _ := f.taken(100, `MaxSimultaneous("tenant", 2, Plugin("greedy", explore=0, OldestFirst))`); strings.Join(texts, "") != "221100" {
		t.Errorf("at once: got %v, want two of each tenant, the highest scores first", texts)
	}
}

// rising inserts n submissions of one chunk each, of which each has a higher priority than the one before.
func (f *fixture) rising(n int) {
	f.Helper()
	for i := range n {
		f.insert(fmt.Sprintf(`{"chunks":{"count":1,"template":"%d"},"priority":%d}`, i, i))
	}
}

// Behaviour 19: a plugin that always wants the newest lets the oldest wait for 15 others at most, in one call and over many.
func TestPluginBehaviour19ExploreBoundsStarvation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.rising(60)
	f.inUse(wasmtest.Scorer(), "newest", "priority", "limit:none")
	texts, got := f.taken(40, `Plugin("newest", explore=0, OldestFirst)`)
	if slices.Contains(texts, "0") || texts[0] != "59" || len(texts) != 40 {
		t.Errorf("without explore: got %v, want the 40 newest", texts)
	}
	f.giveBack(got.Reservations)
	texts, got = f.taken(32, `Plugin("newest", OldestFirst)`)
	if at := slices.Index(texts, "0"); at < 0 || at > 15 || texts[0] != "59" {
		t.Errorf("at once: the oldest came at %d of %v, want it within 16", at, texts)
	}
	f.giveBack(got.Reservations)
	texts = nil
	for range 16 {
		one, _ := f.taken(1, `Plugin("newest", OldestFirst)`)
		texts = append(texts, one...)
	}
	if at := slices.Index(texts, "0"); at < 0 || at > 15 {
		t.Errorf("one by one: the oldest came at %d of %v, want it within 16", at, texts)
	}
}

// Behaviour 20: within a call no candidate comes more than 255 places later than without the plugin.
func TestPluginBehaviour20WindowBoundsDisplacement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.rising(600)
	f.inUse(wasmtest.Scorer(), "newest", "priority", "limit:none")
	texts, _ := f.taken(600, `Plugin("newest", window=256, explore=0, OldestFirst)`)
	if len(texts) != 600 || texts[0] != "255" || texts[255] != "0" {
		t.Fatalf("got %d chunks, %v first, want 600 and 255 first", len(texts), texts[:min(3, len(texts))])
	}
	for at, text := range texts {
		var inner int
		if _, err := fmt.Sscan(text, &inner); err != nil {
			t.Fatal(err)
		}
		if at > inner+255 {
			t.Errorf("%s came as number %d, want at most %d", text, at, inner+255)
		}
	}
}

// Behaviour 26: a formula orders like the plugin that computes the same.
func TestPluginBehaviour26FormulaOrdersLikeThePlugin(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 26))
	f := newFixture(t)
	for i := range 60 {
		f.insert(fmt.Sprintf(`{"chunks":{"count":1,"template":"%d"},"priority":%d,"meta":{"tries":%d}}`, i, rnd.IntN(7)-3, rnd.IntN(9)))
	}
	f.inUse(wasmtest.Scorer(), "same", "priority", "meta_i64:tries")
	plugin, got := f.taken(100, `Plugin("same", OldestFirst)`)
	f.giveBack(got.Reservations)
	formula, _ := f.taken(100, `Score(priority*10 - meta("tries", 0)*5, OldestFirst)`)
	if !slices.Equal(plugin, formula) || len(plugin) != 60 {
		t.Errorf("by the plugin: %v\nby the formula: %v", plugin, formula)
	}
}

// Behaviour 24: while a plugin keeps every core in guest code, some 20 ms per batch, the server still answers health checks.
//
//quern:overlapping
func TestPluginBehaviour24ServerAnswersWhileGuestsRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert(`{"chunks":{"count":100000,"template":"x"}}`)
	text := `{"name":"busy","version":"1.0.0","abi":1,"columns":["priority","age_ms"],"window":{"max":256},"needs":{"fuel_per_candidate":1000000}}`
	for range 60 {
		f.insert(`{"chunks":{"count":1000,"template":"x"}}`) // 60 million units of fuel are about 20 ms
	}
	f.upload(wasmtest.Moody(wasmtest.NotDry(), wasmtest.Endless()), text, 201)
	f.do("POST", "/v1/plugins/busy/activate", `{"version":"1.0.0"}`, 200, nil)
	f.do("PUT", "/v1/plugins/busy/settings", `{"hold":"closed"}`, 200, nil)
	var stop atomic.Bool
	var answered, running atomic.Int64
	var group sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for !stop.Load() {
				running.Add(1)
				if texts, _ := f.taken(1, `OrElse(Plugin("busy", OldestFirst), OldestFirst)`); len(texts) != 1 {
					t.Errorf("got %v, want one chunk by the fallback", texts)
					return
				}
				running.Add(-1)
				answered.Add(1)
			}
		})
	}
	probes, meanwhile := 0, 0
	var took []time.Duration
	for answered.Load() < 40 && !t.Failed() {
		for _, path := range []string{"/livez", "/metrics"} {
			before, began := running.Load(), time.Now()
			got := f.send(call{method: "GET", path: path})
			took = append(took, time.Since(began))
			if got.status != 200 || len(got.body) == 0 {
				t.Errorf("%s: got %d with %d bytes", path, got.status, len(got.body))
			}
			probes++
			if before > 0 {
				meanwhile++
			}
		}
	}
	stop.Store(true)
	group.Wait()
	var stats api.PluginStats
	f.do("GET", "/v1/plugins/busy/stats", "", 200, &stats)
	if stats.Faults["fuel"]+stats.Faults["deadline"] < 40 || meanwhile == 0 {
		t.Errorf("got %+v after %d probes, %d of them while guests ran; want 40 batches that were ended", stats, probes, meanwhile)
	}
	slices.Sort(took)
	t.Logf("%d probes, which check each answer against the document too: p50 %v, p99 %v", probes, took[len(took)/2], took[len(took)*99/100])
}
