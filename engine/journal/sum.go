package journal

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Sum is the sum of a chain of batches: of the last one, of its position, and of the sum
// before it. Two journals that have the same sum at a position have the same batches up to
// there. A position alone does not say so: a journal of which the end was lost may have
// grown again to the same length. The zero Sum is that of a chain without batches.
type Sum [16]byte

// The seeds of the two halves of a sum.
const (
	seedOfFirst  = 0x5175_6572_6e31 // "Quern1"
	seedOfSecond = 0x5175_6572_6e32
)

// Next is the sum with one batch more, which is at this position.
func (s Sum) Next(at Position, batch []byte) (next Sum) {
	var before [len(s) + 8]byte
	binary.BigEndian.PutUint64(before[copy(before[:], s[:]):], uint64(at))
	var d xxhash.Digest
	for half, seed := range [2]uint64{seedOfFirst, seedOfSecond} {
		d.ResetWithSeed(seed)
		d.Write(before[:]) // never fails
		d.Write(batch)
		binary.BigEndian.PutUint64(next[8*half:], d.Sum64())
	}
	return next
}
