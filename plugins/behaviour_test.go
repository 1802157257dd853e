package plugins_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

const bad = 1 << 63 // a seed for which wasmtest.Moody modules are bad

// Every module of the hostile corpus that the scan or the engine refuses, or that fails at once, is refused with its rule; nothing is
// kept of it, and a good plugin in the same process scores on.
//
//quern:sequential
func TestHostileUploads(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	v := w.send(wasmtest.Scorer(), declare("good", "1.0.0", two, ""))
	w.activate(v)
	s := w.scorer(&strategy.Scored{Plugin: "good"})
	for _, hostile := range wasmtest.Corpus() {
		if hostile.Stage == wasmtest.Run && (hostile.Fault == wasmtest.Harmless || hostile.Fault == wasmtest.BadScores) {
			continue // they do allowed things, or are found when they score
		}
		module := hostile.Build()
		_, _, err := w.Versions.Upload(t.Context(), plugins.Upload{Module: module, Manifest: packable(module, declare("bad", "1.0.0", nil, ""))})
		var known *queue.Error
		if !errors.As(err, &known) {
			t.Errorf("%s: got %v, want a refusal", hostile.Name, err)
			continue
		}
		if known.Code == queue.CodeTooLarge {
			continue
		}
		found := problems(t, err)
		want := hostile.Rule
		if hostile.Stage == wasmtest.Run {
			want = "dry_run_" + string(hostile.Fault)
		} else if hostile.Stage == wasmtest.Compile {
			want = "compile_invalid"
		}
		if hostile.Name == "data_out_of_memory" {
			want = "dry_run_trap"
		}
		if !strings.Contains(found, want) {
			t.Errorf("%s: got %q, want %s", hostile.Name, found, want)
		}
	}
	if _, err := w.Plugins.Get("bad"); queue.CodeOf(err) != queue.CodeUnknownPlugin {
		t.Errorf("something of the hostile modules was kept: %v", err)
	}
	if left := w.cached(); len(left) != 1 {
		t.Errorf("the hostile modules left code on disk: got %v, want the good plugin's alone", left)
	}
	if got := score(t, s, window(1, []int64{3}, []int64{1})); got[0] != 25 {
		t.Errorf("the good plugin scores %v afterwards, want 25", got[0])
	}
}

// packable is the manifest to send beside a module, or nil when the module has so little of a module that none can be packed into it.
func packable(module, manifest []byte) []byte {
	if bytes.Contains(module, []byte(abi.ManifestSection)) || len(module) < 8 || !bytes.HasPrefix(module, []byte("\x00asm\x01\x00\x00\x00")) {
		return nil
	}
	if _, err := abiPack(module, manifest); err != nil {
		return nil
	}
	return manifest
}

// All that is wrong with module and manifest is said at once.
func TestAllViolationsAtOnce(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	b := &wasmtest.Builder{}
	b.Type(nil, nil)
	b.ImportFunction("env", "system", 0)
	b.ImportFunction("wasi_snapshot_preview1", "path_open", 0)
	module := b.Bytes()
	_, _, err := w.Versions.Upload(t.Context(), plugins.Upload{Module: module, Manifest: []byte(`{"name":"X","version":"1","abi":9,"columns":["priority","nothing"],"colour":1}`)})
	found := problems(t, err)
	for _, want := range []string{"env.system", "path_open", "missing_memory", "missing_marker", "/manifest/name ", "/manifest/version ", "/manifest/abi ", "/manifest/columns/1 ", "/manifest/colour ", "/module/import/offset/"} {
		if !strings.Contains(found, want) {
			t.Errorf("nothing says %q in:\n%s", want, found)
		}
	}
	for want, text := range map[string][]byte{
		"/manifest/columns/0 ":  declare("x", "1.0.0", []string{"size_hint", "priority"}, ""),
		"/manifest/needs/pages": declare("x", "1.0.0", two, `,"needs":{"pages":1024}`),
	} {
		_, _, err = w.Versions.Upload(t.Context(), plugins.Upload{Module: wasmtest.Scorer(), Manifest: text})
		if found := problems(t, err); !strings.Contains(found, want) {
			t.Errorf("nothing says %q in:\n%s", want, found)
		}
	}
	_, _, err = w.Versions.Upload(t.Context(), plugins.Upload{Module: wasmtest.Scorer()})
	if found := problems(t, err); !strings.Contains(found, "missing_manifest") {
		t.Errorf("a module without a manifest: got %s", found)
	}
}

