package host_test

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// BenchmarkScore measures the cost of a candidate at a window of 256 with 8 columns, 2 of the context, and fuel: the Go guest
// beside the same function natively in the same run, and a hand-built module with two columns. Reported per candidate.
func BenchmarkScore(b *testing.B) {
	const rows = 256
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) }
	each := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/candidate")
	}
	data, scores := warmBatch(rows, 1), make([]float64, rows)
	b.Run("native", func(b *testing.B) {
		for b.Loop() {
			warmScore(data, scores)
		}
		each(b)
	})
	module, m := guest(b)
	for _, state := range []manifest.State{manifest.Pooled, manifest.Reset} {
		with := *m
		with.State = state
		v := open(b, module, host.Options{Manifest: &with, Capacity: rows, Clock: clock})
		b.Run("go/"+string(state), func(b *testing.B) {
			b.ReportAllocs()
			fuel := int64(0)
			for b.Loop() {
				report, err := v.Score(b.Context(), data, scores)
				if err != nil {
					b.Fatal(err)
				}
				fuel = report.Fuel
			}
			each(b)
			b.ReportMetric(float64(fuel)/rows, "fuel/candidate")
		})
	}
	v := open(b, wasmtest.Scorer(), host.Options{Manifest: declare(b, "priority", "age_ms"), Capacity: rows, Clock: clock})
	two := &abi.Batch{Header: data.Header, Columns: data.Columns[:2]}
	b.Run("built/two-columns", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Score(b.Context(), two, scores); err != nil {
				b.Fatal(err)
			}
		}
		each(b)
	})
	one := &abi.Batch{Header: abi.Header{Rows: 1}, Columns: []abi.Values{{I64: []int64{1}}, {I64: []int64{1}}}}
	b.Run("built/one-row", func(b *testing.B) {
		for b.Loop() {
			if _, err := v.Score(b.Context(), one, scores[:1]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
