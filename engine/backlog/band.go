package backlog

import (
	"math/rand/v2"
	"slices"
)

// Views that differ only in the number of their one limit share a base. Its gates then stand
// in bands: a view of the number 3 and one of 10 have the bands 0 to 2 and 3 to 9, and the chunks in
// flight of its value decide which band a gate is in. So a view may take from the bands up to its number,
// and a gate stands in one place however many views there are. A gate for which no limit is watched is in
// the lowest band, from which all views may take. A gate whose value is at the largest number, or at an
// operator's limit, is in none.
//
// The term of a gate tells it when the counter leaves the band, at either end. A new number divides a
// band, and two bands become one when a number goes; then every gate is looked at once more, in slices.
// Until that is done a gate may stand in a band above its own, where the new view does not see it yet, or
// in one whose number is gone, which counts as part of the next.

// maxBands bounds the numbers that share a base, because a pick looks at the first gate
// of each band. Further numbers get another base.
const maxBands = 64

// bands are the views that stand on a base, and how its gates are divided between them.
//
//	views of MaxSimultaneous("company", 3, X) and ("company", 10, X), on one base
//
//	tops      band 0 to 2              band 3 to 9              in none
//	gates     company=7 (1 in flight)  company=8 (5 in flight)  company=9 (10 in flight)
//	view 3    ●
//	view 10   ●                        ●
//
// A pick of view 10 compares the first gates of both bands. So thirty views that differ in a number
// take the memory of one, and each pays a comparison for each band below its number.
type bands struct {
	on        bool   // there are several numbers, and so several bands
	unsettled uint32 // gates from here on stand in their own band; the others may stand in an old one
	of        *base
	views     []*View // that stand on the base, or the last that did
}

// carry has a view stand on the base.
func (b *bands) carry(v *View) {
	v.base = b.of
	if b.views = append(b.views, v); len(b.views) > 1 {
		b.add(v.most)
	}
}

// fits says whether a view of one more number may stand on the base.
func (b *bands) fits(most uint32) bool {
	count := 1
	for t := b.of.groups[0].top; b.on && t != nil; t = t.next {
		if t.max == most {
			return true
		}
		count++
	}
	return count <= maxBands
}

// add divides the gates by one more number.
func (b *bands) add(most uint32) {
	on := b.of
	in := &on.groups[0]
	if in.top == nil {
		on.addTop(in)
	}
	if !b.on {
		b.on, in.top.max, in.top.wanted = true, on.limits[0].max, true
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
	for _, v := range b.views {
		v.open = 0
		for t := in.top; t != nil && t.max <= v.most; t = t.next {
			v.open += t.gates()
		}
	}
	b.rebandAll()
}

// leave takes a view off a base on which others stand.
func (b *bands) leave(v *View) {
	b.views = slices.DeleteFunc(b.views, func(other *View) bool { return other == v })
	for t := b.of.groups[0].top; t != nil; t = t.next {
		if t.max == v.most {
			t.wanted = false
		}
	}
	b.rebandAll()
	v.base = &base{ground: b.of.ground, dropped: true}
}

// rebandAll has all gates looked at again, as the numbers changed.
func (b *bands) rebandAll() {
	on := b.of
	on.limits[0].max = 0
	for _, v := range b.views {
		on.limits[0].max = max(on.limits[0].max, v.most)
	}
	if b.unsettled == 0 {
		on.bases.unsettled = append(on.bases.unsettled, on)
	}
	b.unsettled = uint32(len(on.gates))
	b.reband(0)
}

// reband looks at up to `most` gates that may stand in a wrong band, and returns the unused rest of
// `most`.
func (b *bands) reband(most int) (left int) {
	on := b.of
	if !slices.Contains(on.bases.unsettled, on) {
		return most
	}
	b.unsettled = min(b.unsettled, uint32(len(on.gates)))
	for ; b.unsettled > 0 && most > 0; most-- {
		b.unsettled--
		b.regard(b.unsettled)
	}
	if b.unsettled == 0 {
		on.bases.unsettled = slices.DeleteFunc(on.bases.unsettled, func(other *base) bool { return other == on })
		b.drop()
	}
	return most
}

// drop removes the empty bands whose numbers are gone.
func (b *bands) drop() {
	in := &b.of.groups[0]
	for at := &in.top; *at != nil; {
		if (*at).wanted {
			at = &(*at).next
		} else {
			*at = (*at).next
		}
	}
	b.on = in.top.next != nil
	if !b.on && (in.first == none || b.of.gates[in.first].older == none) {
		in.top = nil
	}
}

// regard has a gate stand where the counter of its term is.
func (b *bands) regard(number uint32) {
	g := &b.of.gates[number]
	if g.watched != nil {
		b.unwatch(g.tally(), number)
		b.watch(number)
	}
	b.of.refresh(number)
}

// watch has the term of a gate tell when its counter leaves the band that it is in.
func (b *bands) watch(number uint32) {
	on := b.of
	g := &on.gates[number]
	low, high := b.span(g.tally())
	g.max = high
	g.tally().watch(gateRef{high, on.number, number})
	if low > 0 {
		g.tally().watch(gateRef{low, on.number, number})
	}
}

// unwatch is the inverse of watch: where there are bands, a gate may be told at both ends of one.
func (b *bands) unwatch(t tally, number uint32) {
	for t.unwatch(b.of.number, number) && b.on {
	}
}

// span is the band of a tally: from low on and below high. If the tally has reached high, so that no view
// may take, low is 0.
func (b *bands) span(t tally) (low, high uint32) {
	on, c := b.of, t.counter()
	high = on.limits.on(t)
	if b.on && on.limits[0].counts(t) {
		for x := on.groups[0].top; x != nil && x.max <= on.limits[0].max; x = x.next {
			if x.wanted && !c.reached(x.max) {
				high = x.max
				break
			}
			if x.wanted {
				low = x.max
			}
		}
	}
	if high = min(high, c.limit); c.reached(high) {
		low = 0
	}
	return low, high
}

// topFor is the band in which a gate that is open belongs; nil: no view may take from it any more.
func (b *bands) topFor(g *gate) *top {
	x := b.of.groups[0].top
	limited := g.watched != nil && b.of.limits[0].counts(g.tally())
	for x != nil && (!x.wanted || limited && x.max < g.max) {
		x = x.next
	}
	return x
}

// offer tells all views that a gate moves from one band to another; nil is none.
func (b *bands) offer(from, to *top) {
	for _, v := range b.views {
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

// first is the gate that an ordered group offers first, of the bands up to a number; none: they are empty.
func (b *bands) first(in *group, most uint32) (number uint32) {
	on := b.of
	number = none
	for t := in.top; t != nil && t.max <= most; t = t.next {
		if len(t.heap) > 0 && (number == none || before(on.order, on.firstOf(t.heap[0]), on.firstOf(number))) {
			number = t.heap[0]
		}
	}
	return number
}

// draw draws a gate of the bands up to a number, and a number, as sampleGate does.
func (b *bands) draw(in *group, most uint32, rnd *rand.Rand) (g *gate, number uint64) {
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
			return &b.of.gates[x.of], number
		}
		number -= t.total
	}
}
