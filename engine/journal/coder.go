package journal

import (
	"errors"
	"fmt"
	"math"

	"github.com/quern-queue/quern/engine/coding"
)

// errDamaged marks a batch that ends inside an op or holds an impossible number.
var errDamaged = errors.New("the batch is cut short or damaged")

// coder is a coding.Coder for the fields of ops. An op lists its fields once, in its method fields.
//
// Most batches are about tokens that were handed out one after another. So a token's sequence and
// epoch are written as the distance to those before them, which takes one byte instead of eight.
type coder struct {
	coding.Coder
	epoch    uint32 // of the shard, which epochs are counted back from
	sequence uint64 // of the last token, which the next one is counted from
}

// Rows and batches begin with the version of their format. A build reads its own version only. The
// format of a newer build may have fields that this one would skip silently.

// unknownVersion is the error of a batch or row in a version that this build does not know.
func unknownVersion(what string, version, known byte) error {
	return fmt.Errorf("the %s has version %d; this build knows version %d: it was written by a newer Quern (start "+
		"that one) or is damaged", what, version, known)
}

// appendRow appends a row for the store: a version, then the fields.
func appendRow[T any](dst []byte, version byte, fields func(*T, *coder), row *T) []byte {
	c := writer(append(dst, version))
	fields(row, &c)
	return c.B
}

// readRow reads a row that appendRow wrote.
func readRow[T any](b []byte, version byte, fields func(*T, *coder)) (row T, err error) {
	switch {
	case len(b) == 0:
		return row, errDamaged
	case b[0] != version:
		return row, unknownVersion("row", b[0], version)
	}
	c, read := reader(b[1:]), new(T)
	if fields(read, &c); !c.Whole() {
		return row, errDamaged
	}
	return *read, nil
}

// token is the sequence of a reservation: its difference to the one before it, as those
// that are written together are near each other.
func (c *coder) token(sequence *uint64) {
	step := *sequence - c.sequence
	if v := c.Number(coding.Zigzag(int64(step)), math.MaxUint64); c.Reading {
		step = uint64(coding.Zagzig(v))
		*sequence = c.sequence + step
	}
	c.sequence += step
}

// epochOf is the epoch of a token: how many epochs ago that was. Most tokens are of the epoch of the
// batch, so it is one byte.
func (c *coder) epochOf(epoch *uint32) {
	age := c.epoch - *epoch
	if coding.Unsigned(&c.Coder, &age); c.Reading {
		*epoch = c.epoch - age
	}
}

// ascending is a list of at most MaxRedrive ascending numbers: how many there are, the
// first, and each next as its distance to the one before.
func (c *coder) ascending(list *[]uint32) {
	last := uint32(0)
	coding.Many(&c.Coder, list, MaxRedrive, func(n *uint32) {
		step := *n - last
		coding.AtMost(&c.Coder, &step, math.MaxUint32-last)
		last += step
		*n = last
	})
}

// reader reads a batch or a row. Texts that stay bytes are not copied out of b, so b may not change as
// long as an op that was read from it is in use.
func reader(b []byte) coder { return coder{Coder: coding.Coder{B: b, Reading: true}} }

// writer appends to dst.
func writer(dst []byte) coder { return coder{Coder: coding.Coder{B: dst}} }
