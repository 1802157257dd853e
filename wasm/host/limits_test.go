package host_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

func hostile(t *testing.T, name string) []byte {
	t.Helper()
	for _, h := range wasmtest.Corpus() {
		if h.Name == name {
			return h.Build()
		}
	}
	t.Fatalf("the corpus has no %q", name)
	return nil
}

func kindOf(err error) host.Kind {
	var fault *host.Fault
	if errors.As(err, &fault) {
		return fault.Kind
	}
	return ""
}

// The deadline is looked at every slice of fuel, and so are the caller's context and the server's stop.
func TestTicks(t *testing.T) {
	t.Parallel()
	limits := host.DefaultLimits()
	limits.FuelPerBatch = 1 << 40 // fuel must not be what ends it
	loop := hostile(t, "infinite_loop")

	var looks atomic.Int64
	clock := func() time.Duration { return time.Duration(looks.Add(1)) * time.Millisecond }
	v := open(t, loop, host.Options{Manifest: declare(t), Limits: limits, Clock: clock})
	report, err := v.Score(t.Context(), batch(1), make([]float64, 1))
	looked := limits.Slice * limits.Deadline.Milliseconds()
	if kindOf(err) != host.Deadline || report.Fuel < looked*3/4 || report.Fuel > looked*5/4 {
		t.Errorf("deadline: got %v after %d units, want %s after some %d: each look, once in a slice, moves the clock a millisecond", err, report.Fuel, host.Deadline, looked)
	}

	ctx, cancel := context.WithCancel(t.Context())
	v = open(t, loop, host.Options{Manifest: declare(t), Limits: limits})
	cancel()
	if _, err := v.Score(ctx, batch(1), make([]float64, 1)); kindOf(err) != host.Stopped || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %s", err, host.Stopped)
	}

	v = open(t, loop, host.Options{Manifest: declare(t), Limits: limits, Stop: func() bool { return true }})
	if _, err := v.Score(t.Context(), batch(1), make([]float64, 1)); kindOf(err) != host.Stopped {
		t.Errorf("stopped: got %v, want %s", err, host.Stopped)
	}
}

// A guest that runs for long lets others have its processor every few ticks. Not parallel: the test needs a single processor.
func TestGuestYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	limits := host.DefaultLimits()
	limits.FuelPerBatch = 1 << 40
	var ran atomic.Bool
	ticks := 0
	stop := func() bool {
		if ticks++; ticks == 1 {
			go ran.Store(true) // it has no processor until the guest gives it one
		}
		return ran.Load() || ticks == 10_000
	}
	v := open(t, hostile(t, "infinite_loop"), host.Options{Manifest: declare(t), Limits: limits, Stop: stop})
	if _, err := v.Score(t.Context(), batch(1), make([]float64, 1)); kindOf(err) != host.Stopped {
		t.Errorf("got %v, want %s", err, host.Stopped)
	}
	if !ran.Load() || ticks > 5 {
		t.Errorf("another goroutine ran: %v, after %d ticks; want it after five at most", ran.Load(), ticks)
	}
}

// The host's work for a guest costs fuel: a guest that lets it work for ever is stopped as one that works itself.
func TestHostWorkIsCharged(t *testing.T) {
	t.Parallel()
	b := &wasmtest.Builder{}
	b.Type(nil, nil)
	b.Type([]byte{wasmtest.I32}, []byte{wasmtest.I32})
	b.Type([]byte{wasmtest.I32, wasmtest.I32}, []byte{wasmtest.I32})
	random := b.ImportFunction("wasi_snapshot_preview1", "random_get", 2)
	b.Memory(200, -1)
	b.Export("memory", wasmtest.Memory, 0)
	b.Export("quern_abi_1", wasmtest.Function, b.Function(0, nil, wasmtest.End))
	b.Export("quern_alloc", wasmtest.Function, b.Function(1, nil, wasmtest.ConstI32(1024), wasmtest.End))
	b.Export("quern_score", wasmtest.Function, b.Function(1, nil,
		0x03, wasmtest.Empty, wasmtest.ConstI32(65536), wasmtest.ConstI32(10<<20), wasmtest.Op(0x10, random), 0x1a, 0x0c, 0, wasmtest.End, 0x41, 0, wasmtest.End))
	v := open(t, b.Bytes(), host.Options{Manifest: declare(t)})
	if _, err := v.Score(t.Context(), batch(1), make([]float64, 1)); kindOf(err) != host.Fuel {
		t.Errorf("got %v, want %s", err, host.Fuel)
	}
}

