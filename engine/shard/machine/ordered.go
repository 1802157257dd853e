package machine

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// Ordered lists the records in memory by id, for listing newest first from a cursor. New ids come at
// or near the end, so adding is cheap; removed ones are left as holes until half of the list is holes.
type Ordered struct {
	ids   []queue.SubmissionID
	List  []*Record
	holes int
}

// Len is how many records there are.
func (o *Ordered) Len() uint64 { return uint64(len(o.List) - o.holes) }

// below is the position after the last record with an id smaller than `before`.
func (o *Ordered) below(before queue.SubmissionID) int {
	at, _ := slices.BinarySearch(o.ids, before)
	return at
}

// Add puts a record in.
func (o *Ordered) Add(r *Record) {
	at := len(o.ids)
	if at > 0 && o.ids[at-1] >= r.ID {
		at = o.below(r.ID)
	}
	o.ids = slices.Insert(o.ids, at, r.ID)
	o.List = slices.Insert(o.List, at, r)
}

// Remove takes a record out, if it is there.
func (o *Ordered) Remove(r *Record) {
	at := o.below(r.ID)
	if at >= len(o.ids) || o.List[at] != r {
		return
	}
	o.List[at] = nil
	o.holes++
	if o.holes > 1024 && o.holes > len(o.List)/2 {
		o.compact()
	}
}

func (o *Ordered) compact() {
	keep := 0
	for i, r := range o.List {
		if r != nil {
			o.List[keep], o.ids[keep] = r, o.ids[i]
			keep++
		}
	}
	clear(o.List[keep:])
	o.List, o.ids, o.holes = o.List[:keep], o.ids[:keep], 0
}

// Before visits at most `most` places with ids below `before`, newest first, until fn returns
// false, and says where to go on: 0 when nothing is left. No record is visited again.
func (o *Ordered) Before(before queue.SubmissionID, most int, fn func(*Record) bool) (next queue.SubmissionID) {
	for at := o.below(before) - 1; at >= 0; at-- {
		if most == 0 {
			return o.ids[at] + 1
		}
		most--
		if r := o.List[at]; r != nil && !fn(r) {
			return o.ids[at]
		}
	}
	return 0
}
