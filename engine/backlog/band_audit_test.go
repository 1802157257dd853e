package backlog

import "slices"

// auditBands checks that every gate of a frame with bands stands in one, that its term tells it when its counter leaves that, and that each
// view counts the gates that it may take from.
func (m *model) auditBands(f *frame) {
	numbers, slots := []uint32{}, map[uint8]bool{}
	for t := f.groups[0].top; t != nil; t = t.next {
		if len(numbers) > 0 && numbers[len(numbers)-1] >= t.max || slots[t.slot] {
			m.fatalf("frame %s: the band to %d comes after those to %v, or its slot %d is another one's", f.shape, t.max, numbers, t.slot)
		}
		numbers, slots[t.slot] = append(numbers, t.max), true
		if !f.dropped && f.bands.unsettled == 0 && !t.wanted {
			m.fatalf("frame %s has a band to %d, which is no view's", f.shape, t.max)
		}
		if wanted := slices.ContainsFunc(f.bands.views, func(v *View) bool { return v.most == t.max }); t.wanted != wanted {
			m.fatalf("frame %s: the band to %d is wanted: %v, want %v", f.shape, t.max, t.wanted, wanted)
		}
	}
	for _, v := range f.bands.views {
		if !slices.Contains(numbers, v.most) {
			m.fatalf("view %s has no band: there are those to %v", v.key, numbers)
		}
		offered := 0
		for i := range f.gates {
			if g := &f.gates[i]; g.offered && f.groups[0].top.at(g.band).max <= v.most {
				offered++
			}
		}
		if v.open != offered {
			m.fatalf("view %s counts %d gates that are open to it, want %d", v.key, v.open, offered)
		}
	}
	for i := range f.gates {
		m.auditBandOf(f, uint32(i))
	}
}

func (m *model) auditBandOf(f *frame, number uint32) {
	g := &f.gates[number]
	if g.offered {
		if t := f.groups[0].top.at(g.band); t == nil || g.watched != nil && f.limits[0].counts(g.tally()) && t.max < g.max {
			m.fatalf("frame %s: gate %d ends at %d, and stands in the band %+v", f.shape, number, g.max, t)
		} else if number >= f.bands.unsettled && t != f.bands.topFor(g) {
			m.fatalf("frame %s: gate %d stands in the band to %d, want that to %d", f.shape, number, t.max, f.bands.topFor(g).max)
		}
	}
	if g.watched == nil {
		return
	}
	var ends []uint32
	for _, ref := range g.watched.gates[g.of] {
		if ref.frame == f.number && ref.gate == number {
			ends = append(ends, ref.max)
		}
	}
	low, high := f.bands.span(g.tally())
	want := []uint32{high}
	if low > 0 {
		want = []uint32{low, high}
	}
	if !slices.Contains(ends, g.max) || number >= f.bands.unsettled && !f.dropped && (!slices.Equal(ends, want) || g.max != high) {
		m.fatalf("frame %s: gate %d ends at %d with %d in flight, and is told at %v, want %v", f.shape, number, g.max, g.tally().counter().count, ends, want)
	}
}
