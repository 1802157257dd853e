package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

const page = 64 << 10

// Versions share code: each has its own sandboxes, which go with it, and the code goes with the last one.
func TestVersionsShareCode(t *testing.T) {
	t.Parallel()
	m, hidden := instrumented(t, wasmtest.Roomy(10))
	compiled, err := compile.InProcess(t.Context(), m.Bytes, 256)
	if err != nil {
		t.Fatal(err)
	}
	memory := host.NewMemory(1 << 30)
	var versions []*host.Version
	for k := range 3 {
		if k > 0 && !compiled.Share() {
			t.Fatal("code that is in use cannot be shared")
		}
		v, err := host.Open(t.Context(), compiled, host.Options{Manifest: declare(t, "priority", "age_ms"), Globals: m.Globals, Hidden: hidden,
			Instances: 2, Capacity: 64, Clock: still, Memory: memory})
		if err != nil {
			t.Fatalf("version %d: %v", k, err)
		}
		versions = append(versions, v)
	}
	for k, v := range versions {
		for _, other := range versions[k:] {
			scores := make([]float64, 3)
			if _, err := other.Try(t.Context(), twoColumns(), scores); err != nil || scores[1] != 15 {
				t.Errorf("with %d closed: got %v %v, want it scored", k, scores, err)
			}
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
		if got, want := memory.Use().Bytes, int64(10*page*(len(versions)-k-1)); got != want {
			t.Errorf("with %d closed: got %d bytes of sandboxes, want %d", k+1, got, want)
		}
	}
	if compiled.Share() {
		t.Error("code that is closed can be shared")
	}
}

// A caller that needs memory has a version closed that no one needs, after its sandbox, and only if that is not
// room enough.
func TestNeedlessVersionsMakeRoom(t *testing.T) {
	t.Parallel()
	memory := host.NewMemory(25 * page)
	asked := 0
	var idle *host.Version
	idle = open(t, wasmtest.Roomy(10), host.Options{Manifest: declare(t, "priority", "age_ms"), Memory: memory,
		Needless: func() bool { asked++; return idle.Retire() && idle.Close() == nil }})
	if !memory.TakeCode(25*page) || asked != 0 {
		t.Fatalf("got no room, or asked %d times for the version, of which the sandbox is enough", asked)
	}
	if memory.TakeCode(1) || asked != 1 {
		t.Errorf("got more than there is, or asked %d times for the version, want once", asked)
	}
	if _, err := idle.Try(t.Context(), twoColumns(), make([]float64, 3)); !errors.Is(err, host.ErrClosed) {
		t.Errorf("a version that had to go: got %v, want %v", err, host.ErrClosed)
	}
	memory.GiveCode(25 * page)
	if got, want := memory.Use(), (host.MemoryUse{Most: 25 * page, Denied: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A version is not retired while a batch is in it.
func TestRetireOnlyWhenIdle(t *testing.T) {
	t.Parallel()
	inside, release := make(chan struct{}), make(chan struct{})
	limits := host.DefaultLimits()
	limits.Slice = 1000
	v := open(t, wasmtest.Moody(wasmtest.ConstI32(1), wasmtest.Endless()), host.Options{Manifest: declare(t, "priority", "age_ms"), Limits: limits,
		Stop: func() bool { close(inside); <-release; return true }})
	batch := make(chan error)
	go func() {
		_, err := v.Score(context.Background(), twoColumns(), make([]float64, 3))
		batch <- err
	}()
	<-inside
	if v.Retire() {
		t.Error("it was retired under a batch")
	}
	close(release)
	if err := <-batch; kindOf(err) != host.Stopped {
		t.Errorf("the batch: got %v, want %s", err, host.Stopped)
	}
	if !v.Retire() || v.Retire() {
		t.Error("an idle version is not retired, or twice")
	}
}
