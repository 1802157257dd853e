package plugins_test

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// cached lists the names in the cache of compiled code.
func (w *world) cached() (names []string) {
	w.Helper()
	list, err := os.ReadDir(filepath.Join(w.dir, "compiled"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// distinct uploads a module whose code is its own: modules that differ in custom sections only share theirs.
func (w *world) distinct(name string, number int32) (v api.PluginVersion, entry string) {
	w.Helper()
	before := w.cached()
	v = w.send(wasmtest.Moody(wasmtest.ConstI32(0), wasmtest.Code(wasmtest.ConstI32(number), 0x1a)), declare(name, "1.0.0", two, ""))
	for _, e := range w.cached() {
		if !slices.Contains(before, e) {
			return v, e
		}
	}
	w.Fatalf("%s made no entry in %v", name, before)
	return v, ""
}

// littered is a world after a restart, with an active version, a version that is only ready, and litter: code of versions that are gone, code
// for another engine, what an earlier sweep left. Nothing was swept yet.
func littered(t *testing.T) (w *world, kept, gone []string) {
	t.Helper()
	w = &world{TB: t, clock: &clock{now: time.UnixMilli(1_800_000_000_000)}, dir: t.TempDir(), log: &lockedText{}, idle: true}
	w.start()
	t.Cleanup(func() { w.end() })
	active, activeEntry := w.distinct("active", 1)
	w.activate(active)
	_, readyEntry := w.distinct("ready", 2)
	deleted, deletedEntry := w.distinct("deleted", 3)
	_, otherEntry := w.distinct("other", 4)
	w.end()
	// Deleted behind the catalogue's back, as when its module could not be read.
	dir := filepath.Join(w.dir, "compiled")
	w.start()
	sum, err := hex.DecodeString(deleted.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.DeletePluginVersion(queue.SHA256(sum), "deleted", 0); err != nil {
		t.Fatal(err)
	}
	w.end()
	engines, err := os.ReadDir(filepath.Join(dir, otherEntry))
	if err != nil || len(engines) != 1 {
		t.Fatalf("got %v %v, want the part of one engine", engines, err)
	}
	if err := os.Rename(filepath.Join(dir, otherEntry, engines[0].Name()), filepath.Join(dir, otherEntry, "wazero-v0.0.1-amd64-linux")); err != nil {
		t.Fatal(err)
	}
	older := strings.Repeat("0a", 32) // as another way to rewrite modules would call it
	leftover, probe := strings.Repeat("0b", 32)+".removed", "probe-12345"
	for _, name := range []string{older, leftover, probe} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(dir, activeEntry))); err != nil {
			t.Fatal(err)
		}
	}
	foreign := "README"
	if err := os.WriteFile(filepath.Join(dir, foreign), []byte("not of the cache"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	kept, gone = []string{activeEntry, readyEntry, foreign}, []string{deletedEntry, otherEntry, older, leftover, probe}
	slices.Sort(kept)
	return w, kept, gone
}

// A sweep removes code that belongs to no version, or to another engine, and nothing else: active and ready versions need no compiler
// afterwards.
func TestSweep(t *testing.T) {
	t.Parallel()
	w, kept, gone := littered(t)
	if got := len(w.cached()); got != len(kept)+len(gone) {
		t.Fatalf("before: %d entries %v, want %d and %d", got, w.cached(), len(kept), len(gone))
	}
	removed, bytes, err := w.Sweep(t.Context())
	if err != nil || removed != len(gone) || bytes <= 0 {
		t.Errorf("got %d entries of %d bytes, %v; want %d", removed, bytes, err, len(gone))
	}
	if got := w.cached(); !slices.Equal(got, kept) {
		t.Errorf("the cache has %v, want %v", got, kept)
	}
	if removed, bytes, err := w.Sweep(t.Context()); err != nil || removed != 0 || bytes != 0 {
		t.Errorf("again: got %d entries of %d bytes, %v; want nothing", removed, bytes, err)
	}
	w.end()
	w.change = func(o *plugins.Options) { o.Child = []string{"/nonexistent"} }
	w.start()
	w.activate(api.PluginVersion{Name: "ready", SHA256: w.only("ready").SHA256})
	for _, name := range []string{"active", "ready"} {
		if got := score(t, w.scorer(&strategy.Scored{Plugin: name}), window(1, []int64{1}, []int64{1})); got[0] != 5 {
			t.Errorf("%s scores %v, want 5", name, got)
		}
	}
}

// only is the one version of a plugin.
func (w *world) only(name string) api.PluginVersion {
	w.Helper()
	list, err := w.Versions.Of(name)
	if err != nil || len(list) != 1 {
		w.Fatalf("versions of %s: got %+v %v, want one", name, list, err)
	}
	return list[0]
}

// A sweep leaves code that is loaded meanwhile. It removes nothing if it is ended, or if the owners of the code are not known yet.
func TestSweepLeavesWhatIsInUse(t *testing.T) {
	t.Parallel()
	w, kept, gone := littered(t)
	ended, end := context.WithCancel(t.Context())
	end()
	if removed, _, err := w.Sweep(ended); removed != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("a sweep that was ended: got %d entries, %v", removed, err)
	}
	if got := len(w.cached()); got != len(kept)+len(gone) {
		t.Errorf("a sweep that was ended left %d entries, want all %d", got, len(kept)+len(gone))
	}
	// The version whose code is of another engine is activated: its code is compiled again, and stays.
	w.activate(api.PluginVersion{Name: "other", SHA256: w.only("other").SHA256})
	if removed, _, err := w.Sweep(t.Context()); err != nil || removed != len(gone)-1 {
		t.Errorf("got %d entries, %v; want %d", removed, err, len(gone)-1)
	}
	want := append(slices.Clone(kept), gone[1])
	slices.Sort(want)
	if got := w.cached(); !slices.Equal(got, want) {
		t.Errorf("the cache has %v, want %v", got, want)
	}
	score(t, w.scorer(&strategy.Scored{Plugin: "other"}), window(1, []int64{1}, []int64{1}))
	w.end()
	before := w.cached()
	unopened, err := plugins.New(plugins.Options{Dir: filepath.Join(w.dir, "compiled"), Child: []string{"/nonexistent"}, Now: w.clock.Now, Limits: plugins.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	if removed, _, err := unopened.Sweep(t.Context()); err == nil || removed != 0 || !slices.Equal(w.cached(), before) {
		t.Errorf("before the versions are known: got %d entries, %v; want an error", removed, err)
	}
}

// A server that runs sweeps by itself, and says what it removed.
func TestRunSweeps(t *testing.T) {
	t.Parallel()
	w, kept, gone := littered(t)
	w.end()
	w.idle = false
	w.start()
	for !strings.Contains(w.log.String(), "compiled code that belongs to no plugin was removed") {
		if t.Context().Err() != nil {
			t.Fatalf("nothing was swept; log %s", w.log.String())
		}
		score(t, w.scorer(&strategy.Scored{Plugin: "active"}), window(1, []int64{1}, []int64{1}))
	}
	if got := w.cached(); !slices.Equal(got, kept) {
		t.Errorf("the cache has %v, want %v without %v", got, kept, gone)
	}
}