// Activating and rolling back under load fails no request, and each answer is wholly that of one version.
func TestSwitchUnderLoad(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	one := w.send(wasmtest.Scorer(), declare("switch", "1.0.0", two, ""))
	// The second version reads the columns the other way around, and another one first.
	second := w.send(wasmtest.Scorer(), declare("switch", "2.0.0", []string{"age_ms", "priority"}, ""))
	w.activate(one)
	block := &strategy.Scored{Plugin: "switch"}
	var group sync.WaitGroup
	var stop atomic.Bool
	var scored, changed atomic.Int64
	for range 4 {
		group.Go(func() {
			scores := make([]float64, 2)
			for !stop.Load() {
				s, ok := w.Scorer(block)
				if !ok {
					t.Error("nothing scores")
					return
				}
				in := &strategy.Window{Rows: 2, Want: 1, Columns: make([]strategy.Values, len(s.Reads()))}
				wantOne, wantTwo := [2]float64{}, [2]float64{}
				for k, c := range s.Reads() {
					v := map[strategy.Property]int64{strategy.Priority: 3, strategy.ID: 1, strategy.Age: 7}[c.Property]
					in.Columns[k].Numbers = []int64{v, v + 1}
				}
				wantOne, wantTwo = [2]float64{25, 30}, [2]float64{55, 60}
				if err := s.Score(t.Context(), in, scores); err != nil {
					t.Errorf("score: %v", err)
					return
				}
				if got := [2]float64(scores); got != wantOne && got != wantTwo {
					t.Errorf("got %v, want all of %v or all of %v", got, wantOne, wantTwo)
					return
				}
				scored.Add(1)
			}
		})
	}
	for range 50 {
		w.activate(second)
		if _, err := w.Rollout.Rollback(t.Context(), "switch", plugins.Change{}); err != nil {
			t.Fatal(err)
		}
		w.Tidy()
		changed.Add(2)
		for before := scored.Load(); scored.Load() < before+10 && !t.Failed(); {
			w.Tidy()
		}
	}
	stop.Store(true)
	group.Wait()
	p, _ := w.Plugins.Get("switch")
	if p.Active.SHA256 != one.SHA256 || p.Previous.SHA256 != second.SHA256 || p.Revision != 101 {
		t.Errorf("got %+v, want version 1 active at revision 101", p)
	}
	t.Logf("%d requests over %d switches", scored.Load(), changed.Load())
}

// A version that was replaced is closed after a while, and not before. The active version stays open.
func TestTidy(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.activate(w.send(wasmtest.Scorer(), declare("a", "1.0.0", two, "")))
	w.send(wasmtest.Scorer(), declare("a", "2.0.0", two, ""))
	pinned := &strategy.Scored{Plugin: "a", Version: "2.0.0"}
	score(t, w.scorer(pinned), window(1, []int64{1}, []int64{1}))
	w.clock.forward(4 * time.Minute)
	w.Tidy()
	if _, ok := w.Scorer(pinned); !ok {
		t.Error("a version was closed too early")
	}
	w.clock.forward(6 * time.Minute)
	w.Tidy()
	score(t, w.scorer(&strategy.Scored{Plugin: "a"}), window(1, []int64{1}, []int64{1}))
	score(t, w.scorer(pinned), window(1, []int64{1}, []int64{1})) // Check opens it again
}

