// Package coding writes values as bytes and reads them back, by one list of fields for both ways. It encodes ops of the journal, rows of
// the store, and errands between nodes of a cluster. It does no I/O.
package coding

import (
	"encoding/binary"
	"math"
)

// Coder goes through the fields of a value in the order in which they are written. A type lists its fields once, in one function. To write,
// the coder appends the values of the fields, and changes none of them. To read, it sets the fields. So writing and reading cannot differ.
//
//	x.fields(c):    Unsigned(c, &x.Seq)   c.Text(&x.Reason)   ...
//
//	writing: x ─► bytes appended to c.B           reading: front of c.B ─► x
//	                                              damaged: bad, and all that follows reads as zero
//
// A field list needs no error handling: damage is noted once, and Whole reports it at the end. A reader must never act on an op before
// that.
type Coder struct {
	B       []byte // the bytes that are written so far, or still to be read
	Reading bool
	Bad     bool // the input is damaged: from there on everything reads as zero
}

// Fail records that the input is damaged.
func (c *Coder) Fail() {
	c.Bad = true
	c.B = nil
}

// Must records damage unless the read value is possible.
func (c *Coder) Must(possible bool) {
	if c.Reading && !possible {
		c.Fail()
	}
}

// Whole reports whether everything was read, and was possible.
func (c *Coder) Whole() bool { return !c.Bad && len(c.B) == 0 }

// Take reads n bytes, which stay where they are.
func (c *Coder) Take(n uint64) []byte {
	if n > uint64(len(c.B)) {
		c.Fail()
		return nil
	}
	b := c.B[:n]
	c.B = c.B[n:]
	return b
}

// Number codes a number up to a maximum as a varint. It returns the number that it read.
func (c *Coder) Number(n, most uint64) uint64 {
	if !c.Reading {
		b := c.B
		for n >= 0x80 {
			b = append(b, byte(n)|0x80)
			n >>= 7
		}
		c.B = append(b, byte(n))
		return 0
	}
	size := 1
	if len(c.B) > 0 && c.B[0] < 0x80 { // most are
		n = uint64(c.B[0])
	} else {
		n, size = binary.Uvarint(c.B)
	}
	if size <= 0 || n > most {
		c.Fail()
		return 0
	}
	c.B = c.B[size:]
	return n
}

// Unsigned is a number of variable length.
func Unsigned[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *Coder, n *T) {
	if v := c.Number(uint64(*n), uint64(^T(0))); c.Reading {
		*n = T(v)
	}
}

// AtMost is an Unsigned that is at most so much.
func AtMost[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *Coder, n *T, most T) {
	if v := c.Number(uint64(*n), uint64(most)); c.Reading {
		*n = T(v)
	}
}

// Signed is a number of variable length that may be below zero.
func Signed[T ~int64](c *Coder, n *T) {
	if v := c.Number(Zigzag(int64(*n)), math.MaxUint64); c.Reading {
		*n = T(Zagzig(v))
	}
}

// Zigzag has the sign of a number in its last bit, so that numbers near zero are small.
func Zigzag(n int64) uint64 { return uint64(n<<1) ^ uint64(n>>63) }

// Zagzig is the inverse of Zigzag.
func Zagzig(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

// Octet is a number in one byte, of at most so much.
func Octet[T ~uint8](c *Coder, n *T, most T) {
	if !c.Reading {
		c.B = append(c.B, byte(*n))
		return
	}
	*n = 0
	if b := c.Take(1); b != nil {
		*n = T(b[0])
	}
	c.Must(*n <= most)
}

// Yes is a byte 0 or 1.
func (c *Coder) Yes(v *bool) {
	n := byte(0)
	if *v {
		n = 1
	}
	if Octet(c, &n, 1); c.Reading {
		*v = n == 1
	}
}

// Text is its length and its bytes.
func (c *Coder) Text(s *string) {
	if c.Reading {
		*s = string(c.Take(c.Number(0, math.MaxUint64)))
		return
	}
	c.B = binary.AppendUvarint(c.B, uint64(len(*s)))
	c.B = append(c.B, *s...)
}

// Bytes codes a length and that many bytes. The bytes that it reads stay in the batch, and are not nil.
func (c *Coder) Bytes(b *[]byte) {
	if c.Reading {
		*b = c.Take(c.Number(0, math.MaxUint64))
		return
	}
	c.B = binary.AppendUvarint(c.B, uint64(len(*b)))
	c.B = append(c.B, *b...)
}

// Raw are bytes of a fixed number.
func (c *Coder) Raw(b []byte) {
	if c.Reading {
		copy(b, c.Take(uint64(len(b))))
		return
	}
	c.B = append(c.B, b...)
}

// Fixed is a number in eight bytes.
func (c *Coder) Fixed(n *uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], *n)
	if c.Raw(b[:]); c.Reading {
		*n = binary.LittleEndian.Uint64(b[:])
	}
}

// Many is a list of at most so much: how many there are, and the fields of each.
func Many[L ~[]T, T any](c *Coder, list *L, most uint64, fields func(*T)) {
	n := uint64(len(*list))
	AtMost(c, &n, most)
	if !c.Reading {
		for i := range *list {
			fields(&(*list)[i])
		}
		return
	}
	if *list = nil; n > 0 && n <= uint64(len(c.B)) { // each takes a byte at least
		*list = make(L, 0, min(n, manyAtOnce))
	}
	for ; n > 0 && !c.Bad; n-- {
		var entry T
		*list = append(*list, entry)
		fields(&(*list)[len(*list)-1])
	}
}

// manyAtOnce bounds the room that is made for a list before its entries are read, because their number may be damaged.
const manyAtOnce = 256
