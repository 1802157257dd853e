package store

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Open submissions are kept by blocks of 4,096 consecutive seqs. A full set takes 512 bytes.
const blockSeqs = 4096

func blockOf(seq uint32) uint32 { return seq / blockSeqs }

// seqBits is a set of seqs of one block: a bit for each, without the bytes before the
// first and behind the last that was ever in it.
// Submissions are inserted in order and end roughly in order, so the remaining seqs of a block lie near each
// other. With the empty ends left out, an old block with a few open submissions takes a few bytes:
//
//	block of 4,096 seqs   00000000 00000000 00110000 00000001 00000000 ...
//	at = 2                                  └── bits ───────┘
type seqBits struct {
	at   int // where the bytes begin
	bits []byte
}

// A block without bytes has none, so an empty set needs no case of its own.
func (s *seqBits) has(seq uint32) bool {
	at := int(seq%blockSeqs/8) - s.at
	return at >= 0 && at < len(s.bits) && s.bits[at]>>(seq%8)&1 == 1
}

// A bit may lie before the first byte, because seqs are not always added in their order.
func (s *seqBits) add(seq uint32) {
	at := int(seq % blockSeqs / 8)
	if len(s.bits) == 0 {
		s.at = at
	}
	if at < s.at {
		s.bits, s.at = append(make([]byte, s.at-at, s.at-at+len(s.bits)), s.bits...), at
	}
	if missing := at - s.at + 1 - len(s.bits); missing > 0 {
		s.bits = append(s.bits, make([]byte, missing)...)
	}
	s.bits[at-s.at] |= 1 << (seq % 8)
}

// remove takes a seq out of the set, and says whether it was in it. The bytes stay, also when they are empty:
// appendTo leaves them out where it counts.
func (s *seqBits) remove(seq uint32) bool {
	if !s.has(seq) {
		return false
	}
	s.bits[int(seq%blockSeqs/8)-s.at] &^= 1 << (seq % 8)
	return true
}

// It counts at each call: that reads a few hundred bytes at most, and needs no counter that could be wrong.
func (s *seqBits) count() (n int) {
	for _, b := range s.bits {
		n += bits.OnesCount8(b)
	}
	return n
}

func (s *seqBits) clone() seqBits { return seqBits{s.at, slices.Clone(s.bits)} }

// span is the least and the largest seq of the set, which is one of this block and not empty.
// MaxSeq reads the newest block for it: a number is never given out twice.
func (s *seqBits) span(block uint32) (first, last uint32) {
	first, last = (block+1)*blockSeqs-1, block*blockSeqs
	for i, b := range s.bits {
		if b != 0 {
			from := block*blockSeqs + uint32(s.at+i)*8
			first = min(first, from+uint32(bits.TrailingZeros8(b)))
			last = from + uint32(bits.Len8(b)) - 1
		}
	}
	return first, last
}

// appendTo encodes the set without empty bytes at its ends:
//
//	uvarint at | uvarint bytes | the bytes
func (s *seqBits) appendTo(dst []byte) []byte {
	at, b := s.at, s.bits
	for len(b) > 0 && b[0] == 0 {
		at, b = at+1, b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		at = 0
	}
	dst = binary.AppendUvarint(dst, uint64(at))
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// seqBits reads such a set. A set that goes beyond its block is damage: its seqs would belong to another one.
func (d *pageReader) seqBits() (s seqBits) {
	at := d.uint()
	b := d.bytes(d.uint())
	if at > blockSeqs/8 || at+uint64(len(b)) > blockSeqs/8 {
		d.rest, d.short = nil, true
		return s
	}
	return seqBits{int(at), b}
}
