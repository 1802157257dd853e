package reserver

import "testing"

// The table grows without copying its entries: an entry stays where it is, and free slots are used again.
func TestTableGrowsByPages(t *testing.T) {
	t.Parallel()
	r, list := New(0, 0), NewList()
	first := r.Add(&list, Hold{Sequence: 1, Seq: 1, Index: 0}, "c")
	at, kin := r.At(first), r.consumers.kin.At(first)
	for i := range uint32(100_000) {
		r.Add(&list, Hold{Sequence: 2, Seq: 1, Index: 1 + i}, "c")
	}
	if r.At(first) != at || r.consumers.kin.At(first) != kin {
		t.Errorf("after 100,000 more the first reservation is at %p and %p, before at %p and %p: the table was copied", r.At(first), r.consumers.kin.At(first), at, kin)
	}
	if at.Sequence != 1 || r.Slots() != 100_001 {
		t.Errorf("the first reservation is %+v in %d slots, want that of sequence 1 in 100,001", *at, r.Slots())
	}
	for slot := range uint32(100_001) {
		r.Remove(&list, slot)
	}
	for i := range uint32(100_001) {
		r.Add(&list, Hold{Sequence: 3, Seq: 1, Index: i}, "c")
	}
	if r.Slots() != 100_001 {
		t.Errorf("after the slots were free: %d, want 100,001: they are used again", r.Slots())
	}
}