// Pooled instances keep what the guest keeps; reset and fresh ones do not.
func TestStates(t *testing.T) {
	t.Parallel()
	for state, want := range map[manifest.State][]float64{manifest.Pooled: {1, 2, 3}, manifest.Reset: {1, 1, 1}, manifest.Fresh: {1, 1, 1}} {
		m := declare(t)
		m.State = state
		v := open(t, wasmtest.Counter(), host.Options{Manifest: m})
		var got []float64
		for range 3 {
			scores := make([]float64, 1)
			if _, err := v.Score(t.Context(), batch(1), scores); err != nil {
				t.Fatal(err)
			}
			got = append(got, scores[0])
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", state, got, want)
		}
	}
}

// A version whose state cannot be restored may not promise a reset.
func TestHiddenStateIsNotReset(t *testing.T) {
	t.Parallel()
	m := declare(t)
	m.State = manifest.Reset
	if _, err := tryOpen(t, hostile(t, "table_grow_4e9"), host.Options{Manifest: m}); err == nil || !strings.Contains(err.Error(), "fresh") {
		t.Errorf("got %v, want an error that says what to declare", err)
	}
}

// A reset instance whose memory has grown is thrown away: memory cannot shrink.
func TestResetAfterGrowth(t *testing.T) {
	t.Parallel()
	b := wasmtest.Base()
	b.Export("quern_score", wasmtest.Function, b.Function(1, nil,
		wasmtest.ConstI32(1), 0x40, 0, 0x1a, // memory.grow
		0x20, 0, 0x20, 0, 0x28, 2, 20, 0x6a, 0x3f, 0, 0xb7, 0x39, 3, 0, // scores[0] = memory.size
		0x41, 0, wasmtest.End))
	m := declare(t)
	m.State = manifest.Reset
	v := open(t, b.Bytes(), host.Options{Manifest: m})
	for range 3 {
		scores := make([]float64, 1)
		report, err := v.Score(t.Context(), batch(1), scores)
		if err != nil || scores[0] != 2 || report.Pages != 2 {
			t.Errorf("got %v pages %v, %v; want 2 each time", scores[0], report.Pages, err)
		}
	}
}

// Many callers share few instances: each gets its own answer, none more instances than allowed.
func TestPoolIsShared(t *testing.T) {
	t.Parallel()
	v := open(t, wasmtest.Scorer(), host.Options{Manifest: declare(t, "priority", "age_ms"), Instances: 3})
	var group sync.WaitGroup
	for caller := range 16 {
		group.Go(func() {
			for round := range 200 {
				b := twoColumns()
				b.Columns[0].I64[0] = int64(caller*1000 + round)
				scores := make([]float64, 3)
				if _, err := v.Score(t.Context(), b, scores); err != nil || scores[0] != float64(caller*1000+round)*10 {
					t.Errorf("caller %d round %d: got %v %v", caller, round, scores, err)
					return
				}
				if n := v.Instances(); n > 3 {
					t.Errorf("%d instances, want at most 3", n)
				}
			}
		})
	}
	group.Wait()
}

// Faults do not wear the pool out: callers of a plugin that always fails are all answered.
func TestPoolOutlivesFaults(t *testing.T) {
	t.Parallel()
	v := open(t, hostile(t, "trap_unreachable"), host.Options{Manifest: declare(t), Instances: 2})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if _, err := v.Score(t.Context(), batch(1), make([]float64, 1)); kindOf(err) != host.Trap {
					t.Errorf("got %v, want %s", err, host.Trap)
				}
			}
		})
	}
	group.Wait()
	if n := v.Instances(); n != 0 {
		t.Errorf("%d instances are left, want 0", n)
	}
}

