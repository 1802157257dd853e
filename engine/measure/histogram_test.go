package measure

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// An observation is counted, as often as it says, in the one native bucket whose bounds hold it, and in every classic bucket whose bound it
// does not exceed.
func TestObserveFindsItsBuckets(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	bounds := []float64{0.001, 0.5, 1, 60, 3600}
	for range 20_000 {
		v := math.Exp2(rnd.Float64()*50 - 25)
		switch rnd.IntN(4) {
		case 0:
			v = math.Exp2(float64(rnd.IntN(46) - 20)) // on a bound
		case 1:
			v = math.Exp2(float64(rnd.IntN(46*8)-160) / 8)
		}
		n := 1 + rnd.Uint64N(5)
		h := New(bounds)
		h.Observe(v, n)
		c := h.Counts()
		if c.Count != n || c.Sum != v*float64(n) {
			t.Fatalf("seed %d: %d of %v: got count %d and sum %v", seed, n, v, c.Count, c.Sum)
		}
		for i, bound := range bounds {
			if got, want := c.Classic[i], n; v <= bound && got != want || v > bound && got != 0 {
				t.Fatalf("seed %d: %d of %v: got %d up to %v", seed, n, v, got, bound)
			}
		}
		if v <= Threshold {
			if c.Zeros != n {
				t.Fatalf("seed %d: %v: got %d zeros, want %d", seed, v, c.Zeros, n)
			}
			continue
		}
		for i, got := range c.Native {
			if got == 0 {
				continue
			}
			// The definition: bucket i holds values above base^(i-1) and not above base^i, with base 2^(2^-Schema). Bounds are roots, whose
			// last digit may be wrong.
			above, upTo := math.Exp2(float64(c.First+i-1)/8), math.Exp2(float64(c.First+i)/8)
			if mantissa, power := math.Frexp(v); mantissa == 0.5 && c.First+i != (power-1)*8 {
				t.Fatalf("seed %d: %v, which is a bound, is in the bucket with the index %d, want %d", seed, v, c.First+i, (power-1)*8)
			}
			last := i == len(c.Native)-1
			if got != n || v < above*(1-1e-15) || v > upTo*(1+1e-15) && !last {
				t.Fatalf("seed %d: %v is in the bucket (%v, %v] with %d, want %d", seed, v, above, upTo, got, n)
			}
		}
	}
}

// Values that are no amount count as 0, and a nil histogram counts nothing.
func TestObserveOddities(t *testing.T) {
	t.Parallel()
	var none *Histogram
	none.Observe(1, 1)
	h := New([]float64{1})
	for _, v := range []float64{0, -5, math.NaN(), math.Inf(-1)} {
		h.Observe(v, 1)
	}
	h.Observe(math.Inf(1), 0)
	c := h.Counts()
	if c.Zeros != 4 || c.Count != 4 || c.Sum != 0 || c.Classic[0] != 4 {
		t.Errorf("got %+v, want 4 zeros", c)
	}
	h.Observe(math.MaxFloat64, 1)
	if c := h.Counts(); c.Native[len(c.Native)-1] != 1 || c.Classic[0] != 4 {
		t.Errorf("the largest number: got %v in the last native bucket and %v up to 1", c.Native[len(c.Native)-1], c.Classic[0])
	}
}

// Nothing is lost when many observe at once.
func TestObserveAtOnce(t *testing.T) {
	t.Parallel()
	h := New([]float64{1, 2})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 10_000 {
				h.Observe(1.5, 2)
			}
		})
	}
	group.Wait()
	if c := h.Counts(); c.Count != 80_000 || c.Sum != 120_000 || c.Classic[0] != 0 || c.Classic[1] != 80_000 {
		t.Errorf("got %d with the sum %v and %v, want 80000, 120000 and [0 80000]", c.Count, c.Sum, c.Classic)
	}
}

func BenchmarkObserve(b *testing.B) {
	h := New([]float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 21600, 86400})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.Observe(float64(i&1023)/100, 1)
	}
}
