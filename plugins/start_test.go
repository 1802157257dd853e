package plugins_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// costly is a world whose clock is a millisecond later at each look, so that guests take time: a start of the module slow some hundred
// milliseconds, a batch a few.
func costly(t *testing.T) *world {
	return open(t, func(o *plugins.Options) {
		now := o.Now
		var looks atomic.Int64
		o.Now = func() time.Time { return now().Add(time.Duration(looks.Add(1)) * time.Millisecond) }
		o.Limits.Quarantine = 100
		o.Limits.Host.InitDeadline = time.Hour
	})
}

func slow() []byte { return wasmtest.SlowStart(2_000_000) }

// The start of a sandbox counts as a batch does: a plugin that starts one for each batch is throttled for the time of its starts.
func TestStartsAreMetered(t *testing.T) {
	t.Parallel()
	w := costly(t)
	w.activate(w.send(slow(), declare("fresh", "1.0.0", two, `,"state":"fresh"`)))
	block := &strategy.Scored{Plugin: "fresh"}
	for range 100 {
		s, ok := w.Scorer(block)
		if !ok {
			break
		}
		_ = s.Score(t.Context(), window(1, []int64{1}, []int64{1}), make([]float64, 1))
	}
	p, err := w.Plugins.Get("fresh")
	if err != nil || p.State != "throttled" {
		t.Errorf("got %+v %v, want it throttled", p, err)
	}
}

// Configurations that consumers make up are started for a share of the processor. Over it their blocks fall back, and the plugin serves on.
func TestNewConfigurationsAreMetered(t *testing.T) {
	t.Parallel()
	w := costly(t)
	schema := `,"config_schema":{"type":"object","properties":{"n":{"type":"integer"}}}`
	w.activate(w.send(slow(), declare("conf", "1.0.0", two, schema)))
	started := 0
	for n := range 60 {
		block := &strategy.Scored{Plugin: "conf", Config: fmt.Appendf(nil, `{"n":%d}`, n)}
		resting, err := w.Check(w.Context(), block)
		if err != nil {
			t.Fatalf("configuration %d: %v", n, err)
		}
		_, ok := w.Scorer(block)
		if ok {
			started++
		}
		if ok != (resting == nil) {
			t.Fatalf("configuration %d: got %v, and it scores: %v", n, resting, ok)
		}
	}
	if started == 0 || started > 40 {
		t.Errorf("%d of 60 configurations were started, want some, and no more than a share of the processor starts", started)
	}
	score(t, w.scorer(&strategy.Scored{Plugin: "conf"}), window(1, []int64{1}, []int64{1}))
}

// reads is a store that remembers which modules were read, in order.
type reads struct {
	*store.Catalogue
	mu   sync.Mutex
	sums []queue.SHA256
}

func (r *reads) PluginModule(sum queue.SHA256) ([]byte, bool, error) {
	r.mu.Lock()
	r.sums = append(r.sums, sum)
	r.mu.Unlock()
	return r.Catalogue.PluginModule(sum)
}

