package store

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/klauspost/compress/s2"
)

// A row of up to smallPage bytes fills one page of the database, one of up to largePage a page and one more behind
// it; a byte more would take a whole further page (https://sqlite.org/fileformat.html, section 1.6). Both leave some
// bytes for the header of the row and its key.
const (
	smallPage = 4040
	largePage = 8130
	// Chunks and outputs over this get a row each: packing them would leave the rest of a
	// page empty anyway.
	loneBytes = 1024
)

var errPage = errors.New("store: the page is cut short")

// cut decides how many of the next n items go into the next page. size is the room of item i with its description.
func cut(n int, size func(i int) int) int {
	if n == 0 {
		return 0
	}
	small, smallBytes := 0, 8
	for small < n && smallBytes+size(small) <= smallPage && size(small) <= loneBytes {
		smallBytes += size(small)
		small++
	}
	if small == 0 {
		return 1
	}
	if small == n || smallBytes > smallPage*7/8 {
		return small
	}
	all, allBytes := small, smallBytes
	for all < n && allBytes+size(all) <= largePage && size(all) <= loneBytes {
		allBytes += size(all)
		all++
	}
	if allBytes <= largePage*3/4 {
		return small // the second page would be half empty too
	}
	return all
}

// appendContentPage packs chunks into a page:
//
//	uvarint n | n times uvarint length | the chunks' bytes
func appendContentPage(dst []byte, chunks [][]byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(chunks)))
	for _, c := range chunks {
		dst = binary.AppendUvarint(dst, uint64(len(c)))
	}
	for _, c := range chunks {
		dst = append(dst, c...)
	}
	return dst
}

// chunkOf finds the i-th chunk of a page; `found` is false when the page has no this many. The lengths are added up on
// the way, so a chunk of a page is found without unpacking the others.
func chunkOf(page []byte, i uint32) (chunk []byte, found bool, err error) {
	d := pageReader{rest: page}
	n := d.uint()
	if d.short || uint64(i) >= n {
		return nil, false, d.err()
	}
	var before, length uint64
	for j := range n {
		l := d.uint()
		switch {
		case d.short || l > uint64(len(page)):
			return nil, false, errPage
		case j < uint64(i):
			before += l
		case j == uint64(i):
			length = l
		}
	}
	d.bytes(before)
	chunk = d.bytes(length)
	return chunk, !d.short, d.err()
}

// logEntry is one output in a page of the log, or on its way from there.
type logEntry struct {
	seq, index uint32
	bytes      []byte
}

// appendLogPage packs outputs of any submissions, as they come:
//
//	uvarint n | n times (uvarint seq, uvarint index, uvarint length) | the outputs' bytes
func appendLogPage(dst []byte, entries []Output) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	for i := range entries {
		dst = binary.AppendUvarint(dst, uint64(entries[i].Seq))
		dst = binary.AppendUvarint(dst, uint64(entries[i].Index))
		dst = binary.AppendUvarint(dst, uint64(len(entries[i].Bytes)))
	}
	for i := range entries {
		dst = append(dst, entries[i].Bytes...)
	}
	return dst
}

// logEntries appends the entries of a page to dst; their bytes lie in the page. The count is compared with the bytes
// of the page before memory is reserved for it: a damaged count must not reserve gigabytes.
func logEntries(dst []logEntry, page []byte) ([]logEntry, error) {
	d := pageReader{rest: page}
	n := d.uint()
	if n > uint64(len(page)) {
		return dst, errPage
	}
	first := len(dst)
	dst = slices.Grow(dst, int(n))
	lengths := make([]uint64, 0, n)
	for range n {
		dst = append(dst, logEntry{seq: uint32(d.uint()), index: uint32(d.uint())})
		lengths = append(lengths, d.uint())
	}
	for i, length := range lengths {
		dst[first+i].bytes = d.bytes(length)
	}
	return dst, d.err()
}

// logEntriesOf appends the entries of one submission, from an index on. A page has outputs of many submissions, and a
// caller that reads those of each would otherwise keep all of them each time. It counts its place in the page: to
// shorten a slice at every number costs more than the number.
func logEntriesOf(dst []logEntry, page []byte, seq, from uint32) ([]logEntry, error) {
	at, short := 0, false
	uint := func() uint64 {
		n, size := binary.Uvarint(page[at:])
		short = short || size <= 0
		at += max(size, 0)
		return n
	}
	n := uint()
	if n > uint64(len(page)) {
		return dst, errPage
	}
	var (
		own   = dst[len(dst):]
		ends  []uint64 // where the bytes of own ones end
		total uint64   // of the bytes so far
	)
	for range n {
		of, index, length := uint32(uint()), uint32(uint()), uint()
		if short || length > uint64(len(page)) {
			return dst, errPage
		}
		total += length
		if of == seq && index >= from {
			own, ends = append(own, logEntry{seq: of, index: index, bytes: page[:length]}), append(ends, total)
		}
	}
	rest := page[at:]
	if short || total > uint64(len(rest)) {
		return dst, errPage
	}
	for i, end := range ends {
		begin := end - uint64(len(own[i].bytes))
		own[i].bytes = rest[begin:end:end]
	}
	return append(dst, own...), nil
}

