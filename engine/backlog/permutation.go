package backlog

import "math/bits"

// OrderKey draws the key of the order in which Random visits the chunks 0..n-1 of a
// submission: a permutation that any n! could be. Keys are independent of each other, and so are the
// orders of two submissions.
//
// Up to 16 chunks the key is the order itself, four bits per position, as Fisher and Yates shuffle
// it: all orders are equally likely. Beyond, it is the key of a permutation of 0..n-1. Its rounds mix
// the bits of a word by steps that can be undone: an addition, a multiplication by an odd number, and
// a xored shift (Marsaglia's xorshift; SplitMix64 and the finalizer of MurmurHash3 are such rounds).
// They work on as many bits as n-1 has, with cycle walking down to n (Black and Rogaway, "Ciphers
// with Arbitrary Finite Domains", CT-RSA 2002). The permutation is meant to be even, not secret. A
// generalized Feistel network of the same evenness took 21 to 50 ns where this takes 11 to 20 (best
// of some runs): a round of it is two multiplications that wait for each other, for each half.
func OrderKey(n uint32, seed uint64) uint64 {
	state := seed
	if n > maxTable {
		return max(splitmix(&state), 1)
	}
	key := uint64(0)
	for i := range n { // the chunk i takes the place of the one at j, which goes to position i
		j := below(&state, i+1)
		key |= (key >> (4 * j) & 15) << (4 * i)
		key = key&^(15<<(4*j)) | uint64(i)<<(4*j)
	}
	return key
}

// maxTable is the largest number of chunks whose order fits into its key.
const maxTable = 16

// splitmix is Vigna's SplitMix64: it returns the next number of a sequence with a state of one word.
func splitmix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws from 0..n-1. The bias of the reduction is below 2^-32.
func below(state *uint64, n uint32) uint32 { return uint32(splitmix(state) % uint64(n)) }

// isTable says whether a key is an order of n chunks.
func isTable(key uint64, n uint32) bool {
	seen := uint32(0)
	for p := range n {
		seen |= 1 << (key >> (4 * p) & 15)
	}
	return seen == 1<<n-1 && (n == maxTable || key>>(4*n) == 0)
}

// place is the position of a chunk in a table.
func place(key uint64, n, index uint32) uint32 {
	for p := range n {
		if uint32(key>>(4*p))&15 == index {
			return p
		}
	}
	return n
}

// shape is how the mixer sees 0..n-1: as numbers of this many bits. Cycle walking steps over the
// numbers beyond n-1, which are fewer than n. There are as many rounds as it takes for pairs and
// triples of neighbouring positions to fall evenly: with fewer bits, a round does less.
func shape(n uint32) (mask uint64, half uint, rounds int) {
	width := bits.Len32(n - 1)
	rounds = 4
	switch {
	case width <= 6:
		rounds = 6
	case width <= 8:
		rounds = 5
	}
	return 1<<width - 1, uint(width+1) / 2 & 31, rounds
}

// nextKey makes the key of the next round: the round adds half of it, and multiplies by it, once it
// is odd.
func nextKey(key uint64) uint64 { return bits.RotateLeft64(key, 25) * schedule }

// schedule is an odd number without pattern.
const schedule = 0xd6e8feb86659fd93

// encipher is the number at a position below n, for n above maxTable.
func encipher(key uint64, n, position uint32) uint32 {
	if n <= mostFew {
		return encipherFew(key, n, position)
	}
	return encipherMany(key, n, position)
}

// mostFew is the number of chunks up to which every shape has a half of 3 bits and six rounds.
const mostFew = 64

// encipherFew is encipherMany up to mostFew chunks, with its rounds written out: these
// sizes have the most rounds, and walk them nearly twice on average just above a power of
// two. A shift by a constant and keys that are made once save a tenth of the time: 20 ns
// instead of 22 at 17 chunks, 11.4 instead of 13 at 64.
func encipherFew(key uint64, n, position uint32) uint32 {
	const half = 3
	mask := uint64(1)<<bits.Len32(n-1) - 1
	k1 := nextKey(key)
	k2 := nextKey(k1)
	k3 := nextKey(k2)
	k4 := nextKey(k3)
	k5 := nextKey(k4)
	k6 := nextKey(k5)
	x := uint64(position)
	for {
		x = (x + k1>>32) * (k1 | 1) & mask
		x ^= x >> half
		x = (x + k2>>32) * (k2 | 1) & mask
		x ^= x >> half
		x = (x + k3>>32) * (k3 | 1) & mask
		x ^= x >> half
		x = (x + k4>>32) * (k4 | 1) & mask
		x ^= x >> half
		x = (x + k5>>32) * (k5 | 1) & mask
		x ^= x >> half
		x = (x + k6>>32) * (k6 | 1) & mask
		x ^= x >> half
		if x < uint64(n) {
			return uint32(x)
		}
	}
}

func encipherMany(key uint64, n, position uint32) uint32 {
	mask, half, rounds := shape(n)
	x := uint64(position)
	for {
		k := key
		for i := rounds; i > 0; i-- {
			k = nextKey(k)
			x = (x + k>>32) * (k | 1) & mask
			x ^= x >> half
		}
		if x < uint64(n) {
			return uint32(x)
		}
	}
}

// decipher is the position of a number: the inverse of encipher.
func decipher(key uint64, n, number uint32) uint32 {
	mask, half, rounds := shape(n)
	var keys, inverses [maxRounds]uint64
	for i, k := 0, key; i < rounds; i++ {
		k = nextKey(k)
		keys[i], inverses[i] = k>>32, oddInverse(k|1)
	}
	x := uint64(number)
	for {
		for i := rounds - 1; i >= 0; i-- {
			x ^= x >> half // undoes itself, as half is no less than half of the bits
			x = (x*inverses[i] - keys[i]) & mask
		}
		if x < uint64(n) {
			return uint32(x)
		}
	}
}

const maxRounds = 6

// oddInverse is the inverse of an odd number modulo 2^32 and any lower power of 2, by Newton's steps:
// each doubles the number of right bits, from 5.
func oddInverse(odd uint64) uint64 {
	x := odd*3 ^ 2
	x *= 2 - odd*x
	x *= 2 - odd*x
	return x * (2 - odd*x)
}