// A restart takes the code from the cache; a damaged cache file is rebuilt and logged; a version that cannot be read is quarantined,
// and the others serve.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	for _, name := range []string{"a", "b"} {
		w.activate(w.send(wasmtest.Scorer(), declare(name, "1.0.0", two, "")))
	}
	w.end()
	childless := func(o *plugins.Options) { o.Child = []string{"/nonexistent"} }
	w.change = childless
	w.start()
	for _, name := range []string{"a", "b"} {
		if got := score(t, w.scorer(&strategy.Scored{Plugin: name}), window(1, []int64{1}, []int64{1})); got[0] != 5 {
			t.Errorf("%s scores %v after a restart without a compiler, want 5", name, got)
		}
	}
	w.end()
	damaged := 0
	err := filepath.WalkDir(filepath.Join(w.dir, "compiled"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			damaged++
			return os.WriteFile(path, []byte("no code"), 0o600)
		}
		return err
	})
	if err != nil || damaged < 1 {
		t.Fatalf("damaged %d files, %v", damaged, err)
	}
	w.change = nil
	w.start()
	if got := score(t, w.scorer(&strategy.Scored{Plugin: "a"}), window(1, []int64{1}, []int64{1})); got[0] != 5 || !strings.Contains(w.log.String(), "was damaged and has been rebuilt") {
		t.Errorf("a scores %v after its code was damaged, log %s", got, w.log.String())
	}
	v, _ := w.Versions.Of("a")
	w.end()
	// And now the code is gone for good: no file, no compiler.
	if err := os.RemoveAll(filepath.Join(w.dir, "compiled")); err != nil {
		t.Fatal(err)
	}
	w.change = childless
	w.start()
	if p, _ := w.Plugins.Get("a"); p.State != "quarantined" || !strings.Contains(p.Breaker.Reason, "could not be opened at the start") {
		t.Errorf("got %+v, want it quarantined", p)
	}
	w.end()
	w.change = nil
	w.start()
	if _, err := w.Rollout.Activate(t.Context(), "a", api.PluginSelection{Version: v[0].SHA256, Force: true}, plugins.Change{}); err != nil {
		t.Errorf("by force, with a compiler: %v", err)
	}
	score(t, w.scorer(&strategy.Scored{Plugin: "a"}), window(1, []int64{1}, []int64{1}))
}

// A canary scores its share of the requests, drawn by their seed, and a bad one is left to itself.
func TestCanary(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.activate(w.send(wasmtest.Scorer(), declare("c", "1.0.0", two, "")))
	w.send(wasmtest.Scorer(), declare("c", "2.0.0", []string{"age_ms", "priority"}, ""))
	p, err := w.Rollout.Canary(t.Context(), "c", api.PluginSelection{Version: "2.0.0", Percent: 25}, plugins.Change{})
	if err != nil || p.Canary == nil || p.CanaryPercent != 25 {
		t.Fatalf("got %+v %v, want a canary", p, err)
	}
	s := w.scorer(&strategy.Scored{Plugin: "c"})
	if got, want := s.Reads(), []strategy.Column{{Property: strategy.Priority}, {Property: strategy.ID}, {Property: strategy.Age}}; !slices.Equal(got, want) {
		t.Fatalf("reads %v, want %v: the columns of both", got, want)
	}
	count := map[float64]int{}
	for seed := range uint64(4000) {
		in := window(seed, []int64{3}, []int64{1}, []int64{7})
		first := score(t, s, in)[0]
		if again := score(t, s, in)[0]; again != first {
			t.Fatalf("seed %d: got %v and then %v", seed, first, again)
		}
		count[first]++
	}
	if n := count[55]; n < 900 || n > 1100 || count[25] != 4000-n {
		t.Errorf("got %v, want about 1000 of 55 from the canary and the rest 25", count)
	}
	if p, err := w.Rollout.Canary(t.Context(), "c", api.PluginSelection{Percent: 30}, plugins.Change{}); err != nil || p.Canary != nil || p.CanaryPercent != 0 {
		t.Errorf("of no version 30 per cent: canary %v at %d, %v; want none at 0", p.Canary, p.CanaryPercent, err)
	}
	if p, err := w.Rollout.Canary(t.Context(), "c", api.PluginSelection{Percent: 0}, plugins.Change{}); err != nil || p.Canary != nil || p.CanaryPercent != 0 {
		t.Errorf("got %+v %v, want no canary", p, err)
	}
}

