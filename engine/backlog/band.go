package backlog

import (
	"math/rand/v2"
	"slices"
)

// Views that differ only in the number of their one limit share a frame. Its gates then stand in bands: a view of the number 3 and one of
// 10 have the bands 0 to 2 and 3 to 9, and a gate stands in that in which the chunks in flight of its value are. So a
// view may take from the bands up to its number, and a gate stands in one place however many views there are. A gate
// for which no limit is watched is in the lowest band, which all of them may take from; one whose value has the largest
// number in flight, or an operator's limit, is in none.
//
// The term of a gate tells it when the counter leaves the band, at either end. A number that comes divides a band, and one that goes leaves
// two that are to be one; then every gate is looked at once more, in slices. Until that is done a gate may stand in a band above its own,
// where the new view does not see it yet, or in one whose number is gone, which is as good as the next.

// maxBands is how many numbers share a frame, as a pick looks at the first gate of each band. What goes beyond begins another frame.
const maxBands = 64

// carry has a view stand on the frame.
func (f *frame) carry(v *View) {
	v.frame = f
	if f.views = append(f.views, v); len(f.views) > 1 {
		f.addBand(v.most)
	}
}

// fits says whether a view of one more number may stand on the frame.
func (f *frame) fits(most uint32) bool {
	count := 1
	for t := f.groups[0].top; f.banded && t != nil; t = t.next {
		if t.max == most {
			return true
		}
		count++
	}
	return count <= maxBands
}

// addBand divides the gates by one more number.
func (f *frame) addBand(most uint32) {
	in := &f.groups[0]
	if in.top == nil {
		f.addTop(in)
	}
	if !f.banded {
		f.banded, in.top.max, in.top.wanted = true, f.limits[0].max, true
	}
	at := &in.top
	for *at != nil && (*at).max < most {
		at = &(*at).next
	}
	if *at == nil || (*at).max != most {
		slot := uint8(1)
		for in.top.at(slot) != nil {
			slot++
		}
		*at = &top{max: most, slot: slot, next: *at}
	}
	(*at).wanted = true
	for _, v := range f.views {
		v.open = 0
		for t := in.top; t != nil && t.max <= v.most; t = t.next {
			v.open += t.gates()
		}
	}
	f.rebandAll()
}

// leave takes a view off a frame on which others stand.
func (f *frame) leave(v *View) {
	f.views = slices.DeleteFunc(f.views, func(other *View) bool { return other == v })
	for t := f.groups[0].top; t != nil; t = t.next {
		if t.max == v.most {
			t.wanted = false
		}
	}
	f.rebandAll()
	v.frame = &frame{in: f.in, dropped: true}
}

// rebandAll is for numbers that changed.
func (f *frame) rebandAll() {
	f.limits[0].max = 0
	for _, v := range f.views {
		f.limits[0].max = max(f.limits[0].max, v.most)
	}
	if f.unsettled == 0 {
		f.in.unsettled = append(f.in.unsettled, f)
	}
	f.unsettled = uint32(len(f.gates))
	f.reband(0)
}

// reband looks at up to `most` gates that may stand in a band that is not theirs, and says how many it did not need.
func (f *frame) reband(most int) (left int) {
	if !slices.Contains(f.in.unsettled, f) {
		return most
	}
	f.unsettled = min(f.unsettled, uint32(len(f.gates)))
	for ; f.unsettled > 0 && most > 0; most-- {
		f.unsettled--
		f.regard(f.unsettled)
	}
	if f.unsettled == 0 {
		f.in.unsettled = slices.DeleteFunc(f.in.unsettled, func(other *frame) bool { return other == f })
		f.dropBands()
	}
	return most
}

// dropBands gives up the bands, empty by now, whose numbers are gone.
func (f *frame) dropBands() {
	in := &f.groups[0]
	for at := &in.top; *at != nil; {
		if (*at).wanted {
			at = &(*at).next
		} else {
			*at = (*at).next
		}
	}
	f.banded = in.top.next != nil
	if !f.banded && (in.first == none || f.gates[in.first].older == none) {
		in.top = nil
	}
}

// regard has a gate stand where the counter of its term is.
func (f *frame) regard(number uint32) {
	g := &f.gates[number]
	if g.watched != nil {
		f.unwatch(g.watched, number)
		f.watch(number)
	}
	f.refresh(number)
}

// watch has the term of a gate tell when its counter leaves the band that it is in.
func (f *frame) watch(number uint32) {
	g := &f.gates[number]
	low, high := f.span(g.watched)
	g.max = high
	g.watched.watchGate(gateRef{high, f.number, number})
	if low > 0 {
		g.watched.watchGate(gateRef{low, f.number, number})
	}
}

// unwatch is the inverse of watch: where there are bands, a gate may be told at both ends of one.
func (f *frame) unwatch(t *term, number uint32) {
	for t.unwatchGate(f.number, number) && f.banded {
	}
}

// span is the band of a term: from low on and below high. If so many are in flight that no view may take, that begins at high, and low
// is 0.
func (f *frame) span(t *term) (low, high uint32) {
	high = f.limitOn(t.key)
	if f.banded && t.key == f.limits[0].key {
		for x := f.groups[0].top; x != nil && x.max <= f.limits[0].max; x = x.next {
			if x.wanted && t.inFlight < x.max {
				high = x.max
				break
			}
			if x.wanted {
				low = x.max
			}
		}
	}
	if high = min(high, t.limit); t.inFlight >= high {
		low = 0
	}
	return low, high
}

// bandOf is the band in which a gate that is open belongs; nil: no view may take from it any more.
func (f *frame) bandOf(g *gate) *top {
	x := f.groups[0].top
	limited := g.watched != nil && g.watched.key == f.limits[0].key
	for x != nil && (!x.wanted || limited && x.max < g.max) {
		x = x.next
	}
	return x
}

// offer tells all views that a gate moves from one band to another; nil is none.
func (f *frame) offer(from, to *top) {
	for _, v := range f.views {
		had, has := from != nil && from.max <= v.most, to != nil && to.max <= v.most
		switch {
		case has && !had:
			if v.open++; v.open == 1 {
				v.stir()
			}
		case had && !has:
			v.open--
		}
	}
}

// gates is how many gates a top ranks.
func (t *top) gates() (n int) {
	for i := range t.count() {
		n += len(t.nth(i).entries)
	}
	return n + len(t.heap)
}

// at is the band of a slot, nil if there is none.
func (t *top) at(slot uint8) *top {
	for t != nil && t.slot != slot {
		t = t.next
	}
	return t
}

// firstOfBands is the gate that an ordered group offers first, of the bands up to a number; none: they are empty.
func (f *frame) firstOfBands(in *group, most uint32) (number uint32) {
	number = none
	for t := in.top; t != nil && t.max <= most; t = t.next {
		if len(t.heap) > 0 && (number == none || f.before(f.firstOf(t.heap[0]), f.firstOf(number))) {
			number = t.heap[0]
		}
	}
	return number
}

// drawOfBands draws a gate of the bands up to a number, and a number, as sampleGate does.
func (f *frame) drawOfBands(in *group, most uint32, rnd *rand.Rand) (g *gate, number uint64) {
	total := uint64(0)
	for t := in.top; t != nil && t.max <= most; t = t.next {
		total += t.total
	}
	if total == 0 {
		return nil, 0
	}
	number = rnd.Uint64N(total)
	for t := in.top; ; t = t.next {
		if number < t.total {
			x, number := t.find(number)
			return &f.gates[x.of], number
		}
		number -= t.total
	}
}
