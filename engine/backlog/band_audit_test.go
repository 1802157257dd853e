package backlog

import "slices"

// auditBands checks that every gate of a base with bands stands in one, that its term tells it when its counter leaves that, and that each
// view counts the gates that it may take from.
func (m *model) auditBands(b *base) {
	numbers, slots := []uint32{}, map[uint8]bool{}
	for t := b.groups[0].top; t != nil; t = t.next {
		if len(numbers) > 0 && numbers[len(numbers)-1] >= t.max || slots[t.slot] {
			m.fatalf("base %s: the band to %d comes after those to %v, or its slot %d is another one's", b.shape, t.max, numbers, t.slot)
		}
		numbers, slots[t.slot] = append(numbers, t.max), true
		if !b.dropped && b.bands.unsettled == 0 && !t.wanted {
			m.fatalf("base %s has a band to %d, which is no view's", b.shape, t.max)
		}
		if wanted := slices.ContainsFunc(b.bands.views, func(v *View) bool { return v.most == t.max }); t.wanted != wanted {
			m.fatalf("base %s: the band to %d is wanted: %v, want %v", b.shape, t.max, t.wanted, wanted)
		}
	}
	for _, v := range b.bands.views {
		if !slices.Contains(numbers, v.most) {
			m.fatalf("view %s has no band: there are those to %v", v.key, numbers)
		}
		offered := 0
		for i := range b.gates {
			if g := &b.gates[i]; g.offered && b.groups[0].top.at(g.band).max <= v.most {
				offered++
			}
		}
		if v.open != offered {
			m.fatalf("view %s counts %d gates that are open to it, want %d", v.key, v.open, offered)
		}
	}
	for i := range b.gates {
		m.auditBandOf(b, uint32(i))
	}
}

func (m *model) auditBandOf(b *base, number uint32) {
	g := &b.gates[number]
	if g.offered {
		if t := b.groups[0].top.at(g.band); t == nil || g.watched != nil && b.limits[0].counts(g.tally()) && t.max < g.max {
			m.fatalf("base %s: gate %d ends at %d, and stands in the band %+v", b.shape, number, g.max, t)
		} else if number >= b.bands.unsettled && t != b.bands.topFor(g) {
			m.fatalf("base %s: gate %d stands in the band to %d, want that to %d", b.shape, number, t.max, b.bands.topFor(g).max)
		}
	}
	if g.watched == nil {
		return
	}
	var ends []uint32
	for _, ref := range g.watched.gates[g.of] {
		if ref.base == b.number && ref.gate == number {
			ends = append(ends, ref.max)
		}
	}
	low, high := b.bands.span(g.tally())
	want := []uint32{high}
	if low > 0 {
		want = []uint32{low, high}
	}
	if !slices.Contains(ends, g.max) || number >= b.bands.unsettled && !b.dropped && (!slices.Equal(ends, want) || g.max != high) {
		m.fatalf("base %s: gate %d ends at %d with %d in flight, and is told at %v, want %v", b.shape, number, g.max, g.tally().counter().count, ends, want)
	}
}
