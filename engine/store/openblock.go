package store

import (
	"encoding/binary"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
)

// openBlock is the directory of a block: its pages, and the submissions that are still in them.
// A page is cheap for each of its submissions, but has to be written again as a whole. A row of its own is the
// opposite. The directory says where each submission is:
//
//	block ─► directory ─► page 0   here 1111 0110     0: written again elsewhere, or ended
//	                  ├─► page 3   here 0001 1000
//	                  └─► rows     in no page: each has a row in submission and one in progress
type openBlock struct {
	pages  []openPage // by number
	stated seqBits    // those in pages that have a row in the table progress
	// those that have a row each in the tables submission and progress, and no place in a page. The directory's
	// row does not have it
	rows seqBits
}

// openPage is a directory's entry for a page.
type openPage struct {
	number uint32 // within its block
	count  uint32 // of submissions, as it was written
	size   uint32 // in bytes, unpacked
	here   seqBits
}

func pageKey(block, number uint32) int64 { return int64(block)<<20 | int64(number) }

func blockOfPage(key int64) uint32 { return uint32(key >> 20) }

// paged says whether a submission is in a page.
func (b *openBlock) paged(seq uint32) bool {
	return slices.ContainsFunc(b.pages, func(p openPage) bool { return p.here.has(seq) })
}

// drop takes a submission out of the block, and says which rows of its own go. The page keeps the bytes until it
// is sparse. No one reads them again, as the bit in `here` is gone.
func (b *openBlock) drop(seq uint32) (row, state bool) {
	row = b.rows.remove(seq)
	for i := range b.pages {
		if b.pages[i].here.remove(seq) {
			break
		}
	}
	return row, b.stated.remove(seq) || row
}

// sparse says that a page has so few submissions left that it is worth writing them into another one.
func (p *openPage) sparse() bool { return p.here.count() <= int(p.count/8) }

// small says that a page is worth writing again together with new submissions: else many checkpoints with few new
// ones would make many pages.
func (p *openPage) small() bool { return p.size < openPageBytes/4 }

// next is the number of the next page.
// A number is not used again while a later page is there: a reader that holds an old directory must not find other
// submissions under it.
func (b *openBlock) next() uint32 {
	if len(b.pages) == 0 {
		return 0
	}
	return b.pages[len(b.pages)-1].number + 1
}

// A checkpoint changes a clone and publishes it after its commit. Readers keep the block that they found.
func (b *openBlock) clone() *openBlock {
	c := &openBlock{pages: slices.Clone(b.pages), stated: b.stated.clone(), rows: b.rows.clone()}
	for i := range c.pages {
		c.pages[i].here = c.pages[i].here.clone()
	}
	return c
}

func (b *openBlock) empty() bool { return len(b.pages) == 0 && b.rows.count() == 0 }

// appendTo encodes the directory; one without pages is empty:
//
//	uvarint pages | that often (uvarint number − the one before, uvarint count, uvarint size, here) | stated
func (b *openBlock) appendTo(dst []byte) []byte {
	if len(b.pages) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.pages)))
	last := uint32(0)
	for i := range b.pages {
		p := &b.pages[i]
		dst = binary.AppendUvarint(dst, uint64(p.number-last))
		dst = binary.AppendUvarint(dst, uint64(p.count))
		dst = binary.AppendUvarint(dst, uint64(p.size))
		dst = p.here.appendTo(dst)
		last = p.number
	}
	return b.stated.appendTo(dst)
}

// The count is checked before the slice is made: a damaged length must not ask for all memory.
func readOpenBlock(bytes []byte) (*openBlock, error) {
	d := pageReader{rest: bytes}
	n := d.uint()
	if n > blockSeqs {
		return nil, errPage
	}
	b := &openBlock{pages: make([]openPage, n)}
	last := uint32(0)
	for i := range b.pages {
		last += uint32(d.uint())
		b.pages[i] = openPage{number: last, count: uint32(d.uint()), size: uint32(d.uint()), here: d.seqBits()}
	}
	b.stated = d.seqBits()
	return b, d.err()
}

// pageAt is the page with this key; nil: there is none, or no directory.
func (b *openBlock) pageAt(key int64) *openPage {
	if b == nil {
		return nil
	}
	for i := range b.pages {
		if b.pages[i].number == uint32(key&(1<<20-1)) {
			return &b.pages[i]
		}
	}
	return nil
}

// present appends the submissions of a page that are still in it to a list.
func (p *openPage) present(list, page []checkpoint.Row) []checkpoint.Row {
	for i := range page {
		if p.here.has(page[i].Seq) {
			list = append(list, page[i])
		}
	}
	return list
}

// Open submissions are kept in pages, as ended ones are: a checkpoint packs those that it writes for the first
// time, with the state that they have then. Most have one chunk, and are not written again until they end. If the
// state changes before, it gets a row in the table progress, which counts in place of the page's. A page never
// changes; the directory of its block says which submissions are still in it.

const (
	openPageBytes = 16 << 10 // about how large a page is, unpacked
	// a longer spec has a row of its own in the table submission, a longer state one in progress
	openLoneBytes = 1 << 10
)

func sizeInOpen(r *checkpoint.Row) int { return 12 + len(r.Spec) + len(r.State) }

// appendOpenPage packs open submissions, which are sorted by seq:
//
//	uvarint n | n times (uvarint seq, varint id, uvarint spec length, uvarint state length + 1, or 0 for none) | bytes
//
// Seqs and ids are differences to those before, the first as they are.
func appendOpenPage(dst []byte, list []checkpoint.Row) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	var last checkpoint.Row
	for i := range list {
		r := &list[i]
		dst = binary.AppendUvarint(dst, uint64(r.Seq-last.Seq))
		dst = binary.AppendVarint(dst, int64(r.ID-last.ID))
		dst = binary.AppendUvarint(dst, uint64(len(r.Spec)))
		state := uint64(len(r.State))
		if r.State != nil {
			state++
		}
		dst = binary.AppendUvarint(dst, state)
		last = *r
	}
	for i := range list {
		dst = append(append(dst, list[i].Spec...), list[i].State...)
	}
	return dst
}

// openPageRows reads a page as it is kept. Spec and State lie in its bytes, or in the unpacked ones.
func openPageRows(kept []byte) ([]checkpoint.Row, error) {
	d, n, err := unpackCounted(kept)
	if err != nil {
		return nil, err
	}
	list := make([]checkpoint.Row, n)
	lengths := make([][2]uint64, n)
	var last checkpoint.Row
	for i := range list {
		list[i].Seq = last.Seq + uint32(d.uint())
		list[i].ID = last.ID + queue.SubmissionID(d.int())
		lengths[i] = [2]uint64{d.uint(), d.uint()}
		last = list[i]
	}
	for i := range list {
		list[i].Spec = d.bytes(lengths[i][0])
		if state := lengths[i][1]; state > 0 {
			list[i].State = d.bytes(state - 1)
		}
	}
	return list, d.err()
}
