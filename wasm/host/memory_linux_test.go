package host

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

func hostileModule(t testing.TB, name string) []byte {
	t.Helper()
	for _, h := range wasmtest.Corpus() {
		if h.Name == name {
			return h.Build()
		}
	}
	t.Fatalf("the corpus has no %s", name)
	return nil
}

// addresses are how many mappings this process has and how many KiB of addresses.
func addresses(t testing.TB) (mappings, kib int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	kib, err = strconv.Atoi(string(regexp.MustCompile(`VmSize:\s+(\d+) kB`).FindSubmatch(status)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("\n")), kib
}

// Ten thousand instances that fault, and as many that are fresh for each batch, leave no mapping behind. Not parallel: it looks at the
// addresses of the whole process.
//
//quern:sequential
func TestNoMappingIsLeaked(t *testing.T) {
	for _, c := range []struct {
		module string
		state  manifest.State
		kind   Kind
	}{
		{"trap_unreachable", manifest.Pooled, Trap},
		{"scores_infinite", manifest.Fresh, ""},
		{"memory_grow_once", manifest.Fresh, ""},
	} {
		t.Run(c.module, func(t *testing.T) {
			rounds := 10_000
			if testing.Short() {
				rounds = 1_000
			}
			v, err := openOn(t, nil, hostileModule(t, c.module), c.state, plenty)
			if err != nil {
				t.Fatal(err)
			}
			mappings, kib := addresses(t)
			for n := range rounds {
				var fault *Fault
				if _, err := scoreOne(t, v); errors.As(err, &fault) != (c.kind != "") || fault != nil && fault.Kind != c.kind {
					t.Fatalf("batch %d: got %v, want a fault %q", n, err, c.kind)
				}
			}
			nowMappings, nowKiB := addresses(t)
			t.Logf("%d instances: %d mappings before, %d after; %d KiB of addresses before, %d after", rounds, mappings, nowMappings, kib, nowKiB)
			// Each had 16 MiB of addresses: a hundredth of them kept would be 1.6 GiB. The Go heap takes its own in steps of 64 MiB.
			if nowKiB-kib > rounds*16<<10/100 {
				t.Errorf("%d KiB of addresses more", nowKiB-kib)
			}
			if nowMappings-mappings > 200 {
				t.Errorf("%d mappings more", nowMappings-mappings)
			}
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// shut are pages that stay where they are when they are given back, and cannot be touched any more: a touch takes this process down.
type shut struct {
	mu   sync.Mutex
	kept [][]byte
}

func (s *shut) pages() *pages {
	system := systemPages()
	return &pages{take: system.take, give: func(all []byte) {
		if err := syscall.Mprotect(all, syscall.PROT_NONE); err != nil {
			panic(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept = append(s.kept, all)
	}}
}

// No memory of an instance is touched after it was closed, whatever it did before: not by the engine, and not by those who read the
// reports, log lines and faults.
func TestClosedMemoryIsNotTouched(t *testing.T) {
	t.Parallel()
	s := &shut{}
	t.Cleanup(func() {
		for _, all := range s.kept {
			_ = syscall.Munmap(all)
		}
	})
	t.Run("corpus", func(t *testing.T) {
		for _, h := range wasmtest.Corpus() {
			if h.Stage == wasmtest.Scan {
				continue
			}
			for _, state := range states() {
				t.Run(h.Name+"/"+string(state), func(t *testing.T) {
					t.Parallel()
					v, err := openOn(t, s.pages(), h.Build(), state, little)
					if err != nil {
						_ = err.Error()
						return
					}
					var reports []Report
					var failures []string
					var mu sync.Mutex
					var group sync.WaitGroup
					for range 2 {
						group.Go(func() {
							for range 2 {
								report, err := scoreOne(t, v)
								mu.Lock()
								reports = append(reports, report)
								if err != nil {
									failures = append(failures, err.Error())
								}
								mu.Unlock()
							}
						})
					}
					group.Wait()
					if err := v.Close(); err != nil {
						t.Error(err)
					}
					for _, r := range reports { // reads every byte of the kept pages
						for _, line := range r.Logs {
							if bytes.ContainsRune([]byte(line.Text), 0) {
								t.Errorf("a line with a zero: %q", line.Text)
							}
						}
					}
					for _, text := range failures {
						if len(bytes.ToUpper([]byte(text))) == 0 {
							t.Error("a fault without a text")
						}
					}
				})
			}
		}
	})
	if len(s.kept) < 30 {
		t.Errorf("%d memories were given back, want thirty at least, or this test proves nothing", len(s.kept))
	}
}
