package compile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// tally is a budget that gives room until it has given most.
type tally struct{ used, most int64 }

func (b *tally) TakeCode(bytes int64) bool {
	if b.used+bytes > b.most {
		return false
	}
	b.used += bytes
	return true
}

func (b *tally) GiveCode(bytes int64) { b.used -= bytes }

// measured are modules, and how many of each are loaded. Code, module and the engine's records have different shares in their memory.
var measured = map[string]struct {
	build  func() []byte
	copies int
}{
	"small":      {wasmtest.Scorer, 200},
	"functions":  {func() []byte { return wasmtest.Functions(9_000) }, 20},
	"large body": {func() []byte { return wasmtest.Straight(100_000) }, 20},
	"exports":    {func() []byte { return named(wasmtest.Function, 2_000) }, 60},
	"globals":    {func() []byte { return named(wasmtest.Global, 2_000) }, 60},
	"segments":   {func() []byte { return segments(50_000) }, 10},
}

// named is a plugin with so many more exports, of globals of their own or of one function.
func named(kind byte, n int) []byte {
	b := wasmtest.Base()
	score := b.Function(1, nil, 0x41, 0, wasmtest.End)
	b.Export("quern_score", wasmtest.Function, score)
	for k := range n {
		index := score
		if kind == wasmtest.Global {
			index = b.Global(wasmtest.I64, true, wasmtest.ConstI64(1))
		}
		b.Export(fmt.Sprintf("x%d", k), kind, index)
	}
	return b.Bytes()
}

// segments is a plugin with so many data segments of a byte.
func segments(n int) []byte {
	b := wasmtest.Base()
	b.Export("quern_score", wasmtest.Function, b.Function(1, nil, 0x41, 0, wasmtest.End))
	for k := range n {
		b.Data(int32(k), []byte{1})
	}
	return b.Bytes()
}

// measure loads a module some times over and prints how many bytes that took, and how many were counted. It runs in a process of its own.
func measure(name, dir string) int {
	debug.SetGCPercent(20)
	budget := &tally{most: 1 << 40}
	m := measured[name]
	c := compile.New(compile.Config{Dir: dir, Command: []string{"/nonexistent"}, Limits: compile.DefaultLimits(), Budget: budget})
	var all []*compile.Compiled
	var before int64
	for k := range m.copies + 1 { // the first one pays for the shared parts
		compiled, err := c.Load(context.Background(), m.build())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if all = append(all, compiled); k == 0 {
			before, budget.used = resident(), 0
		}
	}
	fmt.Println(resident()-before, budget.used)
	runtime.KeepAlive(all)
	return 0
}

func resident() (bytes int64) {
	runtime.GC()
	debug.FreeOSMemory()
	var all int64
	text, _ := os.ReadFile("/proc/self/statm")
	_, _ = fmt.Sscan(string(text), &all, &bytes)
	return bytes * int64(os.Getpagesize())
}

// The memory that is counted for loaded code is at most a tenth less than the code takes, and closing gives it back.
func TestCodeBytes(t *testing.T) {
	t.Parallel()
	if raceEnabled || resident() == 0 {
		t.Skip("the race detector has memory of its own for each byte; other systems than Linux do not say what is resident")
	}
	for name, m := range measured {
		t.Run(name, func(t *testing.T) {
			c, dir := compiler(t, nil)
			load(t, c, m.build())
			said, err := exec.Command(os.Args[0], "measure", name, dir).Output()
			var took, counted int64
			if _, scanned := fmt.Sscan(string(said), &took, &counted); err != nil || scanned != nil {
				t.Fatalf("%v, %v: %s", err, scanned, said)
			}
			t.Logf("%d modules took %d bytes, %d were counted", m.copies, took, counted)
			if took > counted+counted/10 {
				t.Errorf("%d modules took %d bytes, and %d were counted", m.copies, took, counted)
			}
		})
	}
}

// Where there is no room, nothing is loaded, and the code stays in the cache for when there is.
func TestLoadWithoutRoom(t *testing.T) {
	t.Parallel()
	budget := &tally{}
	c, dir := compiler(t, func(c *compile.Config) { c.Budget = budget })
	for _, when := range []string{"first", "from the cache"} {
		if got, err := c.Load(t.Context(), wasmtest.Scorer()); !errors.Is(err, compile.ErrNoRoom) || budget.used != 0 {
			t.Errorf("%s: got %+v %v and %d bytes counted, want %v", when, got, err, budget.used, compile.ErrNoRoom)
		}
		if got := entries(t, dir); len(got) != 1 {
			t.Errorf("%s: the cache has %v, want the code", when, got)
		}
	}
	budget.most = 1 << 20
	compiled, err := c.Load(t.Context(), wasmtest.Scorer())
	if err != nil || !compiled.FromCache || budget.used == 0 {
		t.Fatalf("with room: got %+v %v and %d bytes counted, want it from the cache", compiled, err, budget.used)
	}
	if !compiled.Share() {
		t.Error("code that is in use cannot be shared")
	}
	for _, want := range []bool{true, false} { // counted until the last user closes it
		if err := compiled.Close(t.Context()); err != nil || (budget.used > 0) != want {
			t.Errorf("got %v and %d bytes counted, want some: %v", err, budget.used, want)
		}
	}
	if compiled.Share() {
		t.Error("code that is closed can be shared")
	}
}
