package backlog

import "math/bits"

// OrderKey draws the key of the order in which Random visits the chunks 0..n-1 of a submission: a permutation that any n! could
// be. Two keys have nothing to do with each other, so nor have the orders of two submissions.
//
// Up to 16 chunks the key is the order itself, four bits per position, as Fisher and Yates shuffle it: all orders are equally
// likely. Beyond, it is the key of a block cipher on 0..n-1: a generalized Feistel network with cycle walking (Black and Rogaway,
// "Ciphers with Arbitrary Finite Domains", CT-RSA 2002), whose rounds alternate between the two parts of a number (as in FFX, of
// Bellare, Rogaway and Spies). It is there to be even, not to be secret: the functions of the rounds are two multiplications.
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

// maxTable is up to how many chunks an order fits into its key.
const maxTable = 16

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

// shape is how the cipher sees 0..n-1: as pairs of a left part below rows and a right part of half bits. The few
// pairs beyond n-1, less than 2^half, are what cycle walking steps over. The rounds are as many as it takes for pairs and triples of neighbouring
// positions to fall evenly.
func shape(n uint32) (half uint, rows uint64, rounds int) {
	half = uint(bits.Len32(n-1)+1) / 2 & 31
	rounds = 4
	if n <= 32 {
		rounds = 6
	}
	return half, uint64(n-1)>>half + 1, rounds
}

// The factor of the key schedule is an odd number without pattern; each round has a key for either part.
const schedule = 0xd6e8feb86659fd93

// blend is the function of a round: a number below 2^16 and the round's key make 64 bits, of which the upper ones are used.
func blend(x, key uint64) uint64 { return (x ^ key) * bits.RotateLeft64(key, 32) }

// encipher is the number at a position below n, for n above maxTable.
func encipher(key uint64, n, position uint32) uint32 {
	half, rows, rounds := shape(n)
	mask := uint64(1)<<half - 1
	x := uint64(position)
	for {
		left, right, k := x>>half, x&mask, key
		for i := rounds; i > 0; i-- {
			k *= schedule
			left += blend(right, k) >> 32 * rows >> 32
			if less := left - rows; left >= rows { // in this form it is no branch
				left = less
			}
			k ^= k >> 32
			y := blend(left, k)
			right = ((right ^ y>>48) + y>>32) & mask
		}
		if x = left<<half | right; x < uint64(n) {
			return uint32(x)
		}
	}
}

// decipher is the position of a number: the inverse of encipher.
func decipher(key uint64, n, number uint32) uint32 {
	half, rows, rounds := shape(n)
	mask := uint64(1)<<half - 1
	var keys [2 * maxRounds]uint64
	for i, k := 0, key; i < 2*rounds; i += 2 {
		k *= schedule
		keys[i] = k
		k ^= k >> 32
		keys[i+1] = k
	}
	x := uint64(number)
	for {
		left, right := x>>half, x&mask
		for i := 2*rounds - 2; i >= 0; i -= 2 {
			y := blend(left, keys[i+1])
			right = (right - y>>32 ^ y>>48) & mask
			left += rows - blend(right, keys[i])>>32*rows>>32
			if less := left - rows; left >= rows {
				left = less
			}
		}
		if x = left<<half | right; x < uint64(n) {
			return uint32(x)
		}
	}
}

const maxRounds = 6
