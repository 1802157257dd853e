// Package decode reads the WebAssembly binary format: numbers, names and single instructions, from bytes that have not been checked
// before. It is stricter than it must be and allocates next to nothing. Every correct decoder reads the bytes that it accepts in
// the same way and to the same length. The pre-scan and the rewriter of modules stand on that.
//
// Source: WebAssembly Core Specification 2.0, chapter 5 (binary format).
//
//quern:tests pure
package decode

import (
	"fmt"
	"unicode/utf8"
)

// Kind says what sort of thing stopped a Reader.
type Kind int

// The kinds of Error.
const (
	Truncated Kind = iota // the bytes end inside of something
	Malformed             // the bytes are there, and are not what the format allows
	Forbidden             // an instruction outside of core 2.0 with SIMD
	CountLie              // more entries are declared than bytes are left
)

// Error is the first thing that a Reader could not read, and where.
type Error struct {
	Kind   Kind
	Offset int    // in bytes from the start of the module
	Text   string // lower case, no full stop
}

func (e *Error) Error() string { return fmt.Sprintf("decode: offset %d: %s", e.Offset, e.Text) }

// Reader reads forward through a part of a module. The first failure sticks: from then on every method returns zero values and
// Len is 0, so that a caller may look at Err once at the end of a group. Offsets count from the start of the module, also in a
// Reader that Sub made.
type Reader struct {
	module  []byte
	at, end int
	err     *Error
}

// NewReader reads all of module.
func NewReader(module []byte) *Reader { return &Reader{module: module, end: len(module)} }

// Range reads module from offset from to before offset to. Both are cut to the module's size.
func Range(module []byte, from, to int) *Reader {
	to = min(max(to, 0), len(module))
	return &Reader{module: module, at: min(max(from, 0), to), end: to}
}

// Offset is where the next byte is read.
func (r *Reader) Offset() int { return r.at }

// Len is how many bytes are left; 0 after a failure.
func (r *Reader) Len() int { return r.end - r.at }

// Err is the first failure, or nil.
func (r *Reader) Err() *Error { return r.err }

// Fail makes the Reader fail here, unless it has failed before.
func (r *Reader) Fail(kind Kind, offset int, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Kind: kind, Offset: offset, Text: fmt.Sprintf(format, args...)}
	}
	r.at = r.end
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if r.at >= r.end {
		r.Fail(Truncated, r.end, "the bytes end where one more is needed")
		return 0
	}
	b := r.module[r.at]
	r.at++
	return b
}

// Bytes reads n bytes. The slice shares the module's memory.
func (r *Reader) Bytes(n uint32) []byte {
	if uint64(n) > uint64(r.Len()) {
		r.Fail(Truncated, r.at, "%d bytes are declared and %d are left", n, r.Len())
		return nil
	}
	b := r.module[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b
}

// Sub cuts off the next n bytes as a Reader of their own.
func (r *Reader) Sub(n uint32) *Reader {
	from := r.at
	r.Bytes(n)
	if r.err != nil {
		return &Reader{module: r.module, at: r.end, end: r.end, err: r.err}
	}
	return &Reader{module: r.module, at: from, end: r.at}
}

// U32 reads an unsigned LEB128 number of at most 32 bits. Zero bytes as padding are allowed as in the specification, bits
// beyond the 32nd are not.
func (r *Reader) U32() uint32 {
	if r.at < r.end && r.module[r.at] < 0x80 { // nearly always
		r.at++
		return uint32(r.module[r.at-1])
	}
	start := r.at
	var v uint32
	for shift := 0; ; shift += 7 {
		b := r.Byte()
		if r.err != nil {
			return 0
		}
		if shift == 28 && b > 0x0f {
			r.Fail(Malformed, start, "a number is longer than 32 bits")
			return 0
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

// Signed reads a signed LEB128 number of the given width in bits: 32, 33 or 64.
func (r *Reader) Signed(bits int) int64 {
	start := r.at
	var v int64
	for shift := 0; ; shift += 7 {
		b := r.Byte()
		if r.err != nil {
			return 0
		}
		v |= int64(b&0x7f) << shift
		if left := bits - shift; left <= 7 { // the last byte that there may be: its excess bits must repeat the sign
			sign := int64(int8(b<<1)) >> 1 >> (left - 1)
			if b >= 0x80 || sign != 0 && sign != -1 {
				r.Fail(Malformed, start, "a number is longer than %d bits", bits)
				return 0
			}
		}
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// Count reads how many entries follow. As every entry takes at least one byte, a count over the bytes that are left is a lie
// and fails, before memory is allocated for it.
func (r *Reader) Count(what string) uint32 {
	start := r.at
	n := r.U32()
	if r.err == nil && uint64(n) > uint64(r.Len()) {
		r.Fail(CountLie, start, "%d %s are declared and %d bytes are left for them", n, what, r.Len())
		return 0
	}
	return n
}

// Name reads a UTF-8 string with its size before it. The slice shares the module's memory.
func (r *Reader) Name() []byte {
	start := r.at
	b := r.Bytes(r.U32())
	if r.err == nil && !utf8.Valid(b) {
		r.Fail(Malformed, start, "a name is not UTF-8")
		return nil
	}
	return b
}
