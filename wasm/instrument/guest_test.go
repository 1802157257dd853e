package instrument_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/scan"
)

// goGuest builds the plugin of testdata/guest with the Go tool that runs this test.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "guest.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", file, "./testdata/guest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the guest: %w: %s", err, out)
	}
	return os.ReadFile(file)
})

// A plugin in plain Go passes the scan, computes what the same code computes here, within a bounded amount of fuel, and has
// the exports of its own globals.
func TestGoGuest(t *testing.T) {
	t.Parallel()
	module, err := goGuest()
	if err != nil {
		t.Fatal(err)
	}
	o := instrument.DefaultOptions()
	rewritten := rewrite(t, module, o)
	if len(rewritten.Bytes) > 2*len(module) || len(rewritten.Globals) < 5 {
		t.Errorf("%d bytes become %d, with %d globals; want at most twice as many, and 5 globals or more", len(module), len(rewritten.Bytes), len(rewritten.Globals))
	}
	i := instantiate(t, rewritten.Bytes, o)
	_, started, err := i.call(100_000_000, "_initialize")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 7))
	column := make([]int64, 256)
	for row := range column {
		column[row] = random.Int64N(10_000) - 5_000
	}
	batch := i.writeGoBatch(column)
	_, used, err := i.call(50_000_000, "quern_score", uint64(batch))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := i.scores(batch, len(column)), goScores(column); !slices.Equal(got, want) {
		t.Errorf("scores are %v, want %v", got, want)
	}
	t.Logf("_initialize used %d units, a batch of 256 rows %d, %d for each", started, used, used/256)
}

// writeGoBatch writes a batch whose column the guest finds at the offset in the header itself.
func (i *instance) writeGoBatch(column []int64) uint32 {
	i.t.Helper()
	at := i.writeBatch(column)
	i.Memory().WriteUint32Le(at+16, 64+16)
	return at
}

// goScores computes the scores of testdata/guest.
func goScores(column []int64) []float64 {
	seen, order, scores := map[string]int{}, make([]int, len(column)), make([]float64, len(column))
	for i, v := range column {
		order[i] = i
		seen["key-"+strconv.FormatInt(v%17, 10)]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(column[a] - column[b]) })
	for rank, i := range order {
		scores[i] = float64(rank)*10 + float64(seen["key-"+strconv.FormatInt(column[i]%17, 10)])/3
	}
	return scores
}

// BenchmarkInstrument is how fast a Go guest is scanned and rewritten.
func BenchmarkInstrument(b *testing.B) {
	module, err := goGuest()
	if err != nil {
		b.Fatal(err)
	}
	report, violations := scan.Scan(module, scan.DefaultLimits())
	if len(violations) > 0 {
		b.Fatal(violations)
	}
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(module)))
		for b.Loop() {
			scan.Scan(module, scan.DefaultLimits())
		}
	})
	b.Run("rewrite", func(b *testing.B) {
		b.SetBytes(int64(len(module)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := instrument.Instrument(module, report, instrument.DefaultOptions()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
