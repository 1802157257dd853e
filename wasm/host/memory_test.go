package host

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

const page = 64 << 10

// counted are pages from the Go heap that count what is taken and given, and fill what is given with a pattern that no guest's memory has.
type counted struct {
	mu          sync.Mutex
	taken, back int
}

func (c *counted) pages() *pages {
	return &pages{
		take: func(bytes int) ([]byte, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.taken++
			return make([]byte, bytes), nil
		},
		give: func(all []byte) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.back++
			for n := copy(all, "\xa5"); n > 0 && n < len(all); { // doubling: byte by byte takes seconds under the race detector
				n += copy(all[n:], all[:n])
			}
		},
	}
}

func (c *counted) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken - c.back
}

// A memory grows where it is, up to its maximum and no further, shows zeroes where it grew, and is given back once.
func TestMemoryGrowsInPlace(t *testing.T) {
	t.Parallel()
	c := &counted{}
	m := &mapping{pages: c.pages()}
	if m.Allocate(page, 4*page) != m {
		t.Error("the allocator gave another memory")
	}
	first := m.Reallocate(page)
	if len(first) != page || cap(first) != page {
		t.Fatalf("got %d bytes with room for %d, want %d of both: beyond its size a guest has nothing", len(first), cap(first), page)
	}
	first[0], first[page-1] = 1, 2
	for size := uint64(2 * page); size <= 4*page; size += page {
		grown := m.Reallocate(size)
		if uint64(len(grown)) != size || cap(grown) != len(grown) || &grown[0] != &first[0] {
			t.Fatalf("%d bytes: got %d with room for %d, moved %v", size, len(grown), cap(grown), &grown[0] != &first[0])
		}
		for k, b := range grown[size-page:] {
			if b != 0 {
				t.Fatalf("byte %d of the new page is %d, want 0", k, b)
			}
		}
	}
	if got := m.Reallocate(4*page + 1); got != nil {
		t.Errorf("beyond the maximum: got %d bytes, want nil", len(got))
	}
	if again := m.Reallocate(4 * page); again[0] != 1 || again[page-1] != 2 {
		t.Error("what was written before it grew is gone")
	}
	m.Free()
	m.Free()
	if c.taken != 1 || c.back != 1 {
		t.Errorf("taken %d times and given back %d times, want once each", c.taken, c.back)
	}
}

// A memory that may have nothing is not nil, which would say that it cannot be had.
func TestEmptyMemory(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*pages{"system": systemPages(), "heap": noPages()} {
		if p == nil {
			continue
		}
		m := &mapping{pages: p}
		m.Allocate(0, 0)
		if got := m.Reallocate(0); got == nil || len(got) != 0 {
			t.Errorf("%s: got %v, want an empty memory", name, got)
		}
		m.Free()
	}
}

func noPages() *pages {
	return &pages{take: func(int) ([]byte, error) { return nil, errors.New("no addresses") }, give: func([]byte) { panic("what was not taken is given back") }}
}

// Where the system has no addresses, a memory comes from the heap, keeps its content as it grows, ends at the same maximum, and moves a few
// times only.
func TestMemoryFallsBackToTheHeap(t *testing.T) {
	t.Parallel()
	m := &mapping{pages: noPages()}
	m.Allocate(page, 256*page)
	memory, moves := m.Reallocate(page), 0
	for n := uint64(1); n <= 256; n++ {
		grown := m.Reallocate(n * page)
		if uint64(len(grown)) != n*page || cap(grown) != len(grown) {
			t.Fatalf("%d pages: got %d bytes with room for %d", n, len(grown), cap(grown))
		}
		if &grown[0] != &memory[0] {
			moves++
		}
		memory = grown
		for k := range n - 1 {
			if memory[k*page] != byte(k+1) {
				t.Fatalf("%d pages: page %d begins with %d, want %d", n, k, memory[k*page], byte(k+1))
			}
		}
		if got := memory[(n-1)*page]; got != 0 {
			t.Fatalf("the new page %d begins with %d, want 0", n-1, got)
		}
		memory[(n-1)*page] = byte(n)
	}
	if got := m.Reallocate(256*page + 1); got != nil {
		t.Errorf("beyond the maximum: got %d bytes, want nil", len(got))
	}
	if moves > 8 {
		t.Errorf("it moved %d times from 1 to 256 pages, want at most 8", moves)
	}
	m.Free() // must not give back what was not taken
}

// The fuel of a batch: little ends what does not end soon, plenty lets a guest grow to its maximum page by page.
const little, plenty = 2_000_000, 1 << 40

