package reserver

import (
	"fmt"
	"slices"
	"testing"
)

func filled(count uint32) (*Reserver, *List) {
	r, list := New(0, 0), NewList()
	for i := range count {
		r.Add(&list, Hold{Sequence: r.NextSequence(), Seq: 1, Index: i, Deadline: 1000}, "c")
	}
	return r, &list
}

// The function of Each may remove the reservation that it gets, whichever it is. Each stops when the function returns false.
func TestEachWhileRemoving(t *testing.T) {
	t.Parallel()
	for removed := range uint32(1 << 4) {
		r, list := filled(4)
		var seen, left []uint32
		r.Each(list, func(slot uint32, h *Hold) bool {
			index := h.Index
			seen = append(seen, index)
			if removed&(1<<index) != 0 {
				r.Remove(list, slot)
			} else {
				left = append(left, index)
			}
			return true
		})
		slices.Sort(seen)
		if !slices.Equal(seen, []uint32{0, 1, 2, 3}) {
			t.Errorf("removing %04b: Each saw %v; want every one once", removed, seen)
		}
		var after []uint32
		r.Each(list, func(_ uint32, h *Hold) bool { after = append(after, h.Index); return true })
		if !slices.Equal(after, left) || int(list.Len()) != len(left) {
			t.Errorf("removing %04b leaves %v, Len() = %d; want %v", removed, after, list.Len(), left)
		}
	}
	r, list := filled(4)
	calls := 0
	r.Each(list, func(uint32, *Hold) bool { calls++; return calls < 2 })
	if calls != 2 {
		t.Errorf("Each went on for %d calls after being told to stop at the second", calls)
	}
}

// Sequence numbers go on after the one given, without a gap.
func TestSequence(t *testing.T) {
	t.Parallel()
	r := New(0, 41)
	if a, b := r.NextSequence(), r.NextSequence(); a != 42 || b != 43 {
		t.Errorf("NextSequence() = %d, %d; want 42, 43", a, b)
	}
}

// The table and the names are reused: reservations that come and go leave nothing that grows.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	r, list := New(0, 0), NewList()
	for round := range 1000 {
		var slots []uint32
		for i := range uint32(10) {
			name := fmt.Sprintf("consumer %d of round %d", i%3, round)
			slots = append(slots, r.Add(&list, Hold{Sequence: r.NextSequence(), Seq: 1, Index: i}, name))
		}
		for _, slot := range slots {
			if r.At(slot) == nil {
				t.Fatalf("round %d: slot %d is empty", round, slot)
			}
			r.Remove(&list, slot)
			if h := r.At(slot); h != nil {
				t.Fatalf("round %d: slot %d holds %+v after its removal", round, slot, *h)
			}
		}
	}
	if r.holds.Len() != 10 || len(r.consumers.table) != 3 || len(r.consumers.ids) != 0 {
		t.Errorf("after 1000 rounds of 10 reservations by 3 consumers: %d slots, %d consumers of which %d known; want 10, 3, 0", r.holds.Len(), len(r.consumers.table), len(r.consumers.ids))
	}
	if h := r.At(1 << 31); h != nil {
		t.Errorf("At(a slot that never was) = %+v; want nil", *h)
	}
}
