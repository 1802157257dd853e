package backlog

// Submissions inserted before version 2 of the ops have an order that is a lattice: position p holds chunk (p*mul + add) mod n, with
// gcd(mul, n) = 1. They keep it: their snapshots and those who hold their chunks know it. Nothing draws such an order any more,
// as its chunks come in one stride.

func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// inverse is the x in 1..n with a*x = 1 mod n; gcd(a, n) must be 1.
func inverse(a, n uint32) uint32 {
	t, nextT := int64(0), int64(1)
	r, nextR := int64(n), int64(a%n)
	for nextR != 0 {
		q := r / nextR
		t, nextT = nextT, t-q*nextT
		r, nextR = nextR, r-q*nextR
	}
	if t <= 0 {
		t += int64(n)
	}
	return uint32(t)
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
