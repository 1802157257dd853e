package host_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// A batch does not wait for a sandbox that takes long to start: it goes on without, the start ends beside it and is reported with its time, and a
// later batch finds the sandbox ready. The first batch of a version with the state fresh finds one, and its successor is started at once.
func TestStartsAreBesideBatches(t *testing.T) {
	t.Parallel()
	limits := host.DefaultLimits()
	limits.StartWait = time.Nanosecond
	limits.InitDeadline = time.Hour
	limits.Slice = 1000
	hold, release := make(chan struct{}, 1), make(chan struct{})
	stop := func() bool { // the second start, and all later ones, wait in their first tick
		select {
		case <-hold:
			<-release
		default:
		}
		return false
	}
	starts := make(chan host.Start, 10)
	m := declare(t, "priority", "age_ms")
	m.State = manifest.Fresh
	v := open(t, wasmtest.SlowStart(1000), host.Options{Manifest: m, Limits: limits, Stop: stop, Started: func(s host.Start) { starts <- s }})
	hold <- struct{}{}
	scores := make([]float64, 3)
	if _, err := v.Score(t.Context(), twoColumns(), scores); err != nil || scores[1] != 15 {
		t.Fatalf("the first batch: got %v %v, want it scored", scores, err)
	}
	if _, err := v.Score(t.Context(), twoColumns(), scores); !errors.Is(err, host.ErrStarting) {
		t.Fatalf("while the next sandbox is started: got %v, want %v", err, host.ErrStarting)
	}
	close(release)
	if s := <-starts; s.Err != nil {
		t.Errorf("got %+v, want a start that went well", s)
	}
	if _, err := v.Try(t.Context(), twoColumns(), scores); err != nil {
		t.Errorf("with time: got %v, want it scored", err)
	}
}

// The duration of a start is reported by the clock of the options, and so is the reason of a failure. A batch that waited for the start has
// its fault.
func TestStartsAreReported(t *testing.T) {
	t.Parallel()
	var now time.Duration
	starts := make(chan host.Start, 1)
	limits := host.DefaultLimits()
	m := declare(t, "priority", "age_ms")
	m.State = manifest.Fresh
	v := open(t, wasmtest.SlowStart(1000), host.Options{Manifest: m, Limits: limits, Clock: func() time.Duration { now += time.Millisecond; return now }, Started: func(s host.Start) { starts <- s }})
	if _, err := v.Score(t.Context(), twoColumns(), make([]float64, 3)); err != nil {
		t.Fatal(err)
	}
	if s := <-starts; s.Duration < time.Millisecond || s.Err != nil || s.Ended < s.Duration {
		t.Errorf("got %+v, want some milliseconds", s)
	}
}

// Versions share their memory. Over the limit the sandbox that is idle longest goes, and its version starts another when it is asked next.
// A sandbox in use stays, and a version that finds no room gets an error.
func TestMemoryIsShared(t *testing.T) {
	t.Parallel()
	memory := host.NewMemory(25 * page)
	var now time.Duration
	clock := func() time.Duration { now += time.Millisecond; return now }
	make3 := func(m *manifest.Manifest) *host.Version {
		return open(t, wasmtest.Roomy(10), host.Options{Manifest: m, Memory: memory, Clock: clock})
	}
	use := func(v *host.Version) error {
		_, err := v.Score(t.Context(), twoColumns(), make([]float64, 3))
		return err
	}
	one, two := make3(declare(t, "priority", "age_ms")), make3(declare(t, "priority", "age_ms"))
	if err := errors.Join(use(two), use(one)); err != nil {
		t.Fatal(err)
	}
	third := make3(declare(t, "priority", "age_ms"))
	if got := [3]int{one.Instances(), two.Instances(), third.Instances()}; got != [3]int{1, 0, 1} {
		t.Errorf("got %v sandboxes, want that the second's, which is idle longest, made room for the third's", got)
	}
	if got, want := memory.Use(), (host.MemoryUse{Bytes: 20 * page, Most: 25 * page}); got != want {
		t.Errorf("got %+v, want 20 pages of 25 and none refused", got)
	}
	if err := use(two); err != nil {
		t.Errorf("the version whose sandbox went: got %v, want another one", err)
	}
	if _, err := tryOpen(t, wasmtest.Roomy(26), host.Options{Manifest: declare(t, "priority", "age_ms"), Memory: memory}); !errors.Is(err, host.ErrMemory) {
		t.Errorf("more than all that there is: got %v, want %v", err, host.ErrMemory)
	}
	reset := declare(t, "priority", "age_ms")
	reset.State = manifest.Reset
	if _, err := tryOpen(t, wasmtest.Roomy(13), host.Options{Manifest: reset, Memory: memory}); !errors.Is(err, host.ErrMemory) {
		t.Errorf("with a copy that is as large: got %v, want %v", err, host.ErrMemory)
	}
	for _, v := range []*host.Version{one, two, third} {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := memory.Use(); got.Bytes != 0 || got.Denied != 2 {
		t.Errorf("got %d bytes used and %d refusals, want none left and two", got.Bytes, got.Denied)
	}
}

// A guest that asks for more within a batch than all may have gets no more; when it fails for that it is not its own fault.
func TestMemoryGrowsWithinTheBudget(t *testing.T) {
	t.Parallel()
	grow := wasmtest.Moody(wasmtest.ConstI32(1), wasmtest.Code(wasmtest.ConstI32(8), 0x40, 0, 0x41, 0x7f, 0x46, 0x04, wasmtest.Empty, 0x00, wasmtest.End))
	memory := host.NewMemory(5 * page)
	v := open(t, grow, host.Options{Manifest: declare(t, "priority", "age_ms"), Memory: memory})
	if _, err := v.Score(t.Context(), twoColumns(), make([]float64, 3)); !errors.Is(err, host.ErrMemory) || kindOf(err) != "" {
		t.Errorf("got %v, want %v and no fault of the guest", err, host.ErrMemory)
	}
	if got := memory.Use(); got.Bytes != 0 || got.Denied != 1 {
		t.Errorf("got %d bytes used and %d refusals, want none and one", got.Bytes, got.Denied)
	}
	v = open(t, grow, host.Options{Manifest: declare(t, "priority", "age_ms"), Memory: host.NewMemory(20 * page)})
	if _, err := v.Score(t.Context(), twoColumns(), make([]float64, 3)); err != nil {
		t.Errorf("with room: got %v, want it scored", err)
	}
}
