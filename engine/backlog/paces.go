package backlog

// paces are those of a rate, at the places that their terms have in the key. A reservation finds the pace of its value
// in a dense list: a map of as many values would not stay in the cache.
type paces struct {
	list  []*pace // nil where nothing is known of the value
	known int
}

// of is the pace of a term; nil: nothing is known of it. The term may be one that is gone.
func (ps *paces) of(t *term) *pace {
	if int(t.place) < len(ps.list) {
		if p := ps.list[t.place]; p != nil && p.term == t {
			return p
		}
	}
	return nil
}

// add keeps a pace of a term that has none. The list grows up to its place: as many values as the key has terms.
func (ps *paces) add(p *pace) {
	if missing := int(p.term.place) + 1 - len(ps.list); missing > 0 {
		ps.list = append(ps.list, make([]*pace, missing)...)
	}
	ps.list[p.term.place] = p
	ps.known++
}

// drop forgets the pace of a term, if there is one.
func (ps *paces) drop(t *term) {
	if ps.of(t) != nil {
		ps.list[t.place] = nil
		ps.known--
	}
}

// moved gives the last term of the key the place of one that goes and has no pace. The list then ends before the free
// place, and gives memory back when it has become much shorter.
func (ps *paces) moved(last *term, to uint32) {
	if int(last.place) >= len(ps.list) {
		return
	}
	ps.list[to], ps.list[last.place] = ps.list[last.place], nil
	ps.list = trimmed(ps.list[:last.place])
}

// each goes through the paces that there are, in the order of their places. That order depends on the calls only, so
// that the same calls have the same results again. A pace may be dropped while it is shown.
func (ps *paces) each(yield func(*pace) bool) {
	for _, p := range ps.list {
		if p != nil && !yield(p) {
			return
		}
	}
}