// appendRunPage packs outputs of one submission, which are sorted by index:
//
//	uvarint n | n times (uvarint index, uvarint length) | bytes
//
// The first index is as it is, each other one is the distance to the one before.
func appendRunPage(dst []byte, entries []logEntry) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	last := uint32(0)
	for i := range entries {
		dst = binary.AppendUvarint(dst, uint64(entries[i].index-last))
		dst = binary.AppendUvarint(dst, uint64(len(entries[i].bytes)))
		last = entries[i].index
	}
	for i := range entries {
		dst = append(dst, entries[i].bytes...)
	}
	return dst
}

// runEntries reads such a page, with entries of this seq.
func runEntries(dst []logEntry, seq uint32, page []byte) ([]logEntry, error) {
	d := pageReader{rest: page}
	n := d.uint()
	if n > uint64(len(page)) {
		return dst, errPage
	}
	first, last := len(dst), uint32(0)
	dst = slices.Grow(dst, int(n))
	lengths := make([]uint64, 0, n)
	for range n {
		last += uint32(d.uint())
		dst = append(dst, logEntry{seq: seq, index: last})
		lengths = append(lengths, d.uint())
	}
	for i, length := range lengths {
		dst[first+i].bytes = d.bytes(length)
	}
	return dst, d.err()
}

// pageReader takes a page apart. After the first missing value all values are 0 and short is set.
type pageReader struct {
	rest  []byte
	short bool
}

func (d *pageReader) uint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.rest, d.short = nil, true
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// int reads a number that may be negative, as binary.AppendVarint writes it.
func (d *pageReader) int() int64 {
	n := d.uint()
	return int64(n>>1) ^ -int64(n&1)
}

// bytes takes n bytes; the slice is never nil, and nothing can be appended to it in place.
func (d *pageReader) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.rest, d.short = nil, true
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *pageReader) err() error {
	if d.short {
		return errPage
	}
	return nil
}

// Contents from clients, and the descriptions of submissions, are mostly texts that resemble each other. A page of them
// is kept compressed: each byte is written twice, so that saves writes as well as room. A page of the output log is
// not, as it is soon written again, into a run.
//
//	0 | an S2 block of the page
//
// A page that is not packed begins with how many it holds, and none of these pages is empty.
const (
	packFrom = 128     // bytes: less is not worth a block
	packMost = 1 << 20 // a larger page is one chunk or output, often compressed already
)

// packPage is the page as it is kept: packed if that makes it smaller by an eighth.
func packPage(page []byte) []byte { return new(packer).pack(page) }

// packer packs pages one after the other in the same memory: each is there until the next.
type packer struct{ page, packed []byte }

// make packs the page that appendTo appends.
func (p *packer) make(appendTo func(dst []byte) []byte) []byte {
	page := appendTo(p.page[:0])
	if p.page = page; len(page) > packMost {
		p.page = nil // rare, and not worth the memory
	}
	return p.pack(page)
}

func (p *packer) pack(page []byte) []byte {
	if len(page) < packFrom || len(page) > packMost {
		return page
	}
	if most := 1 + s2.MaxEncodedLen(len(page)); len(p.packed) < most {
		p.packed = make([]byte, most)
	}
	if size := 1 + len(s2.Encode(p.packed[1:], page)); size <= len(page)-len(page)/8 {
		return p.packed[:size]
	}
	return page
}

// unpackPage is the page that is kept so.
func unpackPage(kept []byte) ([]byte, error) { return unpackInto(nil, kept) }

// unpackInto is unpackPage with the memory of dst, if that is enough and the page is packed.
func unpackInto(dst, kept []byte) ([]byte, error) {
	if len(kept) == 0 || kept[0] != 0 {
		return kept, nil
	}
	if n, err := s2.DecodedLen(kept[1:]); err != nil || n > packMost {
		return nil, errPage
	}
	page, err := s2.Decode(dst, kept[1:])
	if err != nil || len(page) == 0 || page[0] == 0 {
		return nil, errPage
	}
	return page, nil
}

// unpackCounted unpacks a page, and reads how many it holds: never more than it has bytes.
func unpackCounted(kept []byte) (d pageReader, n uint64, err error) {
	page, err := unpackPage(kept)
	if err != nil {
		return d, 0, err
	}
	d.rest = page
	if n = d.uint(); n > uint64(len(page)) {
		return d, 0, errPage
	}
	return d, n, nil
}
