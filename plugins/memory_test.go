package plugins_test

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// heavy is a module of 1.9 MB, like no other number's: 4 MB of code and module in memory, and 2 MB for each sandbox.
func heavy(n int) []byte {
	return wasmtest.Stuffed(31, bytes.Repeat([]byte{byte(n), 1, 2, 3}, 475_000))
}

// gauge is the value of a metric that has one for all plugins.
func (w *world) gauge(name string) int64 {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return int64(f.Metric[0].GetGauge().GetValue())
		}
	}
	w.Fatalf("there is no metric %s", name)
	return 0
}

func (w *world) code() int64 { return w.gauge("quern_plugins_code_bytes") }

// ticking has a clock that is a microsecond later at each look, so that one use is before another.
func ticking(memory int64) func(*plugins.Options) {
	return func(o *plugins.Options) {
		now := o.Now
		var looks atomic.Int64
		o.Now = func() time.Time { return now().Add(time.Duration(looks.Add(1)) * time.Microsecond) }
		o.Limits.Memory = memory
	}
}

// sendHeavy uploads versions 1.0.first to 1.0.last of one plugin.
func (w *world) sendHeavy(first, last int) (list []api.PluginVersion) {
	for n := first; n <= last; n++ {
		list = append(list, w.send(heavy(n), declare("heavy", fmt.Sprintf("1.0.%d", n), two, "")))
	}
	return list
}

// Versions that no one uses are not compiled, and those that consumers ask for make room for each other. The active version scores all the
// time.
func TestManyVersionsWithinTheMemory(t *testing.T) {
	t.Parallel()
	const most, versions = 32 << 20, 10
	w := open(t, ticking(most))
	w.activate(w.sendHeavy(0, 0)[0])
	one := w.code()
	if one < 2*1_900_000 {
		t.Fatalf("%d bytes are counted for the code of the active version, want that of 1.9 MB", one)
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { // scores until stop
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, ok := w.Scorer(&strategy.Scored{Plugin: "heavy"})
				if !ok {
					t.Error("the active version does not score")
					return
				}
				scores := make([]float64, 1)
				if err := s.Score(t.Context(), window(1, []int64{1}, []int64{1}), scores); err != nil || scores[0] != 5 {
					t.Errorf("the active version: got %v %v, want 5", scores, err)
					return
				}
				if used := w.gauge("quern_plugins_memory_bytes"); used > most {
					t.Errorf("%d bytes are in use, and %d may be", used, most)
					return
				}
			}
		})
	}
	for n := 1; n <= versions; n++ {
		w.sendHeavy(n, n)
		if got := w.code(); got != one {
			t.Errorf("after upload %d: %d bytes of code, want %d, that of the active version", n, got, one)
		}
	}
	for n := 1; n <= versions; n++ {
		pinned := &strategy.Scored{Plugin: "heavy", Version: fmt.Sprintf("1.0.%d", n)}
		if got := score(t, w.scorer(pinned), window(1, []int64{2}, []int64{2})); got[0] != 10 {
			t.Errorf("version %d scores %v, want 10", n, got)
		}
	}
	close(stop)
	group.Wait()
	if got := w.code(); got <= 2*one || got > most {
		t.Errorf("%d bytes of code, want that of some versions, for which there is room", got)
	}
	w.clock.forward(plugins.DefaultLimits().Linger)
	w.Tidy()
	if got := w.code(); got != one {
		t.Errorf("%d bytes of code after a while, want %d, that of the active version", got, one)
	}
}

