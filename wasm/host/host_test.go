package host_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// still is a clock that does not move: no test here depends on how fast the machine is.
func still() time.Duration { return 0 }

// declare is a manifest with these columns.
func declare(t testing.TB, columns ...string) *manifest.Manifest {
	t.Helper()
	m := &manifest.Manifest{Name: "x", Version: "1.0.0", State: manifest.Pooled, Take: manifest.All, FuelPerCandidate: manifest.DefaultFuelEach, Pages: 256}
	for _, name := range columns {
		c, ok := abi.Candidate(name)
		if !ok {
			t.Fatalf("no column is called %q", name)
		}
		m.Columns = append(m.Columns, c)
	}
	return m
}

// instrumented puts a module through scan and rewriting.
func instrumented(t testing.TB, module []byte) (m *instrument.Module, hidden bool) {
	t.Helper()
	report, violations := scan.Scan(module, scan.DefaultLimits())
	if len(violations) > 0 {
		t.Fatalf("the scan refuses the module: %v", violations)
	}
	m, err := instrument.Instrument(module, report, instrument.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return m, report.HiddenState
}

// tryOpen makes a version of a module with the options given, or fails with the error of host.Open.
func tryOpen(t testing.TB, module []byte, o host.Options) (*host.Version, error) {
	t.Helper()
	m, hidden := instrumented(t, module)
	compiled, err := compile.InProcess(t.Context(), m.Bytes, 256)
	if err != nil {
		t.Fatal(err)
	}
	o.Globals, o.Hidden = m.Globals, hidden
	if o.Instances == 0 {
		o.Instances = 1
	}
	if o.Capacity == 0 {
		o.Capacity = 64
	}
	if o.Clock == nil {
		o.Clock = still
	}
	if o.Limits == (host.Limits{}) {
		o.Limits = host.DefaultLimits()
	}
	if o.Limits.StartWait == host.DefaultLimits().StartWait { // tests do not depend on how fast this machine is
		o.Limits.StartWait = 0
	}
	v, err := host.Open(t.Context(), compiled, o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return v, nil
}

func open(t testing.TB, module []byte, o host.Options) *host.Version {
	t.Helper()
	v, err := tryOpen(t, module, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// batch has n rows without columns.
func batch(n int) *abi.Batch {
	return &abi.Batch{Header: abi.Header{Rows: uint32(n), Now: 1000, Want: 1}}
}

func twoColumns() *abi.Batch {
	b := batch(3)
	b.Columns = []abi.Values{{I64: []int64{1, 2, -3}}, {I64: []int64{0, 1, 2}}}
	return b
}

// From module to scores: a module is scanned, rewritten, compiled, opened, and scores what it is given.
func TestScores(t *testing.T) {
	t.Parallel()
	v := open(t, wasmtest.Scorer(), host.Options{Manifest: declare(t, "priority", "age_ms")})
	scores := make([]float64, 3)
	report, err := v.Score(t.Context(), twoColumns(), scores)
	if want := [3]float64{10, 15, -40}; err != nil || [3]float64(scores) != want {
		t.Fatalf("got %v %v, want %v", scores, err, want)
	}
	if report.Fuel <= 0 || report.Pages != 1 || report.Skipped != 0 || report.Unwritten != 0 {
		t.Errorf("got the report %+v, want some fuel, one page, nothing skipped", report)
	}
	again, err := v.Score(t.Context(), twoColumns(), scores)
	if err != nil || again.Fuel != report.Fuel {
		t.Errorf("the same batch took %d units and then %d, %v", report.Fuel, again.Fuel, err)
	}
	if _, err := v.Score(t.Context(), batch(0), nil); err == nil {
		t.Error("a batch without the declared columns was scored")
	}
	empty := batch(0)
	empty.Columns = []abi.Values{{}, {}}
	if _, err := v.Score(t.Context(), empty, nil); err != nil {
		t.Errorf("an empty batch failed: %v", err)
	}
}

// No hostile module of the corpus that gets as far as running does harm: the fault has its kind, the instance is gone, and a good
// plugin in the same process scores on. A module that loads keeps serving as well: each next batch gets the same answer.
//
//quern:sequential
func TestHostileCorpus(t *testing.T) {
	t.Parallel()
	good := open(t, wasmtest.Scorer(), host.Options{Manifest: declare(t, "priority", "age_ms")})
	seen := 0
	for _, hostile := range wasmtest.Corpus() {
		if hostile.Stage != wasmtest.Run {
			continue
		}
		seen++
		t.Run(hostile.Name, func(t *testing.T) {
			v, err := tryOpen(t, hostile.Build(), host.Options{Manifest: declare(t)})
			if err != nil {
				checkInitFault(t, hostile, err)
			} else {
				for range 3 {
					checkFault(t, hostile, v)
				}
			}
			scores := make([]float64, 3)
			if _, err := good.Score(context.Background(), twoColumns(), scores); err != nil || scores[1] != 15 {
				t.Errorf("a good plugin afterwards: got %v %v, want 15 in the middle", scores, err)
			}
		})
	}
	if seen < 20 {
		t.Errorf("only %d modules of the corpus run; where did they go?", seen)
	}
}

func checkInitFault(t *testing.T, hostile wasmtest.Hostile, err error) {
	t.Helper()
	var fault *host.Fault
	if !errors.As(err, &fault) || fault.Kind != host.Init || string(fault.Cause) != string(hostile.Fault) {
		t.Errorf("opening: got %v, want an init fault for %s", err, hostile.Fault)
	}
}

func checkFault(t *testing.T, hostile wasmtest.Hostile, v *host.Version) {
	t.Helper()
	scores := make([]float64, 64)
	report, err := v.Score(t.Context(), batch(64), scores)
	var fault *host.Fault
	errors.As(err, &fault)
	switch hostile.Fault {
	case wasmtest.Harmless, wasmtest.BadScores:
		checkBadScores(t, hostile.Name, report, scores, err)
		return
	}
	if fault == nil || string(fault.Kind) != string(hostile.Fault) {
		t.Fatalf("got %v, want a fault of kind %s", err, hostile.Fault)
	}
	if got := v.Instances(); got != 0 {
		t.Errorf("%d instances are left after a fault, want 0", got)
	}
}

// wanted is how many candidates have a score: one that is no number skips its candidate.
func wanted(scores []float64) (n int) {
	for _, score := range scores {
		if !math.IsNaN(score) {
			n++
		}
	}
	return n
}

func checkBadScores(t *testing.T, name string, report host.Report, scores []float64, err error) {
	t.Helper()
	var fault *host.Fault
	errors.As(err, &fault)
	ok := false
	switch name {
	case "scores_nan":
		ok = err == nil && report.Skipped == 64 && report.Unwritten == 0 && wanted(scores) == 0
	case "scores_infinite":
		ok = err == nil && report.Skipped == 0 && math.IsInf(scores[63], 1)
	case "scores_half_written":
		ok = err == nil && report.Unwritten == 32 && report.Skipped == 0 && wanted(scores) == 32
	case "scores_not_written":
		ok = fault != nil && fault.Kind == host.Unwritten && report.Unwritten == 64
	case "log_10000":
		ok = err == nil && len(report.Logs) == 32 && report.LogsDropped == 10_000-32
	default: // harmless: it does its work, and its other attempts met a limit
		ok = err == nil && report.Unwritten == 0 && report.Pages <= 256
	}
	if !ok {
		report.Logs = nil
		t.Errorf("got %v, report %+v", err, report)
	}
}

// goGuest builds testdata/warm of the SDK with the plain Go toolchain, once, and gives module and manifest.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "quern-guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, out := filepath.FromSlash("../../sdk/plugin/testdata/warm"), filepath.Join(dir, "warm.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, ".")
	build.Dir, build.Env = source, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the guest: %w: %s", err, said)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	print := exec.Command("go", "run", ".")
	print.Dir = source
	said, err := print.Output()
	if err != nil {
		return nil, fmt.Errorf("printing the manifest: %w", err)
	}
	return manifest.Pack(module, said)
})

func guest(t testing.TB) ([]byte, *manifest.Manifest) {
	t.Helper()
	module, err := goGuest()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := manifest.Extract(module)
	if err != nil {
		t.Fatal(err)
	}
	m, violations := manifest.Parse(raw)
	if len(violations) > 0 {
		t.Fatalf("the manifest that the SDK prints is not valid: %v", violations)
	}
	return module, m
}
