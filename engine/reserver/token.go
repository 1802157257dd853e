package reserver

import (
	"encoding/binary"

	"github.com/dchest/siphash"

	"github.com/quern-queue/quern/engine/queue"
)

// Key authenticates tokens. It is durable: drawn once for a data directory.
type Key struct{ K0, K1 uint64 }

// KeyFrom reads a key from 16 bytes.
func KeyFrom(b [16]byte) Key {
	return Key{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

const macMask = 1<<48 - 1

// MAC is SipHash-2-4 (Aumasson and Bernstein, 2012) over everything else in the token but the slot hint, cut to 48 bits:
// guessing one takes 2^47 calls on average, each refused and counted.
func (k Key) MAC(t *queue.Token) uint64 {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(t.Submission))
	binary.LittleEndian.PutUint32(b[8:], t.Index)
	binary.LittleEndian.PutUint32(b[12:], t.Epoch)
	binary.LittleEndian.PutUint64(b[16:], t.Sequence)
	return siphash.Hash(k.K0, k.K1, b[:]) & macMask
}

// Valid says whether this server, in this or an earlier life, made the token.
func (k Key) Valid(t *queue.Token) bool { return k.MAC(t) == t.MAC }
