// Package measure has histograms for events that are too frequent for a general histogram: one observation stands for any number of equal
// ones, takes no lock and allocates nothing. A histogram is shown in the form of Prometheus' native histograms, and in the classic form.
package measure

import (
	"math"
	"sync/atomic"
)

// Schema is the resolution of native buckets, in Prometheus' terms: 2^Schema of them to each power of two, 9% wide each.
const Schema = 3

const (
	perPower = 1 << Schema
	lowest   = -20 // 2^lowest and everything below it is one bucket: a microsecond, of seconds
	powers   = 46  // up to 2^26: two years, of seconds. A larger value is counted in the last bucket
	slots    = powers * perPower
)

// Threshold is the upper bound of the bucket of zeros.
const Threshold = 1.0 / (1 << -lowest)

// Histogram counts observations. Make it with New; nil is one that counts nothing. All methods are safe for concurrent use.
type Histogram struct {
	bounds  []float64
	classic []atomic.Uint64 // by bound; the last is beyond all
	native  [slots]atomic.Uint64
	zeros   atomic.Uint64
	sum     atomic.Uint64 // bits of a float64
}

// New makes an empty histogram whose classic buckets have these upper bounds, in rising order. It keeps the slice.
func New(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, classic: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts n observations of v. A negative value, or NaN, is counted as 0.
func (h *Histogram) Observe(v float64, n uint64) {
	if h == nil || n == 0 {
		return
	}
	if !(v > 0) {
		v = 0
	}
	at := 0
	for at < len(h.bounds) && v > h.bounds[at] {
		at++
	}
	h.classic[at].Add(n)
	if v <= Threshold {
		h.zeros.Add(n)
	} else {
		h.native[slotOf(v)].Add(n)
	}
	for {
		before := h.sum.Load()
		after := math.Float64bits(math.Float64frombits(before) + v*float64(n))
		if h.sum.CompareAndSwap(before, after) {
			return
		}
	}
}

// edges are the upper bounds of the native buckets within a power of two, of a mantissa in [0.5, 1): that of one bucket is the
// least that still belongs to it.
var edges = [perPower]float64{
	0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048, 0.7071067811865475, 0.7711054127039704,
	0.8408964152537144, 0.9170040432046711,
}

// slotOf is the place of the native bucket of v, which is above Threshold.
func slotOf(v float64) int {
	if v > 1<<(powers+lowest) {
		return slots - 1
	}
	mantissa, power := math.Frexp(v)
	at := 0
	for at < perPower && mantissa > edges[at] {
		at++
	}
	return at + (power-1-lowest)*perPower - 1
}

// Counts are a histogram's numbers at one moment.
type Counts struct {
	Count   uint64
	Sum     float64
	Zeros   uint64
	Bounds  []float64 // of the classic buckets
	Classic []uint64  // observations up to each of Bounds: cumulative, as classic buckets are
	Native  []uint64  // by bucket, not cumulative, from the one with the index First on
	First   int       // the bucket with index i ends at 2^(i/2^Schema)
}

// Counts reads the numbers. While others observe, the numbers may be of slightly different moments. Count agrees with the native buckets.
func (h *Histogram) Counts() Counts {
	c := Counts{
		Sum: math.Float64frombits(h.sum.Load()), Zeros: h.zeros.Load(), Bounds: h.bounds, Classic: make([]uint64, len(h.bounds)),
		Native: make([]uint64, slots), First: lowest*perPower + 1,
	}
	c.Count = c.Zeros
	for i := range h.native {
		c.Native[i] = h.native[i].Load()
		c.Count += c.Native[i]
	}
	below := uint64(0)
	for i := range h.bounds {
		below = min(below+h.classic[i].Load(), c.Count)
		c.Classic[i] = below
	}
	return c
}
