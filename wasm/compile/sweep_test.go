package compile_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// After a restart an entry is unused until it is loaded. A module that failed to load claims nothing. A file that is not the cache's is
// neither listed nor removed.
func TestUnclaimed(t *testing.T) {
	t.Parallel()
	before, dir := compiler(t, nil)
	if got, err := before.Unclaimed(); err != nil || len(got) != 0 {
		t.Errorf("an empty cache: got %v %v", got, err)
	}
	load(t, before, wasmtest.Scorer())
	load(t, before, wasmtest.Counter())
	if got, err := before.Unclaimed(); err != nil || len(got) != 0 {
		t.Errorf("what was loaded: got %v %v, want nothing", got, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "other's"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, _ := compiler(t, func(config *compile.Config) { config.Dir = dir })
	load(t, c, wasmtest.Counter())
	if _, err := c.Load(t.Context(), []byte("no module")); err == nil {
		t.Fatal("text was compiled")
	}
	got, err := c.Unclaimed()
	if err != nil || len(got) != 1 || got[0] != (compile.Entry{Key: compile.Key(wasmtest.Scorer()), Usable: true}) {
		t.Errorf("got %v %v, want the one that was not loaded, which is usable", got, err)
	}
	if removed, _, err := c.Remove(compile.Key(wasmtest.Counter())); removed || err != nil {
		t.Errorf("what was loaded: removed %v, %v", removed, err)
	}
	if removed, bytes, err := c.Remove(compile.Key(wasmtest.Scorer())); !removed || bytes == 0 || err != nil {
		t.Errorf("what was not loaded: removed %v, %d bytes, %v", removed, bytes, err)
	}
	if removed, _, err := c.Remove(compile.Key(wasmtest.Scorer())); removed || err != nil {
		t.Errorf("what is gone: removed %v, %v", removed, err)
	}
	if removed, _, err := c.Remove(filepath.Join("..", "other's")); removed || err == nil || !strings.Contains(err.Error(), "no entry") {
		t.Errorf("what is not of the cache: removed %v, %v", removed, err)
	}
	if got := load(t, c, wasmtest.Counter()); !got.FromCache {
		t.Errorf("got %+v, want it from the cache", got)
	}
}

// An entry is loaded and removed at once. A load gets whole code, and loaded code is never removed.
func TestRemoveBesideLoad(t *testing.T) {
	t.Parallel()
	first, dir := compiler(t, nil)
	load(t, first, wasmtest.Scorer())
	key, cached := compile.Key(wasmtest.Scorer()), 0
	for round := range 10 {
		c, _ := compiler(t, func(config *compile.Config) { config.Dir = dir }) // a restart
		var group sync.WaitGroup
		var removed bool
		var compiled *compile.Compiled
		both := []func(){
			func() {
				var err error
				if removed, _, err = c.Remove(key); err != nil {
					t.Errorf("remove: %v", err)
				}
			},
			func() {
				var err error
				if compiled, err = c.Load(t.Context(), wasmtest.Scorer()); err != nil {
					t.Errorf("load: %v", err)
				}
			},
		}
		group.Go(both[round%2]) // the one that is started last mostly comes first
		group.Go(both[1-round%2])
		group.Wait()
		if compiled == nil {
			return
		}
		if removed == compiled.FromCache || compiled.Rebuilt {
			t.Errorf("removed %v, and loaded %+v; want it from the cache unless it was removed", removed, compiled)
		}
		if compiled.FromCache {
			cached++
		}
		if err := compiled.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n := len(entries(t, dir)); n != 1 {
			t.Errorf("the cache has %d files, want the one that was loaded", n)
		}
	}
	t.Logf("%d of 10 loads came before the removal", cached)
}
