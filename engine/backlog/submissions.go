package backlog

import "github.com/quern-queue/quern/engine/queue"

// submissions are those of a backlog, by slot, id and seq, in the order of their
// insertion, and which of them are shown.
// The order of insertion is a list through the slots, so that removing one from the middle costs the same anywhere. A
// slot is used again; an id and a seq never are:
//
//	first ─► slot 4 ─► slot 0 ─► slot 9 ◄─ last        older ◄─ ─► younger
//	free: 1, 2, 7
type submissions struct {
	list  []*Submission // by slot; nil where free
	free  []uint32
	byID  map[queue.SubmissionID]uint32
	bySeq seqs
	first uint32 // slot of the submission inserted first
	last  uint32

	shown     []uint32 // slots of the shown submissions, in no useful order
	available uint64   // chunks of shown submissions
	flying    uint64   // chunks of all submissions that are in flight
}

// add gives a submission a slot, behind all others.
func (s *submissions) add(sub *Submission) {
	if last := len(s.free) - 1; last >= 0 {
		sub.slot, s.free = s.free[last], s.free[:last]
		s.list[sub.slot] = sub
	} else {
		sub.slot = uint32(len(s.list))
		s.list = append(s.list, sub)
	}
	sub.older, sub.younger = s.last, none
	if s.last == none {
		s.first = sub.slot
	} else {
		s.list[s.last].younger = sub.slot
	}
	s.last = sub.slot
	s.byID[sub.id] = sub.slot
	s.bySeq.put(sub.seq, sub.slot)
}

func (s *submissions) remove(sub *Submission) {
	delete(s.byID, sub.id)
	s.bySeq.drop(sub.seq)
	if sub.older == none {
		s.first = sub.younger
	} else {
		s.list[sub.older].younger = sub.younger
	}
	if sub.younger == none {
		s.last = sub.older
	} else {
		s.list[sub.younger].older = sub.older
	}
	s.list[sub.slot] = nil
	s.free = append(s.free, sub.slot)
}

// show puts a submission on the list of those that are shown, hide takes it off.
func (s *submissions) show(sub *Submission) {
	sub.shownAt = uint32(len(s.shown))
	s.shown = append(s.shown, sub.slot)
	s.available += uint64(sub.available)
}

// hide puts the last of the list into the gap. So it costs the same wherever the submission was, and the list has no
// order that a caller could rely on.
func (s *submissions) hide(sub *Submission) {
	s.available -= uint64(sub.available)
	last := s.shown[len(s.shown)-1]
	s.shown[sub.shownAt] = last
	s.list[last].shownAt = sub.shownAt
	s.shown = trimmed(s.shown[:len(s.shown)-1])
	sub.shownAt = none
}

// withSeq finds a submission by its seq; nil when it is not there.
func (s *submissions) withSeq(seq uint32) *Submission {
	if slot, ok := s.bySeq.find(seq); ok {
		return s.list[slot]
	}
	return nil
}

// oldest ranks the offered submissions by their ids. Ids grow with each insert, but a submission that was hidden
// comes back in between the others. So the order is kept by a heap, not by a list that only grows at its end.
type oldest struct {
	subs *submissions
	heap []uint32
}

func (o *oldest) before(x, y uint32) bool { return o.subs.list[x].id < o.subs.list[y].id }

func (o *oldest) moved(slot uint32, to int) { o.subs.list[slot].oldestAt = uint32(to) }

func (o *oldest) add(s *Submission) { o.heap = heapPush(o, o.heap, s.slot) }

func (o *oldest) remove(s *Submission) {
	if s.oldestAt != none {
		o.heap = trimmed(heapRemove(o, o.heap, int(s.oldestAt)))
		s.oldestAt = none
	}
}

// first is the submission with the smallest id, nil if there is none.
func (o *oldest) first() *Submission {
	if len(o.heap) == 0 {
		return nil
	}
	return o.subs.list[o.heap[0]]
}
