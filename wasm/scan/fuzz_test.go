package scan_test

import (
	"testing"

	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// Whatever the bytes are, the scan ends without a panic and takes memory in proportion to them.
func FuzzScan(f *testing.F) {
	for _, h := range wasmtest.Corpus() {
		if module := h.Build(); len(module) < 4<<10 {
			f.Add(module)
		}
	}
	f.Add(wasmtest.ScorerWith("name", []byte{1, 3, 1, 0, 0}))
	f.Fuzz(func(t *testing.T, module []byte) {
		var violations []scan.Violation
		taken := allocated(func() { _, violations = scan.Scan(module, scan.DefaultLimits()) })
		if bound := uint64(1<<20 + 64*len(module)); taken > bound {
			t.Errorf("the scan of %d bytes took %d bytes, want at most %d", len(module), taken, bound)
		}
		for _, v := range violations {
			if v.Rule == scan.Panicked || v.Offset < 0 || v.Offset > len(module) {
				t.Errorf("violation %v", v)
			}
		}
	})
}

// BenchmarkScan is how fast modules are scanned: one of many small functions, one of one large function.
func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name   string
		module []byte
	}{{"functions", wasmtest.Functions(20_000)}, {"straight", wasmtest.Straight(40_000)}, {"scorer", wasmtest.Scorer()}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.module)))
			b.ReportAllocs()
			for b.Loop() {
				if _, violations := scan.Scan(c.module, scan.DefaultLimits()); len(violations) > 0 {
					b.Fatal(violations)
				}
			}
		})
	}
}
