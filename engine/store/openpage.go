package store

import (
	"encoding/binary"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
)

// Open submissions are kept in pages, as ended ones are: a checkpoint packs those that it
// writes for the first time, with the state that they have then. Most have one chunk, and
// nothing is written of them again until they end. The state of one that changes before
// gets a row in the table progress, which counts in place of the page's. A page never
// changes; the directory of its block tells who is still in it.

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

// openPageRows reads a page as it is kept. Spec and State lie in it, or in what it is unpacked to.
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
