package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// errDamaged marks a batch that ends inside an op or holds an impossible number.
var errDamaged = errors.New("the batch is cut short or damaged")

// coder goes through the fields of an op in the order in which they are in a batch. An op lists its
// fields once, in its method fields: writing, the coder appends what they hold, and changes none of
// them; reading, it puts into them what it finds. So what is written and what is read cannot differ.
//
//	op.fields(c):   unsigned(c, &x.Seq)   c.text(&x.Reason)   ...
//
//	writing: x ─► bytes appended to c.b           reading: front of c.b ─► x
//	                                              damaged: bad, and all that follows reads as zero
//
// A field list needs no error handling: damage is noted once and told by whole, at the end. A
// reader must never act on an op before that.
type coder struct {
	b        []byte // what is written so far, or what is still to be read
	reading  bool
	bad      bool   // what was read is damaged: from there on everything reads as zero
	epoch    uint32 // of the shard, which epochs are counted back from
	sequence uint64 // of the last token, which the next one is counted from
}

// fail records that the input is damaged.
func (c *coder) fail() {
	c.bad = true
	c.b = nil
}

// must records damage unless the read value is possible.
func (c *coder) must(possible bool) {
	if c.reading && !possible {
		c.fail()
	}
}

// whole reports whether everything was read, and was possible.
func (c *coder) whole() error {
	if c.bad || len(c.b) > 0 {
		return errDamaged
	}
	return nil
}

// unknownVersion is the error of something that was written in a version that this build does not know.
func unknownVersion(what string, version, known byte) error {
	return fmt.Errorf("the %s has version %d; this build knows version %d: it was written by a newer Quern (start "+
		"that one) or is damaged", what, version, known)
}

// appendRow appends a row for the store: a version, then the fields.
func appendRow[T any](dst []byte, version byte, fields func(*T, *coder), row *T) []byte {
	c := coder{b: append(dst, version)}
	fields(row, &c)
	return c.b
}

// readRow reads a row that appendRow wrote.
func readRow[T any](b []byte, version byte, fields func(*T, *coder)) (row T, err error) {
	switch {
	case len(b) == 0:
		return row, errDamaged
	case b[0] != version:
		return row, unknownVersion("row", b[0], version)
	}
	c, read := coder{b: b[1:], reading: true}, new(T)
	if fields(read, &c); c.whole() != nil {
		return row, errDamaged
	}
	return *read, nil
}

// take reads n bytes, which stay where they are.
func (c *coder) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// number codes a number up to a maximum as a varint. It returns the number that it read.
func (c *coder) number(n, most uint64) uint64 {
	if !c.reading {
		b := c.b
		for n >= 0x80 {
			b = append(b, byte(n)|0x80)
			n >>= 7
		}
		c.b = append(b, byte(n))
		return 0
	}
	size := 1
	if len(c.b) > 0 && c.b[0] < 0x80 { // most are
		n = uint64(c.b[0])
	} else {
		n, size = binary.Uvarint(c.b)
	}
	if size <= 0 || n > most {
		c.fail()
		return 0
	}
	c.b = c.b[size:]
	return n
}

// unsigned is a number of variable length.
func unsigned[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, n *T) {
	if v := c.number(uint64(*n), uint64(^T(0))); c.reading {
		*n = T(v)
	}
}

// atMost is one of at most so much.
func atMost[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, n *T, most T) {
	if v := c.number(uint64(*n), uint64(most)); c.reading {
		*n = T(v)
	}
}

// signed is a number of variable length that may be below zero.
func signed[T ~int64](c *coder, n *T) {
	if v := c.number(zigzag(int64(*n)), math.MaxUint64); c.reading {
		*n = T(zagzig(v))
	}
}

// zigzag has the sign of a number in its last bit, so that numbers near zero are small;
// zagzig is the way back.
func zigzag(n int64) uint64 { return uint64(n<<1) ^ uint64(n>>63) }
func zagzig(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

// octet is a number in one byte, of at most so much.
func octet[T ~uint8](c *coder, n *T, most T) {
	if !c.reading {
		c.b = append(c.b, byte(*n))
		return
	}
	*n = 0
	if b := c.take(1); b != nil {
		*n = T(b[0])
	}
	c.must(*n <= most)
}

// yes is a byte 0 or 1.
func (c *coder) yes(v *bool) {
	n := byte(0)
	if *v {
		n = 1
	}
	if octet(c, &n, 1); c.reading {
		*v = n == 1
	}
}

// text is its length and its bytes.
func (c *coder) text(s *string) {
	if c.reading {
		*s = string(c.take(c.number(0, math.MaxUint64)))
		return
	}
	c.b = binary.AppendUvarint(c.b, uint64(len(*s)))
	c.b = append(c.b, *s...)
}

// bytes codes a length and that many bytes. The bytes that it reads stay in the batch, and are not nil.
func (c *coder) bytes(b *[]byte) {
	if c.reading {
		*b = c.take(c.number(0, math.MaxUint64))
		return
	}
	c.b = binary.AppendUvarint(c.b, uint64(len(*b)))
	c.b = append(c.b, *b...)
}

// raw are bytes of a fixed number.
func (c *coder) raw(b []byte) {
	if c.reading {
		copy(b, c.take(uint64(len(b))))
		return
	}
	c.b = append(c.b, b...)
}

// fixed is a number in eight bytes.
func (c *coder) fixed(n *uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], *n)
	if c.raw(b[:]); c.reading {
		*n = binary.LittleEndian.Uint64(b[:])
	}
}

// token is the sequence of a reservation: its difference to the one before it, as those
// that are written together are near each other.
func (c *coder) token(sequence *uint64) {
	step := *sequence - c.sequence
	if v := c.number(zigzag(int64(step)), math.MaxUint64); c.reading {
		step = uint64(zagzig(v))
		*sequence = c.sequence + step
	}
	c.sequence += step
}

// epochOf is the epoch of a token: how many epochs ago that was.
func (c *coder) epochOf(epoch *uint32) {
	age := c.epoch - *epoch
	if unsigned(c, &age); c.reading {
		*epoch = c.epoch - age
	}
}

// many is a list of at most so much: how many there are, and the fields of each.
func many[L ~[]T, T any](c *coder, list *L, most uint64, fields func(*T)) {
	n := uint64(len(*list))
	atMost(c, &n, most)
	if !c.reading {
		for i := range *list {
			fields(&(*list)[i])
		}
		return
	}
	if *list = nil; n > 0 && n <= uint64(len(c.b)) { // each takes a byte at least
		*list = make(L, 0, min(n, manyAtOnce))
	}
	for ; n > 0 && !c.bad; n-- {
		var entry T
		*list = append(*list, entry)
		fields(&(*list)[len(*list)-1])
	}
}

// manyAtOnce bounds the room that is made for a list before its entries were read, as what
// says how many there are may be damaged.
const manyAtOnce = 256

// ascending is a list of at most MaxRedrive ascending numbers: how many there are, the
// first, and each next as its distance to the one before.
func (c *coder) ascending(list *[]uint32) {
	last := uint32(0)
	many(c, list, MaxRedrive, func(n *uint32) {
		step := *n - last
		atMost(c, &step, math.MaxUint32-last)
		last += step
		*n = last
	})
}
