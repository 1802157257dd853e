package backlog

// The draws of a Random view depend on where entries stand in the buckets of its samplers. A preview shuffles the
// entries, as a bucket's last entry fills the gap that another one leaves. So the preview notes each entry's first
// place and puts the entry back there, so that the same draws give the same chunks again.

// spot is a place in a bucket of a sampler.
type spot struct {
	base *base
	kind spotKind
	// the gate or cell whose submissions these are, the group whose gates, the gate whose cells, the count whose groups
	in    uint32
	band  uint8 // of gates
	exp   uint8 // of the bucket
	place uint32
}

type spotKind uint8

const (
	ofSubmissions spotKind = iota
	ofGates
	ofCells
	ofTurns
)

// noteRemoval is called before the entry at a place is removed from a sampler: that place and the last one of the
// bucket get other entries.
func (t *trail) noteRemoval(x spot, in *sampler) {
	if t.depth == 0 {
		return
	}
	entries := in.nth(in.search(x.exp)).entries
	for _, at := range [2]uint32{x.place, uint32(len(entries) - 1)} {
		x.place = at
		if _, known := t.stood[x]; !known {
			if t.stood == nil {
				t.stood = map[spot]uint32{}
			}
			t.stood[x] = entries[at].of
		}
	}
}

// standAgain puts every entry where it stood, except those that stand behind another gate
// now. The order does not matter: each entry has one spot, and the entry that makes room for it goes to a spot that is
// still to be looked at, or to a place that is no entry's spot.
func (t *trail) standAgain() {
	for x, of := range t.stood {
		if at, there := x.placeOf(of); there && at != x.place {
			x.swap(at)
		}
	}
	t.stood = nil
}

// sampler is the one that the spot is in; nil if it is gone.
func (s *spot) sampler() *sampler {
	b := s.base
	switch {
	case b.dropped:
		return nil
	case s.kind == ofSubmissions:
		return &b.poolOf(s.in).sampler
	case s.kind == ofCells:
		return &b.gates[s.in].sampler
	case s.kind == ofTurns:
		if l := b.fewest.levels[s.in]; l != nil {
			return &l.sampler
		}
		return nil
	}
	if top := b.groups[s.in].top.at(s.band); top != nil {
		return &top.sampler
	}
	return nil
}

// placeOf is where the entry stands now, false if it is not in the spot's bucket any more.
func (s *spot) placeOf(of uint32) (place uint32, there bool) {
	p := s.sampler()
	if p == nil {
		return 0, false
	}
	switch b := s.base; s.kind {
	case ofGates:
		g := &b.gates[of]
		there = g.group == s.in && g.offered && g.band == s.band && g.topExp == s.exp
		place = g.place
	case ofCells:
		c := &b.cells.list[of]
		there = c.gate == s.in && c.gateExp == s.exp
		place = c.place
	case ofTurns:
		x := &b.fewest.turns[of]
		there = x.place != none && x.flight == s.in && x.exp == s.exp
		place = x.place
	default:
		sub := b.subs.list[of]
		for i := range sub.members {
			if m := &sub.members[i]; m.base == b.number {
				there = m.gate == s.in && exponent(uint64(sub.available)) == s.exp
				place = m.place
			}
		}
	}
	i := p.search(s.exp)
	if !there || i == p.count() || p.nth(i).exp != s.exp {
		return 0, false
	}
	entries := p.nth(i).entries
	return place, int(max(place, s.place)) < len(entries) && entries[place].of == of
}

// swap exchanges the entries at the spot and at another place of its bucket, and tells both where they are.
func (s *spot) swap(other uint32) {
	p, b := s.sampler(), s.base
	entries := p.nth(p.search(s.exp)).entries
	entries[s.place], entries[other] = entries[other], entries[s.place]
	for _, at := range [2]uint32{s.place, other} {
		switch e := entries[at]; s.kind {
		case ofGates:
			b.gates[e.of].place = at
		case ofCells:
			b.cells.list[e.of].place = at
		case ofTurns:
			b.fewest.turns[e.of].place = at
		default:
			b.subs.list[e.of].members[e.at].place = at
		}
	}
}
