package compile_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// The test binary is its own child: the real thing under real limits.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "plugin-compile" {
		os.Exit(compile.Child(os.Args[2:], os.Stdin, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "hang" {
		select {}
	}
	if len(os.Args) == 4 && os.Args[1] == "measure" {
		os.Exit(measure(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

func compiler(t *testing.T, change func(*compile.Config)) (*compile.Compiler, string) {
	t.Helper()
	config := compile.Config{Dir: t.TempDir(), Command: wasmtest.Child("plugin-compile"), Limits: compile.DefaultLimits()}
	if raceEnabled {
		config.Limits.MemoryBytes = 0 // the race detector alone reserves more address space than that
	}
	if change != nil {
		change(&config)
	}
	return compile.New(config), config.Dir
}

func load(t *testing.T, c *compile.Compiler, module []byte) *compile.Compiled {
	t.Helper()
	compiled, err := c.Load(t.Context(), module)
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return compiled
}

// entries are the files of machine code in the cache.
func entries(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The first load needs a child, the next ones do not, even from another Compiler: that is a restart.
func TestLoad(t *testing.T) {
	t.Parallel()
	c, dir := compiler(t, nil)
	if got := load(t, c, wasmtest.Scorer()); got.FromCache || got.Rebuilt || got.CPU <= 0 {
		t.Errorf("first: got %+v, want it from a child that used some CPU", got)
	}
	if got := load(t, c, wasmtest.Scorer()); !got.FromCache {
		t.Errorf("second: got %+v, want it from the cache", got)
	}
	restarted, _ := compiler(t, func(config *compile.Config) { config.Dir, config.Command = dir, []string{"/nonexistent"} })
	if got := load(t, restarted, wasmtest.Scorer()); !got.FromCache {
		t.Errorf("after a restart: got %+v, want it from the cache", got)
	}
	if err := c.Forget(compile.Key(wasmtest.Scorer())); err != nil || len(entries(t, dir)) != 0 {
		t.Errorf("forgotten: %v, files %v are left", err, entries(t, dir))
	}
	if got, err := restarted.Load(t.Context(), wasmtest.Scorer()); err == nil {
		t.Errorf("got %+v without a cache and without a child", got)
	}
}

// A cache entry that is damaged in any way is rebuilt, and reported as rebuilt.
func TestDamagedCache(t *testing.T) {
	t.Parallel()
	c, dir := compiler(t, nil)
	load(t, c, wasmtest.Scorer())
	files := entries(t, dir)
	if len(files) != 1 {
		t.Fatalf("the cache has the files %v, want one", files)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 0x40
	for name, content := range map[string][]byte{"empty": {}, "half": whole[:len(whole)/2], "flipped": flipped} {
		if err := os.WriteFile(files[0], content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := load(t, c, wasmtest.Scorer()); !got.Rebuilt || got.FromCache {
			t.Errorf("%s: got %+v, want it rebuilt", name, got)
		}
		if got := load(t, c, wasmtest.Scorer()); !got.FromCache {
			t.Errorf("%s: got %+v afterwards, want it from the cache", name, got)
		}
	}
}

// The parent takes code from the cache and never compiles, even when the module's directory is there: code of another engine
// version or another processor does not count.
func TestParentNeverCompiles(t *testing.T) {
	t.Parallel()
	c, dir := compiler(t, nil)
	load(t, c, wasmtest.Scorer())
	for _, file := range entries(t, dir) {
		if err := os.Rename(file, filepath.Join(filepath.Dir(file), strings.Repeat("0", 64))); err != nil {
			t.Fatal(err)
		}
	}
	childless, _ := compiler(t, func(config *compile.Config) { config.Dir, config.Command = dir, []string{"/nonexistent"} })
	if got, err := childless.Load(t.Context(), wasmtest.Scorer()); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("got %+v %v, want that the child cannot be started", got, err)
	}
}

// Each way a compilation can fail has its error, leaves nothing in the cache, and the compiler works on.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	bomb := wasmtest.SSABomb(1500)
	for _, test := range []struct {
		name   string
		module []byte
		change func(*compile.Config)
		want   error
		say    string
	}{
		{"no wasm", []byte("hello"), nil, compile.ErrInvalid, "magic"},
		{"type error", wasmtest.Plugin(wasmtest.Code(0x42, 0, 0x0b)), nil, compile.ErrInvalid, "cannot use i64"},
		{"CPU", bomb, func(c *compile.Config) { c.Limits.CPU = time.Second }, compile.ErrBudget, "CPU time"},
		{"wall", nil, func(c *compile.Config) { c.Command, c.Limits.Wall = wasmtest.Child("hang"), 50*time.Millisecond }, compile.ErrBudget, "wall time"},
		{"memory", wasmtest.Straight(1_300_000), func(c *compile.Config) { c.Limits.MemoryBytes = 256 << 20 }, compile.ErrMemory, "MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if raceEnabled && test.want == compile.ErrMemory {
				t.Skip("the race detector alone reserves more address space than the limit")
			}
			c, dir := compiler(t, test.change)
			got, err := c.Load(t.Context(), test.module)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.say) {
				t.Errorf("got %+v %v, want %v that says %q", got, err, test.want, test.say)
			}
			if files := entries(t, dir); len(files) > 0 {
				t.Errorf("the cache is left with %v", files)
			}
			if test.want == compile.ErrMemory { // and it is the module's doing: another one fits under the same limit
				load(t, c, wasmtest.Scorer())
			}
		})
	}
}

// One child runs at a time. A caller that comes while the queue is full is refused. A caller that gives up leaves the queue.
func TestQueue(t *testing.T) {
	t.Parallel()
	c, _ := compiler(t, func(c *compile.Config) { c.Command, c.Limits.Queue = wasmtest.Child("hang"), 1 })
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	errs := make(chan error, 3)
	for i := range 3 {
		group.Go(func() {
			_, err := c.Load(ctx, []byte{byte(i)})
			errs <- err
		})
	}
	// One runs, one waits; the third is refused at once, which is the only one that ends on its own.
	if err := <-errs; !errors.Is(err, compile.ErrBusy) {
		t.Errorf("got %v, want %v", err, compile.ErrBusy)
	}
	cancel()
	group.Wait()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	}
}

// Many who want the same module at once get it from one child.
func TestManyLoadOne(t *testing.T) {
	t.Parallel()
	c, _ := compiler(t, func(c *compile.Config) { c.Limits.Queue = 100 })
	var group sync.WaitGroup
	var mu sync.Mutex
	children := 0
	for range 12 {
		group.Go(func() {
			compiled, err := c.Load(context.Background(), wasmtest.Scorer())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if !compiled.FromCache {
				children++
			}
			if err := compiled.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if children != 1 {
		t.Errorf("%d children compiled the module, want 1", children)
	}
}

// A child that people start by hand says so and does nothing.
func TestChildByHand(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	if code := compile.Child(nil, strings.NewReader(""), &said); code == 0 || !strings.Contains(said.String(), "started by the server") {
		t.Errorf("got status %d and %q", code, said.String())
	}
}
