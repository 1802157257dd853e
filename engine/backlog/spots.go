package backlog

// What a Random view draws depends on where entries stand in the buckets of its samplers. A preview shuffles them, as a bucket's
// last entry fills the gap that another one leaves. So it notes who stood where at first, and puts them back there, for the same
// draws to give the same once more.

// spot is a place in a bucket of a sampler.
type spot struct {
	view  *View
	kind  spotKind
	in    uint32 // the gate or cell whose submissions these are, the group whose gates, the gate whose cells
	exp   uint8  // of the bucket
	place uint32
}

type spotKind uint8

const (
	ofSubmissions spotKind = iota
	ofGates
	ofCells
)

// noteRemoval is called before the entry at a place is removed from a sampler: that place and the last one of the bucket will
// change hands.
func (v *View) noteRemoval(kind spotKind, in uint32, p *sampler, exp uint8, place uint32) {
	seen := &v.in.preview
	if !seen.running {
		return
	}
	entries := p.nth(p.search(exp)).entries
	for _, at := range [2]uint32{place, uint32(len(entries) - 1)} {
		x := spot{v, kind, in, exp, at}
		if _, known := seen.stood[x]; !known {
			if seen.stood == nil {
				seen.stood = map[spot]uint32{}
			}
			seen.stood[x] = entries[at].of
		}
	}
}

// standAgain puts everybody where they stood, but for those that stand behind another gate now. The order does not matter:
// each entry has one spot, and whoever makes room for it goes to a spot that is still to be looked at, or to none's.
func (b *Backlog) standAgain() {
	for x, of := range b.preview.stood {
		if at, there := x.view.placeOf(&x, of); there && at != x.place {
			x.view.swap(&x, at)
		}
	}
	b.preview.stood = nil
}

// sampler is the one that the spot is in; nil if it is gone.
func (v *View) samplerOf(x *spot) *sampler {
	switch {
	case v.state == dropped:
		return nil
	case x.kind == ofSubmissions:
		return &v.poolOf(x.in).sampler
	case x.kind == ofCells:
		return &v.gates[x.in].sampler
	}
	if top := v.groups[x.in].top; top != nil {
		return &top.sampler
	}
	return nil
}

// placeOf is where the entry stands now, false if it is not in the spot's bucket any more.
func (v *View) placeOf(x *spot, of uint32) (place uint32, there bool) {
	p := v.samplerOf(x)
	if p == nil {
		return 0, false
	}
	switch x.kind {
	case ofGates:
		g := &v.gates[of]
		there = g.group == x.in && g.offered && g.topExp == x.exp
		place = g.place
	case ofCells:
		c := &v.cells.list[of]
		there = c.gate == x.in && c.gateExp == x.exp
		place = c.place
	default:
		s := v.in.subs[of]
		for i := range s.members {
			if m := &s.members[i]; m.view == v.number {
				there = m.gate == x.in && exponent(uint64(s.available)) == x.exp
				place = m.place
			}
		}
	}
	i := p.search(x.exp)
	if !there || i == p.count() || p.nth(i).exp != x.exp {
		return 0, false
	}
	entries := p.nth(i).entries
	return place, int(max(place, x.place)) < len(entries) && entries[place].of == of
}

// swap exchanges the entries at the spot and at another place of its bucket, and tells both where they are.
func (v *View) swap(x *spot, other uint32) {
	p := v.samplerOf(x)
	entries := p.nth(p.search(x.exp)).entries
	entries[x.place], entries[other] = entries[other], entries[x.place]
	for _, at := range [2]uint32{x.place, other} {
		switch e := entries[at]; x.kind {
		case ofGates:
			v.gates[e.of].place = at
		case ofCells:
			v.cells.list[e.of].place = at
		default:
			v.in.subs[e.of].members[e.at].place = at
		}
	}
}
