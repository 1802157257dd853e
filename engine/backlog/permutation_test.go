package backlog

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Every permutation visits every chunk exactly once, and positionOf is the inverse of at.
func TestPermutationIsOne(t *testing.T) {
	t.Parallel()
	for n := uint32(1); n <= 400; n++ {
		for seed := range uint64(8) {
			s := permuted(n, seed)
			seen := make([]bool, n)
			for p := range n {
				index := s.at(p)
				if index >= n || seen[index] {
					t.Fatalf("n=%d seed=%d: position %d holds %d, which is out of range or comes twice", n, seed, p, index)
				}
				seen[index] = true
				if got := s.positionOf(index); got != p {
					t.Fatalf("n=%d seed=%d: positionOf(%d) = %d, want %d", n, seed, index, got, p)
				}
			}
		}
	}
}

func permuted(n uint32, seed uint64) *Submission {
	mul, add := Permutation(n, seed)
	spec := Spec{ID: 1, Chunks: n, Mul: mul, Add: add}
	if err := spec.Check(); err != nil {
		panic(err)
	}
	return &Submission{home: New(), chunks: n, mul: mul, add: add, inv: inverse(mul, n)}
}

// No permutation is close to index order (forwards, backwards or in a few interleaved runs) where another one exists.
func TestPermutationIsMixed(t *testing.T) {
	t.Parallel()
	sizes := []uint32{1_000, 4_096, 65_536, 1_000_000, 1 << 24, 223092870, 1<<31 - 1, 1 << 31, math.MaxUint32 - 1, math.MaxUint32}
	for n := uint32(5); n <= 500; n++ {
		if n != 6 { // 6 has only the multipliers 1 and 5
			sizes = append(sizes, n)
		}
	}
	for _, n := range sizes {
		for seed := range uint64(20) {
			mul, _ := Permutation(n, seed)
			if mul == 1 || mul == n-1 {
				t.Fatalf("n=%d seed=%d: multiplier %d is index order", n, seed, mul)
			}
			if spread, _ := latticeSpread(mul, n); float64(spread) < 0.4*float64(n) {
				t.Errorf("n=%d seed=%d: multiplier %d has its nearest neighbours at %.2f*sqrt(n), want 0.63", n, seed, mul, math.Sqrt(float64(spread)/float64(n)))
			}
		}
	}
}

// latticeSpread finds the shortest vector that trying all of them finds.
func TestLatticeSpread(t *testing.T) {
	t.Parallel()
	for n := uint32(2); n <= 150; n++ {
		for mul := uint32(1); mul < n; mul++ {
			got, coprime := latticeSpread(mul, n)
			if coprime != (gcd(mul, n) == 1) {
				t.Fatalf("n=%d mul=%d: coprime = %v", n, mul, coprime)
			}
			want := uint64(n) * uint64(n)
			for k := uint64(1); coprime && k < uint64(n); k++ {
				d := k * uint64(mul) % uint64(n)
				d = min(d, uint64(n)-d)
				want = min(want, k*k+d*d)
			}
			if coprime && got != want {
				t.Fatalf("n=%d mul=%d: spread %d, want %d", n, mul, got, want)
			}
		}
	}
}

// Different seeds give different permutations, and over the seeds the first position is uniform over the chunks.
func TestPermutationSeeds(t *testing.T) {
	t.Parallel()
	const n, seeds = 40, 40_000
	var count [n]float64
	pairs := map[[2]uint32]bool{}
	for seed := range uint64(seeds) {
		mul, add := Permutation(n, seed)
		count[add]++
		pairs[[2]uint32{mul, add}] = true
	}
	var chi float64
	for _, c := range count {
		chi += (c - seeds/n) * (c - seeds/n) / (seeds / n)
	}
	if chi > 80 { // 39 degrees of freedom: 72 at 99.9 %
		t.Errorf("chi-square of the first chunk is %.1f, want at most 80", chi)
	}
	if len(pairs) < 4*n {
		t.Errorf("%d different permutations of %d chunks from %d seeds, want at least %d", len(pairs), n, seeds, 4*n)
	}
}

// firstHit finds the first multiple that falls into a range, as trying finds it.
func TestFirstHit(t *testing.T) {
	t.Parallel()
	for m := uint64(2); m <= 60; m++ {
		for a := uint64(1); a < m; a++ {
			if gcd(uint32(a), uint32(m)) != 1 {
				continue
			}
			for lo := uint64(1); lo < m; lo++ {
				for hi := lo; hi < m; hi++ {
					var want uint64
					for ; a*want%m < lo || a*want%m > hi; want++ {
					}
					if got := firstHit(a, m, lo, hi); got != want {
						t.Fatalf("firstHit(%d, %d, %d, %d) = %d, want %d", a, m, lo, hi, got, want)
					}
				}
			}
		}
	}
}

// countBelow counts what counting counts, and nothing overflows at the largest size: all positions hold l chunks below l,
// and between two hits there is none.
func TestCountBelow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		n := 1 + r.Uint32N(300)
		s := permuted(n, r.Uint64())
		p, l := r.Uint32N(n+1), r.Uint32N(n+1)
		var want uint32
		for q := range p {
			if s.at(q) < l {
				want++
			}
		}
		if got := countBelow(n, s.mul, s.add, p, l); got != want {
			t.Fatalf("countBelow(n=%d, mul=%d, add=%d, p=%d, l=%d) = %d, want %d", n, s.mul, s.add, p, l, got, want)
		}
	}
	for range 3000 {
		const n = math.MaxUint32
		s := permuted(n, r.Uint64())
		l := r.Uint32()
		if got := countBelow(n, s.mul, s.add, n, l); got != l {
			t.Fatalf("mul=%d add=%d: %d of all chunks are below %d", s.mul, s.add, got, l)
		}
		s.p, s.l = r.Uint32N(n), n-1-uint32(r.Uint64()>>(32+r.IntN(32)))
		p := s.p
		if _, ok := s.advance(true); !ok {
			continue
		}
		hits := func(p uint32) uint32 { return p - countBelow(n, s.mul, s.add, p, s.l) }
		if hits(s.p-1) != hits(p) || hits(s.p) != hits(p)+1 {
			t.Fatalf("mul=%d add=%d l=%d: from position %d the cursor jumped to %d past %d chunks", s.mul, s.add, s.l, p, s.p, hits(s.p)-hits(p))
		}
	}
}

// Both cursors visit every chunk exactly once between them, in whatever mixture they are advanced.
func TestCursorsShareTheChunks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 1 + r.Uint32N(200)
		s := permuted(n, r.Uint64())
		seen := map[uint32]bool{}
		bias := r.Float64()
		for range n {
			random := r.Float64() < bias
			least := uint32(0)
			for seen[least] {
				least++
			}
			index, ok := s.advance(random)
			if !ok || seen[index] || index >= n {
				t.Fatalf("seed=%d n=%d: after %d chunks the cursor gave %d, %v", seed, n, len(seen), index, ok)
			}
			if !random && index != least {
				t.Fatalf("seed=%d n=%d: the ordered cursor gave %d, want %d", seed, n, index, least)
			}
			seen[index] = true
		}
		for _, random := range []bool{true, false} {
			if index, ok := s.advance(random); ok {
				t.Fatalf("seed=%d n=%d: one chunk too many: %d", seed, n, index)
			}
		}
	}
}
