package backlog

// Permutation draws a permutation of 0..n-1 from seed: position p holds chunk (p*mul + add) mod n, with gcd(mul, n) = 1.
// The multiplier is chosen so that neighbouring positions hold chunks that are far apart and do not walk through the
// indexes in a few interleaved runs: the points (p, at(p)) form a lattice, and its shortest vector must be long. For the n
// that have no such multiplier (2, 3, 4 and 6 have only the two trivial ones) the best of the draws is taken. n = 0 is
// treated as 1.
func Permutation(n uint32, seed uint64) (mul, add uint32) {
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

// splitmix is Vigna's SplitMix64: the next number of a sequence whose state is one word.
func splitmix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws from 0..n-1. The bias of the reduction is below 2^-32.
func below(state *uint64, n uint32) uint32 { return uint32(splitmix(state) % uint64(n)) }

func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// inverse is the x in 0..n-1 with a*x = 1 mod n; gcd(a, n) must be 1. For n = 1 it is 0.
func inverse(a, n uint32) uint32 {
	t, nextT := int64(0), int64(1)
	r, nextR := int64(n), int64(a%n)
	for nextR != 0 {
		q := r / nextR
		t, nextT = nextT, t-q*nextT
		r, nextR = nextR, r-q*nextR
	}
	if t < 0 {
		t += int64(n)
	}
	return uint32(t) % n
}

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

// firstHit is the smallest x >= 0 with lo <= a*x mod m <= hi, for 0 < lo <= hi < m and gcd(a, m) = 1. It is how a cursor
// jumps over any number of chunks that the other cursor has visited, in O(log m) instead of step by step: each round
// replaces the question by the same one modulo a number at most half as large.
func firstHit(a, m, lo, hi uint64) uint64 {
	if lo == 0 {
		return 0
	}
	if 2*a > m {
		return firstHit(m-a, m, m-hi, m-lo) // count backwards
	}
	x := (lo + a - 1) / a
	if a*x <= hi {
		return x
	}
	// No multiple of a lies in lo..hi itself, so some rounds y of the modulus are needed: find the first y for which one
	// lies in lo+m*y..hi+m*y, that is -m*y mod a in lo mod a..hi mod a.
	y := firstHit((a-m%a)%a, a, lo%a, hi%a)
	return (lo + m*y + a - 1) / a
}

// countBelow is how many of the first p positions hold a chunk below l: #{q < p : (q*mul + add) mod n < l}.
func countBelow(n, mul, add, p, l uint32) uint32 {
	// x mod n < l  <=>  floor((x+n)/n) - floor((x+n-l)/n) = 1. The sums may wrap; their difference does not.
	all := floorSum(uint64(p), uint64(n), uint64(mul), uint64(add)+uint64(n))
	rest := floorSum(uint64(p), uint64(n), uint64(mul), uint64(add)+uint64(n)-uint64(l))
	return uint32(all - rest)
}

// floorSum is the sum of floor((a*i + b) / m) for i below count, modulo 2^64, in O(log m). count and m are below 2^32.
func floorSum(count, m, a, b uint64) uint64 {
	var sum uint64
	for count > 0 {
		sum += count * (count - 1) / 2 * (a / m)
		sum += count * (b / m)
		a, b = a%m, b%m
		top := a*count + b
		if top < m {
			break
		}
		count, b = top/m, top%m
		m, a = a, m
	}
	return sum
}
