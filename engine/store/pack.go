package store

import "github.com/klauspost/compress/s2"

// What clients bring, and what describes submissions, is mostly texts that resemble each
// other. A page of such is kept compressed, so that it takes fewer bytes to write, twice
// each, and less room. A page of the output log is not: it is soon written again, into a run.
//
//	0 | an S2 block of the page
//
// A page that is not packed begins with how many it holds, and none of these pages is empty.
const (
	packFrom = 128     // bytes: less is not worth a block
	packMost = 1 << 20 // more is one chunk or output of a client's, often compressed already
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