// A canary that is promoted ends as a canary, with its share; one of another version than the activated one stays, and so does a shadow.
func TestActivateBesideACanary(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	var versions []api.PluginVersion
	for _, version := range []string{"1.0.0", "2.0.0", "3.0.0"} {
		versions = append(versions, w.send(wasmtest.Scorer(), declare("c", version, two, "")))
	}
	w.activate(versions[0])
	if _, err := w.Rollout.Canary(t.Context(), "c", api.PluginSelection{Version: "2.0.0", Percent: 25}, plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Rollout.Shadow(t.Context(), "c", api.PluginSelection{Version: "2.0.0"}, plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	p := w.activate(versions[2])
	if p.Canary == nil || p.Canary.SHA256 != versions[1].SHA256 || p.CanaryPercent != 25 || p.Shadow == nil {
		t.Errorf("activating another version: got the canary %+v with %d %% and the shadow %+v, want both kept", p.Canary, p.CanaryPercent, p.Shadow)
	}
	p = w.activate(versions[1])
	if p.Canary != nil || p.CanaryPercent != 0 || p.Shadow != nil || p.Active.SHA256 != versions[1].SHA256 {
		t.Errorf("promoting the canary: got the canary %+v with %d %% and the shadow %+v, want it active and neither", p.Canary, p.CanaryPercent, p.Shadow)
	}
	if got, want := w.scorer(&strategy.Scored{Plugin: "c"}).Reads(), 2; len(got) != want {
		t.Errorf("the scorer reads %v, want the columns of one version", got)
	}
}

// A shadow scores the same windows without deciding, and its decisions are compared.
func TestShadow(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.activate(w.send(wasmtest.Scorer(), declare("s", "1.0.0", two, "")))
	w.send(wasmtest.Scorer(), declare("s", "2.0.0", []string{"submission_id", "priority"}, ""))
	if _, err := w.Rollout.Shadow(t.Context(), "s", api.PluginSelection{Version: "2.0.0"}, plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	s := w.scorer(&strategy.Scored{Plugin: "s"})
	up, down := []int64{1, 2, 3, 4, 5, 6}, []int64{6, 5, 4, 3, 2, 1}
	for seed := range uint64(10) {
		if got := score(t, s, window(seed, up, down)); got[0] != -20 {
			t.Fatalf("the shadow decides: got %v", got)
		}
	}
	var stats api.PluginStats
	for stats.Shadow == nil || stats.Shadow.Batches+stats.Shadow.Dropped < 10 {
		var err error
		if stats, err = w.Observations.Stats("s"); err != nil || t.Context().Err() != nil {
			t.Fatalf("%v %v", err, t.Context().Err())
		}
	}
	if stats.Shadow.Overlap != 0 || stats.Shadow.Tau != -1 || stats.Batches != 10 {
		t.Errorf("got %+v, want that they disagree in everything over 10 batches", stats.Shadow)
	}
}

// With the state reset a recorded batch gives the same bits again; a batch that faults is recorded without scores.
func TestRecordings(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *plugins.Options) { o.Limits.RecordEvery = 1; o.Limits.Records = 3 })
	v := w.send(wasmtest.Moody(wasmtest.NegativeSeed(), wasmtest.Endless()), declare("r", "1.0.0", two, `,"state":"reset"`))
	w.activate(v)
	s := w.scorer(&strategy.Scored{Plugin: "r"})
	for seed := range uint64(5) {
		score(t, s, window(seed, []int64{1, 2}, []int64{3, 4}))
	}
	_ = s.Score(t.Context(), window(bad, []int64{1}, []int64{1}), make([]float64, 1))
	list, err := w.Observations.Recordings("r")
	if err != nil || len(list) != 4 || list[0].ID != 6 || !strings.Contains(list[0].Fault, "fuel") || list[1].Fault != "" || list[3].ID != 3 {
		t.Fatalf("got %+v %v, want the fault and the last three", list, err)
	}
	file, err := w.Observations.Recording("r", list[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	record, err := abi.ReadRecord(file)
	if err != nil || record.Module != "r@1.0.0 sha256:"+v.SHA256 || fmt.Sprint(record.Scores) != "[-5 0]" || record.Batch.Seed != 4 {
		t.Errorf("got %+v %v", record, err)
	}
	for range 100 {
		tried, err := w.Versions.Try(t.Context(), "r", "1.0.0", plugins.DryRun{Recording: list[1].ID})
		if err != nil || !tried.Replay.Identical || tried.Replay.Rows != 2 {
			t.Fatalf("replay: got %+v %v, want the same bits", tried.Replay, err)
		}
	}
	if file, err = w.Observations.Recording("r", list[0].ID); err != nil {
		t.Fatal(err)
	}
	if record, err = abi.ReadRecord(file); err != nil || record.Scores != nil {
		t.Errorf("the fault's recording: got %+v %v, want no scores", record, err)
	}
	if _, err := w.Observations.Recording("r", 1); queue.CodeOf(err) != queue.CodeUnknownPlugin {
		t.Errorf("a recording that made room: got %v", err)
	}
}

// The state reset makes a counting plugin deterministic; pooled does not.
func TestDeterminismIsReported(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	pooled := w.send(wasmtest.Counter(), declare("pooled", "1.0.0", nil, ""))
	reset := w.send(wasmtest.Counter(), declare("reset", "1.0.0", nil, `,"state":"reset"`))
	if pooled.Report.Deterministic || !reset.Report.Deterministic {
		t.Errorf("got deterministic %v for pooled and %v for reset", pooled.Report.Deterministic, reset.Report.Deterministic)
	}
}

// At most 32 lines of a batch and 100 a second are kept, the rest is counted.
func TestLogs(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	module := hostile(t, "log_10000")
	w.activate(w.send(module, declare("loud", "1.0.0", nil, "")))
	s := w.scorer(&strategy.Scored{Plugin: "loud"})
	for range 4 {
		score(t, s, &strategy.Window{Rows: 1})
	}
	lines, dropped, err := w.Observations.Logs("loud", 0, 1000)
	if err != nil || len(lines) != 100 || dropped != 4*10_000-100 || lines[99].Number != 100 || lines[0].Text != "the same line again" {
		t.Errorf("got %d lines, %d dropped, %v; want 100 and 39900", len(lines), dropped, err)
	}
	w.clock.forward(time.Second)
	score(t, s, &strategy.Window{Rows: 1})
	if lines, _, _ := w.Observations.Logs("loud", 100, 10); len(lines) != 10 || lines[0].Number != 101 {
		t.Errorf("a second later: got %+v", lines)
	}
}

// A configuration that the manifest's schema refuses changes nothing, whether it is an operator's or a strategy's.
func TestConfig(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	schema := `,"config_schema":{"type":"object","properties":{"boost":{"type":"integer","minimum":0,"default":3}},"additionalProperties":false}`
	v := w.send(wasmtest.Scorer(), declare("conf", "1.0.0", two, schema))
	p := w.activate(v)
	if string(p.Active.Config) != `{"boost":3}` {
		t.Errorf("got the configuration %s, want the defaults", p.Active.Config)
	}
	_, err := w.Rollout.Activate(t.Context(), "conf", api.PluginSelection{Version: "1.0.0", Config: []byte(`{"boost":-1,"colour":2}`)}, plugins.Change{})
	if found := problems(t, err); !strings.Contains(found, "/config/boost") || !strings.Contains(found, "/config/colour") {
		t.Errorf("got %s, want both fields", found)
	}
	if p, _ := w.Plugins.Get("conf"); p.Revision != 1 || string(p.Active.Config) != `{"boost":3}` {
		t.Errorf("got %+v, want it unchanged", p)
	}
	_, err = w.Check(w.Context(), &strategy.Scored{Plugin: "conf", Config: []byte(`{"boost":"x"}`)})
	if found := problems(t, err); !strings.Contains(found, "/config/boost") {
		t.Errorf("got %s", found)
	}
	for pointer, block := range map[string]*strategy.Scored{
		"/name": {Plugin: "none"}, "/version": {Plugin: "conf", Version: "9.9.9"}, "/window": {Plugin: "conf", Window: 4096},
	} {
		_, err := w.Check(w.Context(), block)
		if found := problems(t, err); !strings.HasPrefix(found, pointer+" ") {
			t.Errorf("%+v: got %s, want %s", block, found, pointer)
		}
	}
	score(t, w.scorer(&strategy.Scored{Plugin: "conf", Config: []byte(`{"boost":7}`)}), window(1, []int64{1}, []int64{1}))
	score(t, w.scorer(&strategy.Scored{Plugin: "conf", Version: v.SHA256[:8]}), window(1, []int64{1}, []int64{1}))
}

// A version or plugin in use cannot be deleted. Any other is deleted without a trace, in the store and in the cache.
func TestDelete(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	one := w.send(wasmtest.Scorer(), declare("d", "1.0.0", two, ""))
	w.activate(one)
	w.activate(w.send(wasmtest.Scorer(), declare("d", "2.0.0", two, "")))
	if err := w.Versions.Delete("d", "2.0.0", plugins.Change{}); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("deleting the active version: got %v, want a conflict", err)
	}
	if err := w.Plugins.Delete("d", plugins.Change{}); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("deleting an active plugin: got %v, want a conflict", err)
	}
	if err := w.Versions.Delete("d", "1.0.0", plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Rollout.Rollback(t.Context(), "d", plugins.Change{}); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("rolling back to what was deleted: got %v, want a conflict", err)
	}
	if _, err := w.Rollout.Deactivate("d", plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Plugins.Delete("d", plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	if list, next := w.Plugins.List("", 10); len(list) != 0 || next != "" {
		t.Errorf("got %+v", list)
	}
	if versions, err := w.store.PluginVersions(); err != nil || len(versions) != 0 {
		t.Errorf("the store still has %v %v", versions, err)
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "compiled", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("the cache still has %v %v", left, err)
	}
	w.end()
	w.start()
}

// The bounds on names, versions and bytes hold, and say what to do.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *plugins.Options) { o.Limits.Names, o.Limits.Versions, o.Limits.Bytes = 2, 2, 1500 })
	for i, name := range []string{"a", "a", "b"} {
		w.send(wasmtest.Scorer(), declare(name, fmt.Sprintf("%d.0.0", i), two, ""))
	}
	for want, name := range map[string]string{"2 plugins": "c", "2 versions": "a", "1500 are allowed": "b"} {
		_, _, err := w.Versions.Upload(t.Context(), plugins.Upload{Module: wasmtest.Scorer(), Manifest: declare(name, "9.0.0", two, `,"license":"`+strings.Repeat("x", 250)+`"`)})
		if queue.CodeOf(err) != queue.CodeConflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a conflict that says %q", name, err, want)
		}
	}
}

func hostile(t testing.TB, name string) []byte {
	t.Helper()
	for _, h := range wasmtest.Corpus() {
		if h.Name == name {
			return h.Build()
		}
	}
	t.Fatalf("the corpus has no %s", name)
	return nil
}

// Rows that the plugin skips are NaN, and those that it does not write are skipped and counted.
func TestSkips(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	v := w.send(hostile(t, "scores_half_written"), declare("half", "1.0.0", nil, ""))
	if v.Report.SkipShare < 0.4 || v.Report.SkipShare > 0.6 || v.Report.NaNShare != 0 {
		t.Errorf("got the report %+v, want half of the rows unwritten", v.Report)
	}
	w.activate(v)
	if got := score(t, w.scorer(&strategy.Scored{Plugin: "half"}), &strategy.Window{Rows: 3}); got[0] != 1 || !nan(got[1]) || got[2] != 1 {
		t.Errorf("got %v, want 1 NaN 1", got)
	}
	stats, _ := w.Observations.Stats("half")
	if stats.Unwritten != 1 || stats.Skipped != 0 || stats.Candidates != 3 || math.IsNaN(stats.NsPerCandidate) {
		t.Errorf("got %+v", stats)
	}
}
