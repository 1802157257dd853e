package backlog

// What a Random view draws depends on where entries stand in the buckets of its samplers. A preview shuffles them, as a bucket's
// last entry fills the gap that another one leaves. So it notes who stood where at first, and puts them back there, for the same
// draws to give the same once more.

// spot is a place in a bucket of a sampler.
type spot struct {
	frame *frame
	kind  spotKind
	in    uint32 // the gate or cell whose submissions these are, the group whose gates, the gate whose cells
	band  uint8  // of gates
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
func (p *preview) noteRemoval(x spot, in *sampler) {
	if p.depth == 0 {
		return
	}
	entries := in.nth(in.search(x.exp)).entries
	for _, at := range [2]uint32{x.place, uint32(len(entries) - 1)} {
		x.place = at
		if _, known := p.stood[x]; !known {
			if p.stood == nil {
				p.stood = map[spot]uint32{}
			}
			p.stood[x] = entries[at].of
		}
	}
}

// standAgain puts every entry where it stood, except those that stand behind another gate now. The order does not matter:
// each entry has one spot, and the one that makes room for it goes to a spot that is still to be looked at, or to none's.
func (p *preview) standAgain() {
	for x, of := range p.stood {
		if at, there := x.placeOf(of); there && at != x.place {
			x.swap(at)
		}
	}
	p.stood = nil
}

// sampler is the one that the spot is in; nil if it is gone.
func (x *spot) sampler() *sampler {
	f := x.frame
	switch {
	case f.dropped:
		return nil
	case x.kind == ofSubmissions:
		return &f.poolOf(x.in).sampler
	case x.kind == ofCells:
		return &f.gates[x.in].sampler
	}
	if top := f.groups[x.in].top.at(x.band); top != nil {
		return &top.sampler
	}
	return nil
}

// placeOf is where the entry stands now, false if it is not in the spot's bucket any more.
func (x *spot) placeOf(of uint32) (place uint32, there bool) {
	p := x.sampler()
	if p == nil {
		return 0, false
	}
	switch f := x.frame; x.kind {
	case ofGates:
		g := &f.gates[of]
		there = g.group == x.in && g.offered && g.band == x.band && g.topExp == x.exp
		place = g.place
	case ofCells:
		c := &f.cells.list[of]
		there = c.gate == x.in && c.gateExp == x.exp
		place = c.place
	default:
		s := f.in.subs[of]
		for i := range s.members {
			if m := &s.members[i]; m.frame == f.number {
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
func (x *spot) swap(other uint32) {
	p, f := x.sampler(), x.frame
	entries := p.nth(p.search(x.exp)).entries
	entries[x.place], entries[other] = entries[other], entries[x.place]
	for _, at := range [2]uint32{x.place, other} {
		switch e := entries[at]; x.kind {
		case ofGates:
			f.gates[e.of].place = at
		case ofCells:
			f.cells.list[e.of].place = at
		default:
			f.in.subs[e.of].members[e.at].place = at
		}
	}
}
