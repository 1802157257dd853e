package backlog

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Every order visits every chunk exactly once, and positionOf is the inverse of at.
func TestOrderIsPermutation(t *testing.T) {
	t.Parallel()
	for n := uint32(1); n <= 700; n++ {
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
	rnd := rand.New(rand.NewPCG(1, 50))
	for _, n := range []uint32{1 << 16, 1<<16 + 1, 1 << 20, 1_000_003, 1<<30 + 1, 1 << 31, math.MaxUint32 - 1, math.MaxUint32} {
		for range 2000 {
			s, p := permuted(n, rnd.Uint64()), rnd.Uint32N(n)
			if index := s.at(p); index >= n || s.positionOf(index) != p {
				t.Fatalf("n=%d key=%d: position %d holds %d, which is at %d", n, s.key, p, index, s.positionOf(index))
			}
		}
	}
}

// The rounds that are written out for few chunks give the same orders as the loop.
func TestOrderOfFewIsThatOfMany(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 52))
	for n := uint32(maxTable + 1); n <= mostFew; n++ {
		if _, half, rounds := shape(n); half != 3 || rounds != 6 {
			t.Fatalf("n=%d: a half of %d bits and %d rounds, which are not those written out", n, half, rounds)
		}
		for range 500 {
			key := max(rnd.Uint64(), 1)
			for p := range n {
				if few, many := encipherFew(key, n, p), encipherMany(key, n, p); few != many {
					t.Fatalf("n=%d key=%#x: position %d holds %d, want %d as the loop has it", n, key, p, few, many)
				}
			}
		}
	}
}

func permuted(n uint32, seed uint64) *Submission {
	spec := Spec{ID: 1, Chunks: n, Key: OrderKey(n, seed)}
	if err := spec.Check(); err != nil {
		panic(err)
	}
	return &Submission{home: &New().Values, chunks: n, key: spec.Key}
}

// A key that is no order of so many chunks is refused: chunks that are missing or come twice, more of them than there are, and
// the one key that would leave a cipher without effect.
func TestOrderKeysAreChecked(t *testing.T) {
	t.Parallel()
	for _, spec := range []Spec{
		{Chunks: 3, Key: 0x110}, {Chunks: 3, Key: 0x321}, {Chunks: 3, Key: 0x3210}, {Chunks: 16, Key: 0}, {Chunks: 17, Key: 0},
	} {
		if err := spec.Check(); err == nil {
			t.Errorf("%+v is accepted", spec)
		}
	}
	if err := (&Spec{Chunks: 3, Key: 0x120}).Check(); err != nil {
		t.Errorf("the order 0, 2, 1 is refused: %v", err)
	}
}

// All orders of a few chunks come, and equally often: 24 of 4, 720 of 6, 5,040 of 7.
func TestAllOrdersOfFew(t *testing.T) {
	t.Parallel()
	for _, n := range []uint32{2, 3, 4, 5, 6, 7} {
		orders := 1
		for i := 2; i <= int(n); i++ {
			orders *= i
		}
		got, want := map[uint64]float64{}, make([]float64, orders)
		rnd := rand.New(rand.NewPCG(soakSeed(t), 51))
		for range 60 * orders {
			got[OrderKey(n, rnd.Uint64())]++
		}
		counts := make([]float64, 0, orders)
		for _, count := range got {
			counts = append(counts, count)
		}
		if len(counts) != orders {
			t.Fatalf("%d chunks come in %d orders, want %d", n, len(counts), orders)
		}
		for i := range want {
			want[i] = 60
		}
		chiSquare(t, fmt.Sprint("orders of ", n), counts, want)
	}
}

// Over keys every position holds every chunk equally often, so do two that follow each other hold every pair, and so come all
// differences between these two, and all orders of four in a row.
func TestOrdersAreEven(t *testing.T) {
	t.Parallel()
	for _, n := range []uint32{2, 5, 6, 15, 16, 17, 20, 24, 25, 32, 33, 48, 64, 65, 100, 128, 200, 256, 257, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			const draws = 60_000
			rnd := rand.New(rand.NewPCG(soakSeed(t), uint64(n)))
			single, pairs, differences, ranks := make([]float64, n), make([]float64, n*n), make([]float64, n), make([]float64, 24)
			for range draws {
				s, p := permuted(n, rnd.Uint64()), rnd.Uint32N(n-1)
				x, y := s.at(p), s.at(p+1)
				single[x]++
				pairs[x*n+y]++
				differences[(y+n-x)%n]++
				if n >= 4 {
					ranks[rank(s, rnd.Uint32N(n-3))]++
				}
			}
			chiSquare(t, "chunks", single, evenly(draws, single, nil))
			chiSquare(t, "differences", differences, evenly(draws, differences, func(i int) bool { return i == 0 }))
			if n*n < draws/5 {
				chiSquare(t, "pairs", pairs, evenly(draws, pairs, func(i int) bool { return i%int(n) == i/int(n) }))
			}
			if n >= 4 {
				chiSquare(t, "orders of four", ranks, evenly(draws, ranks, nil))
			}
		})
	}
}

// rank is which of the 24 orders four chunks in a row have.
func rank(s *Submission, p uint32) (rank int) {
	for i := range uint32(4) {
		smaller := 0
		for j := i + 1; j < 4; j++ {
			if s.at(p+j) < s.at(p+i) {
				smaller++
			}
		}
		rank = rank*int(4-i) + smaller
	}
	return rank
}