// The configurations of a version share its code.
func TestConfigurationsShareCode(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	schema := `,"config_schema":{"type":"object","properties":{"n":{"type":"integer"}}}`
	w.activate(w.send(wasmtest.Scorer(), declare("conf", "1.0.0", two, schema)))
	one := w.code()
	for n := range 10 {
		s := w.scorer(&strategy.Scored{Plugin: "conf", Config: fmt.Appendf(nil, `{"n":%d}`, n)})
		if got := score(t, s, window(1, []int64{1}, []int64{1})); got[0] != 5 {
			t.Errorf("configuration %d scores %v, want 5", n, got)
		}
	}
	if got := w.code(); got != one {
		t.Errorf("%d bytes of code with 10 configurations, want %d, as with one", got, one)
	}
	w.clock.forward(plugins.DefaultLimits().Linger)
	w.Tidy()
	score(t, w.scorer(&strategy.Scored{Plugin: "conf"}), window(1, []int64{1}, []int64{1}))
}

// A version that was replaced is closed after a while, also when a rollback would bring it back.
func TestWhatWasReplacedIsClosed(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	versions := w.sendHeavy(0, 1)
	w.activate(versions[0])
	one := w.code()
	w.clock.forward(time.Hour)
	w.activate(versions[1])
	w.Tidy()
	if got := w.code(); got != 2*one {
		t.Errorf("%d bytes of code, want %d: who has the version that was replaced has time to end", got, 2*one)
	}
	w.clock.forward(plugins.DefaultLimits().Linger)
	w.Tidy()
	if got := w.code(); got != one {
		t.Errorf("%d bytes of code after a while, want %d, that of the active version", got, one)
	}
	if _, err := w.Rollout.Rollback(t.Context(), "heavy", plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	score(t, w.scorer(&strategy.Scored{Plugin: "heavy"}), window(1, []int64{1}, []int64{1}))
}

// A rollback succeeds even if there is no memory for the old version beside the active one: the replaced version makes room.
func TestRollbackWithoutMemory(t *testing.T) {
	t.Parallel()
	w := open(t, ticking(9<<20)) // one version has 6 MB
	versions := w.sendHeavy(0, 1)
	w.activate(versions[0])
	_, err := w.Rollout.Activate(t.Context(), "heavy", api.PluginSelection{Version: versions[1].SHA256}, plugins.Change{})
	if queue.CodeOf(err) != queue.CodeOverloaded {
		t.Fatalf("activating one beside the other: got %v, want %s, or this test proves nothing", err, queue.CodeOverloaded)
	}
	if _, err := w.Rollout.Deactivate("heavy", plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	w.activate(versions[1])
	p, err := w.Rollout.Rollback(t.Context(), "heavy", plugins.Change{})
	if err != nil || p.Active.SHA256 != versions[0].SHA256 || p.Previous.SHA256 != versions[1].SHA256 {
		t.Fatalf("rollback: got %+v %v, want version 0 active", p, err)
	}
	w.Catalogue.Start(t.Context())
	score(t, w.scorer(&strategy.Scored{Plugin: "heavy"}), window(1, []int64{1}, []int64{1}))
	if got := w.gauge("quern_plugins_memory_bytes"); got > 9<<20 {
		t.Errorf("%d bytes are in use, and 9 MiB may be", got)
	}
}

// Where memory is short, formulas that no one is in make room, code and all, and are compiled again when they are asked for.
func TestFormulasMakeRoom(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *plugins.Options) { ticking(plugins.MinMemory)(o); o.Limits.Uses = 1 })
	for n := range 20 { // each has 128 KiB or more
		score(t, w.scorer(formula(t, n)), window(1, []int64{1}))
	}
	kept := w.gauge("quern_score_formulas")
	if kept < 2 || kept > 8 || w.gauge("quern_plugins_memory_bytes") > plugins.MinMemory {
		t.Errorf("%d formulas are kept in %d bytes, want some in 1 MiB", kept, w.gauge("quern_plugins_memory_bytes"))
	}
	if limit := w.gauge("quern_score_formulas_limit"); limit != 256 {
		t.Errorf("the limit of formulas is shown as %d, want 256", limit)
	}
	score(t, w.scorer(formula(t, 0)), window(1, []int64{1}))
}
