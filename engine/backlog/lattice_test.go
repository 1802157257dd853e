package backlog

import (
	"math"
	"math/rand/v2"
	"testing"
)

// lattice is a bare submission whose order is one.
func lattice(n, mul, add uint32) *Submission {
	spec := Spec{ID: 1, Chunks: n, Mul: mul, Add: add}
	if err := spec.Check(); err != nil {
		panic(err)
	}
	s := &Submission{home: New(), chunks: n}
	s.setOrder(&spec)
	return s
}

// A submission from before version 2 of the ops has its chunks where they were: at position p is chunk (p*mul + add) mod n, and
// Random takes them in this order, from wherever it had come. Nothing overflows at the largest size.
func TestLatticeStays(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 45))
	for _, n := range []uint32{1, 2, 3, 6, 16, 17, 100, 1000, 1 << 31, math.MaxUint32 - 1, math.MaxUint32} {
		mul, add := drawLattice(n, rnd.Uint64())
		s := lattice(n, mul, add)
		if key, m, a := s.Order(); key != 0 || m != mul || a != add {
			t.Fatalf("n=%d: the order is %d, %d, %d, want 0, %d, %d", n, key, m, a, mul, add)
		}
		for range 1000 {
			p := rnd.Uint32N(n)
			want := uint32((uint64(p)*uint64(mul) + uint64(add)) % uint64(n))
			if got := s.at(p); got != want || s.positionOf(got) != p {
				t.Fatalf("n=%d mul=%d add=%d: position %d holds %d, want %d; that one is at %d", n, mul, add, p, got, want, s.positionOf(got))
			}
		}
		s.p = n / 2
		b := New()
		back, err := b.Restore(Spec{Seq: 1, ID: 1, Chunks: n, Mul: mul, Add: add}, s.AppendSnapshot(nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		b.Show(back)
		v := finished(b, filtered(0))
		for p := s.p; p < min(n, s.p+100); p++ {
			if _, index, ok := b.Take(v, rnd); !ok || index != s.at(p) {
				t.Fatalf("n=%d: position %d gave %d, %v, want %d", n, p, index, ok, s.at(p))
			}
		}
	}
}

// drawLattice is how the order of a submission was drawn up to version 1 of the ops: position p holds chunk (p*mul + add) mod n, with gcd(mul, n) = 1.
// The multiplier is chosen so that neighbouring positions hold chunks that are far apart and do not walk through the
// indexes in a few interleaved runs: the points (p, at(p)) form a lattice, and its shortest vector must be long. For the n
// that have no such multiplier (2, 3, 4 and 6 have only the two trivial ones) the best of the draws is taken. n = 0 is
// treated as 1.
func drawLattice(n uint32, seed uint64) (mul, add uint32) {
	if n <= 1 {
		return 1, 0
	}
	state := seed
	add = below(&state, n)
	var best uint64
	for tries := 0; tries < permutationTries || best == 0; tries++ {
		m := below(&state, n)
		if n%2 == 0 {
			m |= 1 // an even one is never coprime
		}
		spread, coprime := latticeSpread(m, n)
		if coprime && spread > best {
			mul, best = m, spread
		}
		if best >= uint64(n)-uint64(n)/2 {
			break
		}
	}
	return mul, add
}

// permutationTries bounds the search for a good multiplier: about half of those coprime to n are good, and at least a sixth
// of all numbers are coprime to an n below 2^32, so the search mostly ends within ten draws.
const permutationTries = 64

// latticeSpread is the squared length of the shortest nonzero vector (k, d) with d = k*mul mod n up to sign, at best about
// 1.15 n; and whether mul is coprime to n. The vector is one of the convergents of mul/n, which Euclid's algorithm runs
// through anyhow.
func latticeSpread(mul, n uint32) (squared uint64, coprime bool) {
	squared = uint64(n) * uint64(n) // (0, n)
	k, nextK := uint64(0), uint64(1)
	d, nextD := n, mul
	for nextD != 0 {
		if nextK < 1<<31 && nextD < 1<<31 { // longer ones are not the shortest, and their squares would overflow
			squared = min(squared, nextK*nextK+uint64(nextD)*uint64(nextD))
		}
		q := d / nextD
		d, nextD = nextD, d-q*nextD
		k, nextK = nextK, k+uint64(q)*nextK
	}
	return squared, d == 1
}

// countBelow counts what counting counts.
func TestCountBelow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		n := 1 + r.Uint32N(300)
		mul, add := drawLattice(n, r.Uint64())
		s := lattice(n, mul, add)
		p, l := r.Uint32N(n+1), r.Uint32N(n+1)
		var want uint32
		for q := range p {
			if s.at(q) < l {
				want++
			}
		}
		if got := countBelow(n, mul, add, p, l); got != want {
			t.Fatalf("countBelow(n=%d, mul=%d, add=%d, p=%d, l=%d) = %d, want %d", n, mul, add, p, l, got, want)
		}
	}
}