// evenly is the expected number of hits of each cell, except those that cannot be hit.
func evenly(draws float64, cells []float64, never func(i int) bool) []float64 {
	want, possible := make([]float64, len(cells)), 0.0
	for i := range cells {
		if never == nil || !never(i) {
			want[i] = 1
			possible++
		}
	}
	for i := range want {
		want[i] *= draws / possible
	}
	return want
}

// Within one large order there is no stride and no pattern: a chunk's place does not predict the next one, by blocks of
// the indexes, by the differences of two and of three in a row, or by the lowest bits.
func TestOrderHasNoPattern(t *testing.T) {
	t.Parallel()
	for _, n := range []uint32{1000, 1024, 65_536, 1_000_000, 1<<32 - 1} {
		rnd := rand.New(rand.NewPCG(soakSeed(t), uint64(n)+1))
		var blocks, turns [256]float64
		var differences, low [64]float64
		rows := max(1, 400_000/int(n))
		draws := 0.0
		for range rows {
			s := permuted(n, rnd.Uint64())
			x, y := s.at(0), s.at(1)
			for p := uint32(2); p < min(n, 400_000); p++ {
				z := s.at(p)
				of := func(x, cells uint64) uint64 { return x % uint64(n) * cells / uint64(n) }
				blocks[of(uint64(x), 16)*16+of(uint64(y), 16)]++
				turns[of(uint64(x)+uint64(n)-uint64(y), 16)*16+of(uint64(z)+uint64(n)-uint64(y), 16)]++
				differences[of(uint64(y)+uint64(n)-uint64(x), 64)]++
				low[x&7*8+y&7]++
				draws++
				x, y = y, z
			}
		}
		if n >= 1<<16 { // of fewer chunks these cells are not of one size
			chiSquare(t, fmt.Sprint("differences of ", n), differences[:], evenly(draws, differences[:], nil))
			chiSquare(t, fmt.Sprint("turns of ", n), turns[:], evenly(draws, turns[:], nil))
		}
		if n != 1000 {
			chiSquare(t, fmt.Sprint("blocks of ", n), blocks[:], evenly(draws, blocks[:], nil))
			chiSquare(t, fmt.Sprint("low bits of ", n), low[:], evenly(draws, low[:], nil))
		}
		if n == 1000 {
			s := permuted(n, rnd.Uint64())
			seen := map[uint32]bool{}
			for p := range uint32(299) {
				seen[(s.at(p+1)+n-s.at(p))%n] = true
			}
			if len(seen) < 200 { // of 999; about 258 are expected, and fewer than 200 never come
				t.Errorf("300 of 1,000 chunks in a row have %d different distances, want 200 at least", len(seen))
			}
		}
	}
}

// The orders of two submissions have nothing to do with each other: where one has a chunk says nothing of where another has it,
// also where the keys are drawn from seeds that follow each other.
func TestOrdersAreIndependent(t *testing.T) {
	t.Parallel()
	const n, pairs = 1000, 400
	rnd := rand.New(rand.NewPCG(soakSeed(t), 53))
	var blocks [256]float64
	worst := 0.0
	start := rnd.Uint64()
	for i := range uint64(pairs) {
		a, b := permuted(n, start+i), permuted(n, start+i+1)
		var sum float64
		for index := range uint32(n) {
			x, y := a.positionOf(index), b.positionOf(index)
			sum += (float64(x) - (n-1)/2.) * (float64(y) - (n-1)/2.)
			blocks[x*16/n*16+y*16/n]++
		}
		worst = max(worst, math.Abs(sum)/(n*(n*n-1)/12.))
	}
	if limit := 5.2 / math.Sqrt(n); worst > limit { // a false alarm in 10^4 runs of all pairs
		t.Errorf("the positions of %d chunks in two orders correlate with r = %.3f, want at most %.3f", n, worst, limit)
	}
	want := make([]float64, 256)
	for i := range want { // a block of 16 has 62 or 63 positions
		size := func(i int) float64 { return math.Ceil(float64(i+1)*n/16) - math.Ceil(float64(i)*n/16) }
		want[i] = pairs * size(i/16) * size(i%16) / n
	}
	chiSquare(t, "positions in two orders", blocks[:], want)
}

// Both cursors together visit every chunk exactly once, however their steps are mixed.
func TestCursorsShareTheChunks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 1 + r.Uint32N(200)
		s := permuted(n, r.Uint64())
		seen := map[uint32]bool{}
		bias := r.Float64()
		for s.p < n && s.l < n {
			random := r.Float64() < bias
			least := uint32(0)
			for seen[least] {
				least++
			}
			index, fresh := s.step(random)
			if fresh == seen[index] || index >= n {
				t.Fatalf("seed=%d n=%d: after %d chunks the cursor gave %d, fresh %v", seed, n, len(seen), index, fresh)
			}
			if fresh && !random && index != least {
				t.Fatalf("seed=%d n=%d: the ordered cursor gave %d, want %d", seed, n, index, least)
			}
			seen[index] = true
			if both := bothVisited(s); s.both != both {
				t.Fatalf("seed=%d n=%d: at %d and %d both cursors are said to have visited %d, want %d", seed, n, s.p, s.l, s.both, both)
			}
		}
		if len(seen) != int(n) {
			t.Fatalf("seed=%d n=%d: %d chunks were visited", seed, n, len(seen))
		}
	}
}

// bothVisited counts the chunks that both cursors have visited: those of the shorter way, or of the shorter rest.
func bothVisited(s *Submission) (both uint32) {
	if rest := s.chunks - s.p; rest < s.p {
		both = s.l
		for p := s.p; p < s.chunks; p++ {
			if s.at(p) < s.l {
				both--
			}
		}
		return both
	}
	for p := range s.p {
		if s.at(p) < s.l {
			both++
		}
	}
	return both
}