// A catalogue serves before its plugins are open: until one is, requests go on without it, which is counted and held against no one.
// Plugins that requests ask for are opened first.
func TestServesBeforePluginsAreOpen(t *testing.T) {
	t.Parallel()
	w := &world{TB: t, clock: &clock{now: time.UnixMilli(1_800_000_000_000)}, dir: t.TempDir(), log: &lockedText{}, idle: true}
	w.start()
	t.Cleanup(func() { w.end() })
	for _, name := range []string{"a", "b", "c"} {
		w.activate(w.send(wasmtest.Scorer(), declare(name, "1.0.0", two, "")))
	}
	w.send(wasmtest.Scorer(), declare("a", "2.0.0", two, ""))
	if _, err := w.Rollout.Canary(t.Context(), "a", api.PluginSelection{Version: "2.0.0", Percent: 10}, plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	w.end()
	w.unstarted = true
	asked := &reads{}
	w.over = func(c *store.Catalogue) plugins.Store { asked.Catalogue = c; return asked }
	w.start()
	if len(asked.sums) != 0 {
		t.Errorf("opening the catalogue read %d modules, want none", len(asked.sums))
	}
	if names, active := w.Starting(); fmt.Sprint(names) != "[a b c]" || active != 3 {
		t.Errorf("got %v of %d, want that all three are starting", names, active)
	}
	block := &strategy.Scored{Plugin: "b"}
	if resting, err := w.Check(w.Context(), block); err != nil || resting == nil || !strings.Contains(resting.Detail, "not ready yet") {
		t.Errorf("check: got %v %v, want that it is not ready yet", resting, err)
	}
	if _, ok := w.Scorer(block); ok {
		t.Error("b scores before it is open")
	}
	p, _ := w.Plugins.Get("b")
	stats, _ := w.Observations.Stats("b")
	if p.State != "starting" || p.Breaker.State != "starting" || p.Breaker.Reason == "" || stats.Fallbacks != 1 || stats.FallbackReasons["starting"] != 1 || len(stats.Faults) != 0 {
		t.Errorf("got %+v and %+v, want it starting, and one request without it for that reason", p, stats)
	}
	w.Start(t.Context())
	var order []string
	for _, sum := range asked.sums {
		for _, name := range []string{"a", "b", "c"} {
			if v, err := w.Versions.Get(name, hex.EncodeToString(sum[:])); err == nil {
				order = append(order, v.Name+"@"+v.Version)
			}
		}
	}
	if got := fmt.Sprint(order); got != "[b@1.0.0 a@1.0.0 c@1.0.0 a@2.0.0]" {
		t.Errorf("opened in the order %s, want first what was asked for, and canaries last", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		if p, _ := w.Plugins.Get(name); p.State != "active" {
			t.Errorf("%s is %s, want it active", name, p.State)
		}
		score(t, w.scorer(&strategy.Scored{Plugin: name}), window(1, []int64{1}, []int64{1}))
	}
	if names, _ := w.Starting(); len(names) != 0 {
		t.Errorf("%v are still starting", names)
	}
}

// No matter who opens what is in use first, a dry run before the catalogue comes to it, the plugin scores from then on.
func TestDryRunOpensWhatIsStarting(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.activate(w.send(wasmtest.Scorer(), declare("a", "1.0.0", two, "")))
	w.end()
	w.unstarted, w.idle = true, true
	w.start()
	if _, err := w.Versions.Try(t.Context(), "a", "1.0.0", plugins.DryRun{}); err != nil {
		t.Fatal(err)
	}
	score(t, w.scorer(&strategy.Scored{Plugin: "a"}), window(1, []int64{1}, []int64{1}))
}

// A start that is stopped quarantines nothing: the next one goes on.
func TestStartThatIsStopped(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.activate(w.send(slow(), declare("a", "1.0.0", two, "")))
	w.end()
	w.unstarted, w.idle = true, true
	w.start()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Start(ctx)
	if p, _ := w.Plugins.Get("a"); p.State != "starting" {
		t.Errorf("got %s, want it starting", p.State)
	}
	w.Start(t.Context())
	if p, _ := w.Plugins.Get("a"); p.State != "active" {
		t.Errorf("got %s, want it active", p.State)
	}
}

// All plugins together have no more memory than they may: the sandbox that is idle longest makes room. A plugin that gets none falls back
// for that reason, which is not its fault.
func TestMemoryOfAllPlugins(t *testing.T) {
	t.Parallel()
	const page = 64 << 10
	w := open(t, func(o *plugins.Options) { o.Limits.Memory = 25 * page })
	for _, name := range []string{"a", "b", "c"} {
		w.activate(w.send(wasmtest.Roomy(10), declare(name, "1.0.0", two, "")))
	}
	for range 3 {
		for _, name := range []string{"a", "b", "c"} {
			if got := score(t, w.scorer(&strategy.Scored{Plugin: name}), window(1, []int64{1}, []int64{1})); got[0] != 5 {
				t.Errorf("%s scores %v, want 5", name, got)
			}
			instances := 0
			for _, other := range []string{"a", "b", "c"} {
				stats, _ := w.Observations.Stats(other)
				instances += stats.Instances
			}
			if instances > 2 {
				t.Fatalf("%d sandboxes of 10 pages are open, want two at most: all may have 25 pages", instances)
			}
		}
	}
	grow := wasmtest.Moody(wasmtest.NotDry(), wasmtest.Code(wasmtest.ConstI32(25), 0x40, 0, 0x41, 0x7f, 0x46, 0x04, wasmtest.Empty, 0x00, wasmtest.End))
	w.activate(w.send(grow, declare("hungry", "1.0.0", two, "")))
	s := w.scorer(&strategy.Scored{Plugin: "hungry"})
	for range 5 {
		if err := s.Score(t.Context(), window(1, []int64{1}, []int64{1}), make([]float64, 1)); err == nil {
			t.Fatal("it has more memory than all may have")
		}
	}
	p, _ := w.Plugins.Get("hungry")
	stats, _ := w.Observations.Stats("hungry")
	if p.State != "active" || stats.FallbackReasons["memory"] != 5 || len(stats.Faults) != 0 || !strings.Contains(w.log.String(), "a plugin has no sandbox") {
		t.Errorf("got %+v and %+v, want it active and five requests without it for want of memory; log %s", p, stats, w.log.String())
	}
	found := false
	families, err := w.registry.Gather()
	for _, f := range families {
		if f.GetName() == "quern_plugins_memory_denied_total" {
			found = f.Metric[0].GetCounter().GetValue() == 5
		}
	}
	if err != nil || !found {
		t.Errorf("the metrics do not tell of five refusals, %v", err)
	}
}
