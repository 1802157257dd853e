package host_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
)

// warmBatch is a batch of n random rows for the plugin of testdata/warm.
func warmBatch(n int, seed uint64) *abi.Batch {
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := &abi.Batch{Header: abi.Header{Rows: uint32(n), Now: 1_700_000_000_000, Seed: seed, Want: 4}, Dictionary: []string{"llama", "favoured", "", "mistral"}}
	b.Columns = make([]abi.Values, 10)
	for range n {
		for _, k := range []int{0, 1, 5, 7} {
			b.Columns[k].I64 = append(b.Columns[k].I64, rnd.Int64N(1000)-100)
		}
		for _, k := range []int{2, 3, 4} {
			b.Columns[k].U32 = append(b.Columns[k].U32, rnd.Uint32N(50))
		}
		b.Columns[6].U32 = append(b.Columns[6].U32, rnd.Uint32N(5))
		b.Columns[5].Valid = append(b.Columns[5].Valid, rnd.IntN(3) > 0)
	}
	for k := 0; k < n; k += 7 {
		b.Columns[7].I64[k] = 0
	}
	b.Columns[8] = abi.Values{U32: []uint32{1 + rnd.Uint32N(4)}}
	b.Columns[9] = abi.Values{I64: []int64{5}}
	return b
}

// warmScore computes the same scores as the plugin, on the host's side of the batch.
func warmScore(b *abi.Batch, scores []float64) {
	p, a, at, re, in, co, m, li := b.Columns[0].I64, b.Columns[1].I64, b.Columns[2].U32, b.Columns[3].U32, b.Columns[4].U32, b.Columns[5].I64, b.Columns[6].U32, b.Columns[7].I64
	valid, want, near := b.Columns[5].Valid, b.Columns[8].U32[0], b.Columns[9].I64[0]
	for i := range scores {
		cost := co[i]
		if !valid[i] {
			cost = 0
		}
		s := float64(p[i])*10 + float64(a[i])*0.001 - float64(at[i])*5 + 1000/(1+float64(re[i])) - 0.5*float64(in[i])*float64(in[i]) + float64(cost)*0.25 + float64(near)
		if want != 0 && m[i] == want {
			s *= 2
		}
		if m[i] == 2 {
			s += 1e6
		}
		scores[i] = s
		if li[i] == 0 {
			scores[i] = math.NaN()
		}
	}
}

// A plugin in Go, built by the plain toolchain, scores as the same arithmetic outside: columns, absent values, context, interned
// strings, counters and skips arrive as they should.
//
//quern:sequential
func TestGuestScores(t *testing.T) {
	t.Parallel()
	module, m := guest(t)
	v := open(t, module, host.Options{Manifest: m, Capacity: 256})
	for seed := range uint64(20) {
		b := warmBatch([]int{0, 1, 2, 17, 256}[seed%5], seed)
		got, want := make([]float64, b.Rows), make([]float64, b.Rows)
		report, err := v.Score(t.Context(), b, got)
		if err != nil {
			t.Fatalf("seed %d: %v; log %v", seed, err, report.Logs)
		}
		warmScore(b, want)
		skipped, hits := 0, 0.0
		for i := range want {
			if want[i] != want[i] {
				skipped++
			}
			if b.Columns[6].U32[i] == b.Columns[8].U32[0] {
				hits++
			}
			if got[i] != want[i] && (got[i] == got[i] || want[i] == want[i]) {
				t.Fatalf("seed %d: row %d: got %v, want %v", seed, i, got[i], want[i])
			}
		}
		counted := 0.0
		if report.Counters != nil {
			counted = report.Counters[0]
		}
		if report.Skipped != skipped || report.Unwritten != 0 || counted != hits {
			t.Errorf("seed %d: got %d skipped and %v counted, want %d and %v", seed, report.Skipped, counted, skipped, hits)
		}
	}
}

// A configuration that the plugin refuses makes no version, and the error says what the plugin said.
//
//quern:sequential
func TestInitRefuses(t *testing.T) {
	t.Parallel()
	module, m := guest(t)
	_, err := tryOpen(t, module, host.Options{Manifest: m, Config: []byte(`{"refuse":true}`)})
	var fault *host.Fault
	if !errors.As(err, &fault) || fault.Kind != host.Init || fault.Cause != host.Status || fault.Code != 1 || !strings.Contains(fault.Detail, "told to refuse") {
		t.Errorf("got %v, want an init fault of status 1 with what the plugin logged", err)
	}
}

// With the state "reset" the same batch gives the same bits 100 times, on different instances, whatever was scored between.
//
//quern:sequential
func TestResetReplaysBitExactly(t *testing.T) {
	t.Parallel()
	module, m := guest(t)
	v := open(t, module, host.Options{Manifest: m, Capacity: 256, Instances: 3})
	other := open(t, module, host.Options{Manifest: m, Capacity: 256})
	b := warmBatch(256, 42)
	want := make([]float64, 256)
	report, err := v.Score(t.Context(), b, want)
	if err != nil {
		t.Fatal(err)
	}
	for round := range uint64(100) {
		on := v
		if round%3 == 0 {
			on = other
		}
		noise := warmBatch(int(round), round)
		if _, err := on.Score(t.Context(), noise, make([]float64, noise.Rows)); err != nil {
			t.Fatal(err)
		}
		got := make([]float64, 256)
		again, err := on.Score(t.Context(), b, got)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
				t.Fatalf("round %d: row %d: got %x, want %x", round, i, math.Float64bits(got[i]), math.Float64bits(want[i]))
			}
		}
		if again.Fuel != report.Fuel {
			t.Fatalf("round %d: took %d units, the first time %d", round, again.Fuel, report.Fuel)
		}
	}
}
