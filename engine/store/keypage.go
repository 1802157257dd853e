package store

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// This file has the forms in which idempotency keys are stored: pages of a slot by the
// first bits of the hash, the row of a slot, and the filter that is kept of it.

// keyPageBits is how many bits of the hash choose the page: a slot of 256 Ki keys has some 32 keys in each.
const keyPageBits = 13

// keyPageOf is the number of the page that a key is in.
func keyPageOf(slot int64, hash queue.KeyHash) int64 {
	return slot<<keyPageBits | int64(binary.BigEndian.Uint16(hash[:])>>(16-keyPageBits))
}

// keyBytes is the size of a key in its page:
//
//	hash <16b> | submission <8b> | when it was used <8b> | fingerprint of the request <16b>
const keyBytes = 48

func appendKey(dst []byte, k *checkpoint.Key) []byte {
	dst = append(dst, k.Hash[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.ID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.At))
	return append(dst, k.Fingerprint[:]...)
}

func readKey(b []byte) (k checkpoint.Key) {
	copy(k.Hash[:], b)
	k.ID, k.At = queue.SubmissionID(binary.BigEndian.Uint64(b[16:])), queue.Time(binary.BigEndian.Uint64(b[24:]))
	copy(k.Fingerprint[:], b[32:])
	return k
}

// keysIn are the keys of a page, the first one first.
func keysIn(page []byte) iter.Seq[[]byte] { return slices.Chunk(page, keyBytes) }

// sameKey is the part of a key that identifies a use of it: the hash and the submission.
const sameKey = 24

func holdsKey(page, key []byte) bool {
	for at := range keysIn(page) {
		if bytes.Equal(at[:sameKey], key[:sameKey]) {
			return true
		}
	}
	return false
}

// read reads a page; one that is not there is empty.
func (k *Keys) read(stmt *sqlitedb.Stmt, n int64) (page []byte, err error) {
	err = stmt.Query(func(row sqlitedb.Row) (more bool, err error) {
		page, err = k.page(n, row.Int(0), row.Blob(1))
		return false, err
	}, n)
	return page, err
}

// page checks a page.
func (k *Keys) page(n, crc int64, b []byte) ([]byte, error) {
	if len(b)%keyBytes != 0 || sum(0).number(n).bytes(b).stored() != crc {
		return nil, k.s.damaged("key_page", n)
	}
	return b, nil
}

// appendTo appends the row of a slot:
//
//	first use <varint> | last use <varint> | keys <uvarint> | the filter, none while the slot is being filled
func (s *keySlot) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(s.first))
	dst = binary.AppendVarint(dst, int64(s.last))
	return append(binary.AppendUvarint(dst, uint64(s.count)), s.filter...)
}

func readKeySlot(n int64, b []byte) (s *keySlot, ok bool) {
	d := pageReader{rest: b}
	s = &keySlot{n: n, first: queue.Time(d.int()), last: queue.Time(d.int()), count: int(d.uint())}
	if len(d.rest) > 0 {
		s.filter = d.rest
	}
	return s, d.err() == nil && len(s.filter)%filterBlock == 0
}

// put writes the row of a slot.
func (s *keySlot) put(w *writer) error {
	b := s.appendTo(nil)
	_, err := w.putKeySlot.Exec(s.n, sum(0).number(s.n).bytes(b).stored(), b)
	return err
}

// filter is a Bloom filter in blocks of a cache line: two bytes for each key, with 7 bits set
// in one block. For about one in 500 keys that are not in it, it says that they may be.
type filter []byte

const (
	filterBlock = 64
	filterKeys  = 32 // in a block
)

// keyBits is the number of bits of a hash in a filter. Other bits choose the page.
func keyBits(hash queue.KeyHash) uint64 { return binary.BigEndian.Uint64(hash[8:]) }

func newFilter(keys map[uint64]keyBit) filter {
	f := make(filter, (len(keys)/filterKeys+1)*filterBlock)
	for bits := range keys {
		block, at := f.block(bits)
		for range 7 {
			block[at>>3&63] |= 1 << (at & 7)
			at >>= 9
		}
	}
	return f
}

func (f filter) has(bits uint64) bool {
	block, at := f.block(bits)
	for range 7 {
		if block[at>>3&63]>>(at&7)&1 == 0 {
			return false
		}
		at >>= 9
	}
	return true
}

// block is the block that a key is in, and 63 bits that say where.
func (f filter) block(bits uint64) (block []byte, at uint64) {
	n := (bits >> 32) * uint64(len(f)/filterBlock) >> 32
	at = bits * 0x9E3779B97F4A7C15
	return f[n*filterBlock:][:filterBlock], at ^ at>>32
}