// openOn opens a module whose instances have their memories from there.
func openOn(t testing.TB, p *pages, module []byte, state manifest.State, fuel int64) (*Version, error) {
	t.Helper()
	report, violations := scan.Scan(module, scan.DefaultLimits())
	if len(violations) > 0 {
		t.Fatalf("the scan refuses the module: %v", violations)
	}
	rewritten, err := instrument.Instrument(module, report, instrument.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := compile.InProcess(t.Context(), rewritten.Bytes, 256)
	if err != nil {
		return nil, err
	}
	limits := DefaultLimits()
	limits.FuelPerBatch, limits.StartWait = fuel, 0
	return Open(t.Context(), compiled, Options{
		Manifest: &manifest.Manifest{Name: "x", Version: "1.0.0", State: state, Take: manifest.All, FuelPerCandidate: manifest.DefaultFuelEach, Pages: 256},
		Globals:  rewritten.Globals, Hidden: report.HiddenState && state != manifest.Reset, Instances: 2, Capacity: 16, Clock: func() time.Duration { return 0 }, Limits: limits, pages: p,
	})
}

// states are those that a plugin may declare, or one of them where time is short.
func states() []manifest.State {
	if testing.Short() {
		return []manifest.State{manifest.Reset}
	}
	return []manifest.State{manifest.Pooled, manifest.Reset, manifest.Fresh}
}

func scoreOne(t testing.TB, v *Version) (Report, error) {
	t.Helper()
	return v.Score(t.Context(), &abi.Batch{Header: abi.Header{Rows: 1, Now: 1000, Want: 1}}, make([]float64, 1))
}

// Every memory is given back: after a fault, in each state, when the version is closed, and when an instance cannot be made.
//
//quern:sequential
func TestEveryMemoryIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, h := range wasmtest.Corpus() {
		if h.Stage == wasmtest.Scan {
			continue
		}
		for _, state := range states() {
			t.Run(h.Name+"/"+string(state), func(t *testing.T) {
				t.Parallel()
				c := &counted{}
				v, err := openOn(t, c.pages(), h.Build(), state, little)
				if err != nil {
					if n := c.open(); n != 0 {
						t.Errorf("opening failed (%v), and %d memories were kept", err, n)
					}
					return
				}
				for range 3 {
					_, _ = scoreOne(t, v)
					if n := c.open(); n > 1 {
						t.Errorf("%d memories after a batch, want at most that of the instance that waits", n)
					}
				}
				if err := v.Close(); err != nil {
					t.Error(err)
				}
				if n := c.open(); n != 0 || c.taken == 0 {
					t.Errorf("%d memories were taken and %d kept by a closed version, want some and none", c.taken, n)
				}
			})
		}
	}
}

// An instance that cannot be made, because a segment is outside of the memory, gives its memory back at once.
func TestMemoryOfAnInstanceThatWasNotMade(t *testing.T) {
	t.Parallel()
	c := &counted{}
	for _, h := range wasmtest.Corpus() {
		if h.Name != "data_out_of_memory" {
			continue
		}
		for range 5 {
			if v, err := openOn(t, c.pages(), h.Build(), manifest.Pooled, plenty); err == nil {
				t.Fatalf("it was opened: %v", v.Close())
			}
			if n := c.open(); n != 0 {
				t.Fatalf("%d memories are kept", n)
			}
		}
	}
	if c.taken != 5 {
		t.Errorf("%d memories were taken, want 5, or this test proves nothing", c.taken)
	}
}

// A plugin scores the same from memory of the heap, while it grows.
//
//quern:sequential
func TestGuestOnTheHeap(t *testing.T) {
	t.Parallel()
	for _, p := range []*pages{noPages(), systemPages()} {
		for _, h := range wasmtest.Corpus() {
			if h.Name != "memory_grow_once" && h.Name != "log_10000" {
				continue
			}
			v, err := openOn(t, p, h.Build(), manifest.Pooled, plenty)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := scoreOne(t, v); err != nil {
					t.Errorf("%s: %v", h.Name, err)
				}
			}
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	v, err := openOn(t, noPages(), growing(), manifest.Fresh, plenty)
	if err != nil {
		t.Fatal(err)
	}
	scores := make([]float64, 1)
	report, err := v.Score(context.Background(), &abi.Batch{Header: abi.Header{Rows: 1, Now: 1000, Want: 1}}, scores)
	if err != nil || report.Pages != 256 || scores[0] != 1 {
		t.Errorf("got %v, %d pages, %v; want 1 after it grew to 256 pages", scores, report.Pages, err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// growing is a plugin that grows page by page until it gets no more, and then scores.
func growing() []byte {
	return wasmtest.Moody(wasmtest.ConstI32(1), wasmtest.Code(
		0x02, wasmtest.Empty, 0x03, wasmtest.Empty, 0x41, 1, 0x40, 0, 0x41, 0x7f, 0x46, 0x0d, 1, 0x0c, 0, wasmtest.End, wasmtest.End,
		// the first score is 1
		0x20, 0, 0x20, 0, 0x28, 2, 20, 0x6a, wasmtest.ConstF64(1), 0x39, 3, 0, 0x41, 0, 0x0f))
}