// Closing lets the running batch end, refuses later ones, and leaves who waits for an instance its answer.
func TestCloseDrains(t *testing.T) {
	t.Parallel()
	inside, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	stop := func() bool {
		once.Do(func() { close(inside); <-release })
		return false
	}
	limits := host.DefaultLimits()
	limits.Slice = 1000
	// memory_fill_loop ticks often and ends for want of fuel.
	v := open(t, hostile(t, "infinite_loop"), host.Options{Manifest: declare(t), Limits: limits, Stop: stop})
	running, waiting, closed := make(chan error, 1), make(chan error, 1), make(chan error, 2)
	score := func(to chan error) {
		_, err := v.Score(context.Background(), batch(1), make([]float64, 1))
		to <- err
	}
	go score(running)
	<-inside
	go score(waiting)
	for range 2 {
		go func() { closed <- v.Close() }()
	}
	select {
	case err := <-closed:
		t.Errorf("closed with %v while a batch is running", err)
	default:
	}
	close(release)
	if err := <-running; kindOf(err) != host.Fuel {
		t.Errorf("the running batch: got %v, want %s", err, host.Fuel)
	}
	if err := <-waiting; kindOf(err) != host.Fuel && !errors.Is(err, host.ErrClosed) {
		t.Errorf("the waiting batch: got %v, want %s or %v", err, host.Fuel, host.ErrClosed)
	}
	for range 2 {
		if err := <-closed; err != nil {
			t.Errorf("closing: %v", err)
		}
	}
	if _, err := v.Score(t.Context(), batch(1), make([]float64, 1)); !errors.Is(err, host.ErrClosed) {
		t.Errorf("after closing: got %v, want %v", err, host.ErrClosed)
	}
}

// A caller that gives up waiting for an instance gets the context's error, and the instance is not lost.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	inside, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	stop := func() bool {
		once.Do(func() { close(inside); <-release })
		return false
	}
	v := open(t, hostile(t, "infinite_loop"), host.Options{Manifest: declare(t), Stop: stop})
	running := make(chan error, 1)
	go func() {
		_, err := v.Score(context.Background(), batch(1), make([]float64, 1))
		running <- err
	}()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Score(ctx, batch(1), make([]float64, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	close(release)
	<-running
	if _, err := v.Score(t.Context(), batch(1), make([]float64, 1)); kindOf(err) != host.Fuel {
		t.Errorf("afterwards: got %v, want %s", err, host.Fuel)
	}
}

// A module that was not rewritten is refused: nothing would stop it.
func TestUnmeteredIsRefused(t *testing.T) {
	t.Parallel()
	for _, unmetered := range []bool{false, true} {
		v, err := openRaw(t, wasmtest.Scorer(), host.Options{Manifest: declare(t, "priority", "age_ms"), Instances: 1, Capacity: 8, Clock: still, Unmetered: unmetered})
		if unmetered != (err == nil) || err != nil && !strings.Contains(err.Error(), "instrument") {
			t.Errorf("unmetered %v: got %v", unmetered, err)
		}
		if err == nil {
			scores := make([]float64, 3)
			if report, err := v.Score(t.Context(), twoColumns(), scores); err != nil || scores[1] != 15 || report.Fuel != 0 {
				t.Errorf("got %v %+v %v", scores, report, err)
			}
		}
	}
}

// A module that is no plugin is refused with all that it lacks.
func TestNoPlugin(t *testing.T) {
	t.Parallel()
	_, err := openRaw(t, []byte(wasmtest.Header), host.Options{Manifest: declare(t), Instances: 1, Capacity: 8, Clock: still})
	for _, want := range []string{"no memory", "quern_abi_1", "quern_alloc", "quern_score"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}
