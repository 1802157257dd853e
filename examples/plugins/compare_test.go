//quern:tests processes
package plugins_test

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/abi"
)

// compared are the languages of the comparison. Go's module is built here, the others by `make plugins`.
func compared() map[string]func(testing.TB) []byte {
	modules := map[string]func(testing.TB) []byte{
		"go": func(t testing.TB) []byte { return goModule(t, "compare/go") },
	}
	for _, language := range []string{"rust", "c", "assemblyscript"} {
		modules[language] = func(t testing.TB) []byte { return built(t, "compare-"+language) }
	}
	return modules
}

// compareNatively is the comparison's scorer over the columns of a batch, in Go and outside of any sandbox. The conversions keep
// the compiler from joining a product and a sum into one rounding, which WebAssembly does not do.
func compareNatively(b *abi.Batch, scores []float64) {
	p, a, at, re, in, co, m, li := b.Columns[0].I64, b.Columns[1].I64, b.Columns[2].U32, b.Columns[3].U32, b.Columns[4].U32, b.Columns[5].I64, b.Columns[6].U32, b.Columns[7].I64
	w := b.Columns[8].U32[0]
	for i := range scores {
		s := float64(float64(p[i])*10) + float64(float64(a[i])*0.001) - float64(float64(at[i])*5) + 1000/(1+float64(re[i])) - float64(0.5*float64(in[i])*float64(in[i])) + float64(float64(co[i])*0.25)
		if m[i] == w {
			s *= 2
		}
		if li[i] == 0 {
			s -= 1e6
		}
		scores[i] = s
	}
}

// The same scorer in four languages gives the same scores, bit for bit.
func TestCompare(t *testing.T) {
	t.Parallel()
	for language, module := range compared() {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			p := load(t, module(t), `{}`, still)
			var of *abi.Batch
			var want []float64
			agree(t, p, func(b table, row int) float64 {
				if of != b.Batch {
					of, want = b.Batch, make([]float64, b.Rows)
					compareNatively(b.Batch, want)
				}
				return want[row]
			})
		})
	}
}

// BenchmarkCompare measures the cost of a candidate at a window of 256, 8 columns, one of the context, and fuel, in each language and in
// native Go. They take turns in short blocks, of which the fastest counts: on a machine that others use as well, the fastest is the nearest
// to the cost of the work. The ratios to native are the figures to compare.
func BenchmarkCompare(b *testing.B) {
	const rows, block = 256, 32
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) }
	scores := make([]float64, rows)
	languages := []string{"native", "go", "rust", "c", "assemblyscript"}
	run := make([]func(), len(languages))
	best, fuel := make([]time.Duration, len(languages)), make([]int64, len(languages))
	var data table
	for k, language := range languages[1:] {
		p := load(b, compared()[language](b), `{}`, clock)
		data = random(p.manifest.Columns, rows, 1)
		run[k+1] = func() {
			report, err := p.Score(b.Context(), data.Batch, scores)
			if err != nil {
				b.Fatal(err)
			}
			fuel[k+1] = report.Fuel
		}
	}
	run[0] = func() { compareNatively(data.Batch, scores) }
	for b.Loop() {
		for k, score := range run {
			began := time.Now()
			for range block {
				score()
			}
			if took := time.Since(began); best[k] == 0 || took < best[k] {
				best[k] = took
			}
		}
	}
	for k, language := range languages {
		b.ReportMetric(float64(best[k].Nanoseconds())/block/rows, language+"-ns")
		b.ReportMetric(float64(best[k])/float64(best[0]), language+"/native")
		b.ReportMetric(float64(fuel[k])/rows, language+"-fuel")
	}
}
