package store

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// The history is kept in pages: a checkpoint sorts the submissions that ended by id and packs them, so that each
// costs a share of a row and not a row with four indexes. A page never changes. Its span, in a row of its own,
// says which submissions it holds, and which of them are gone.

// appendEndedPage packs ended submissions, which are sorted by id:
//
//	uvarint n | n times (uvarint id, varint seq, uvarint state, varint finished, varint position,
//	                     uvarint spec length, uvarint final length) | bytes
//
// Ids, seqs, times and positions are differences to those before, the first as they are.
func appendEndedPage(dst []byte, list []checkpoint.Ended) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	var last checkpoint.Ended
	for i := range list {
		e := &list[i]
		dst = binary.AppendUvarint(dst, uint64(e.ID-last.ID))
		dst = binary.AppendVarint(dst, int64(e.Seq)-int64(last.Seq))
		dst = binary.AppendUvarint(dst, uint64(e.State))
		dst = binary.AppendVarint(dst, int64(e.Finished-last.Finished))
		dst = binary.AppendVarint(dst, int64(e.Position-last.Position))
		dst = binary.AppendUvarint(dst, uint64(len(e.Spec)))
		dst = binary.AppendUvarint(dst, uint64(len(e.Final)))
		last = *e
	}
	for i := range list {
		dst = append(append(dst, list[i].Spec...), list[i].Final...)
	}
	return dst
}

// endedHead is the approximate size of an ended submission's description in its page.
const endedHead = 20

func sizeInHistory(e *checkpoint.Ended) int { return endedHead + len(e.Spec) + len(e.Final) }

// endedPage reads a page as it is kept. Spec and Final lie in its bytes, or in the unpacked ones.
func endedPage(kept []byte) ([]checkpoint.Ended, error) {
	d, n, err := unpackCounted(kept)
	if err != nil {
		return nil, err
	}
	list := make([]checkpoint.Ended, n)
	lengths := make([][2]uint64, n)
	var last checkpoint.Ended
	for i := range list {
		e := &list[i]
		e.ID = last.ID + queue.SubmissionID(d.uint())
		e.Seq = uint32(int64(last.Seq) + d.int())
		e.State = queue.SubmissionState(d.uint())
		e.Finished = last.Finished + queue.Time(d.int())
		e.Position = last.Position + journal.Position(d.int())
		lengths[i] = [2]uint64{d.uint(), d.uint()}
		last = *e
	}
	for i := range list {
		list[i].Spec, list[i].Final = d.bytes(lengths[i][0]), d.bytes(lengths[i][1])
	}
	return list, d.err()
}

// span describes a page of the history, or a block of pages: the least and the largest value of each field.
// Readers hold spans without a lock, so a span is never changed: `without` makes a new one.
type span struct {
	firstID, lastID   queue.SubmissionID
	firstSeq, lastSeq uint32
	firstEnd, lastEnd queue.Time
	firstPos, lastPos journal.Position
	count             uint32 // as the page was written
	states            uint32 // a bit for each state
	page              int64  // its number
	gone              []byte // a bit for each that is no longer in the history; nil: all are still in it
	left              uint32 // how many are still in it
	meta              *metaFilter
}

// spanOf describes a page.
func spanOf(number int64, list []checkpoint.Ended) span {
	s := span{page: number, meta: new(metaFilter)}
	for i := range list {
		e := &list[i]
		s.cover(&span{firstID: e.ID, lastID: e.ID, firstSeq: e.Seq, lastSeq: e.Seq, firstEnd: e.Finished,
			lastEnd: e.Finished, firstPos: e.Position, lastPos: e.Position, count: 1, left: 1, states: 1 << e.State})
	}
	return s
}

// cover widens a span by another. Blocks of pages are covered in the same way, so a look-up can pass over whole
// blocks.
func (s *span) cover(o *span) {
	if o.count == 0 {
		return
	}
	if s.count == 0 {
		number, meta := s.page, s.meta
		*s = *o
		s.page, s.gone, s.meta = number, nil, meta
		return
	}
	s.firstID, s.lastID = min(s.firstID, o.firstID), max(s.lastID, o.lastID)
	s.firstSeq, s.lastSeq = min(s.firstSeq, o.firstSeq), max(s.lastSeq, o.lastSeq)
	s.firstEnd, s.lastEnd = min(s.firstEnd, o.firstEnd), max(s.lastEnd, o.lastEnd)
	s.firstPos, s.lastPos = min(s.firstPos, o.firstPos), max(s.lastPos, o.lastPos)
	s.count, s.left = s.count+o.count, s.left+o.left
	s.states |= o.states
}

// only is the submission of a page that has one, as far as its span describes it.
func (s *span) only() *checkpoint.Ended {
	state := queue.SubmissionState(bits.TrailingZeros32(s.states))
	return &checkpoint.Ended{ID: s.firstID, Seq: s.firstSeq, State: state, Finished: s.firstEnd, Position: s.firstPos}
}

func (s *span) holds(i int) bool { return s.gone == nil || s.gone[i/8]>>(i%8)&1 == 0 }

// without is the span when one more submission of its page is gone. It does not change the old span, which
// readers may have.
func (s *span) without(i int) span {
	next := *s
	if !s.holds(i) {
		return next
	}
	if next.gone = slices.Clone(s.gone); next.gone == nil {
		next.gone = make([]byte, (s.count+7)/8)
	}
	next.gone[i/8] |= 1 << (i % 8)
	next.left--
	return next
}

// appendTo encodes a span but for the number of its page:
//
//	uvarint first id, last − first id, first seq, last − first seq, first end, last − first end, first position,
//	last − first position, count, states | the bits of gone
func (s *span) appendTo(dst []byte) []byte {
	for _, n := range []uint64{
		uint64(s.firstID), uint64(s.lastID - s.firstID), uint64(s.firstSeq), uint64(s.lastSeq - s.firstSeq),
		uint64(s.firstEnd), uint64(s.lastEnd - s.firstEnd),
		uint64(s.firstPos), uint64(s.lastPos - s.firstPos), uint64(s.count), uint64(s.states),
	} {
		dst = binary.AppendUvarint(dst, n)
	}
	return append(dst, s.gone...)
}

// The bits of gone are absent while nothing is gone, which is how a page begins.
func readSpan(number int64, b []byte) (span, error) {
	d := pageReader{rest: b}
	s := span{page: number, meta: new(metaFilter)}
	s.firstID = queue.SubmissionID(d.uint())
	s.lastID = s.firstID + queue.SubmissionID(d.uint())
	s.firstSeq = uint32(d.uint())
	s.lastSeq = s.firstSeq + uint32(d.uint())
	s.firstEnd = queue.Time(d.uint())
	s.lastEnd = s.firstEnd + queue.Time(d.uint())
	s.firstPos = journal.Position(d.uint())
	s.lastPos = s.firstPos + journal.Position(d.uint())
	s.count = uint32(d.uint())
	s.states, s.left = uint32(d.uint()), s.count
	if len(d.rest) == 0 || d.short {
		return s, d.err()
	}
	if len(d.rest) != int(s.count+7)/8 {
		return s, errPage
	}
	s.gone = d.rest
	for i := range int(s.count) {
		if !s.holds(i) {
			s.left--
		}
	}
	return s, nil
}
