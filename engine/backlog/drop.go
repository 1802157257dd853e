package backlog

import (
	"cmp"
	"slices"
)

// dropSlice is how much of dropped views one DropViews takes apart: about half a millisecond.
const dropSlice = 4096

// Stirred returns the watched views that were empty, have something to take now, and became so since the last call, each
// once, in the order in which they did. The slice is valid until the next call but one.
func (b *Backlog) Stirred() []*View {
	told := b.stirred
	b.stirred, b.told = b.told[:0], told
	kept := told[:0]
	for _, v := range told {
		v.stirred = false
		if v.Watch && !v.Empty() && v.state != dropped {
			kept = append(kept, v)
		}
	}
	clear(told[len(kept):])
	return kept
}

// DropViews drops the least recently used views that are not watched, until at most keep are left, and returns how many: first those
// that only questions made.
// A dropped view offers nothing; View makes a new one for the same branch. Its memory goes in slices, so that no call holds
// the lock for long: this call does a bounded part, and so do the next ones and Sweep.
func (b *Backlog) DropViews(keep int) (count int) {
	if len(b.viewOf) > keep {
		var idle []*View
		for _, v := range b.views {
			if v != nil && v.state != dropped && !v.Watch && v.outer == nil {
				idle = append(idle, v)
			}
		}
		slices.SortFunc(idle, func(x, y *View) int {
			switch {
			case x.asked == y.asked:
				return cmp.Compare(x.used, y.used)
			case x.asked:
				return -1
			}
			return 1
		})
		for _, v := range idle {
			if len(b.viewOf) <= keep {
				break
			}
			b.drop(v)
			count++
		}
	}
	b.Sweep(dropSlice)
	return count
}

// drop takes the view out of everybody's reach. What it holds of submissions and terms is left to Sweep.
func (b *Backlog) drop(v *View) {
	delete(b.viewOf, v.key)
	b.detach(v)
	if v.fair == nil {
		return
	}
	for _, leaf := range v.fair.leaves {
		b.detach(leaf)
	}
	v.fair.undo()
}

// detach has nobody find the view any more.
func (b *Backlog) detach(v *View) {
	v.state = dropped
	gone := func(other *View) bool { return other == v }
	switch {
	case v.fair != nil: // only its leaves look for submissions
	case v.anchor == nil:
		b.broad = slices.DeleteFunc(b.broad, gone)
	default:
		v.anchor.views = slices.DeleteFunc(v.anchor.views, gone)
	}
	b.stirred = slices.DeleteFunc(b.stirred, gone)
	b.dropped = append(b.dropped, v)
}

// Sweep takes apart what dropped views still hold, at most `most` submissions and gates of it, and reports whether nothing
// is left. Until then the remains cost what a view costs.
func (b *Backlog) Sweep(most int) (clean bool) {
	for len(b.dropped) > 0 {
		last := len(b.dropped) - 1
		v := b.dropped[last]
		for v.remains() {
			if most <= 0 {
				return false
			}
			most--
			v.shed()
		}
		b.forgetView(v)
		b.dropped[last] = nil
		b.dropped = b.dropped[:last]
	}
	return true
}

// remains says whether a dropped view still holds something.
func (v *View) remains() bool {
	return len(v.gates) > 0 || v.cells != nil && len(v.cells.values) > 0 || v.fair != nil && len(v.fair.undone) > 0
}

// shed lets go of one submission of the last gate, or of that gate if it has none; then of one value; of a fair view, of one
// tenant.
func (v *View) shed() {
	if v.fair != nil {
		v.fair.shed()
		return
	}
	last := len(v.gates) - 1
	if last < 0 {
		v.cells.shed(v.number)
		return
	}
	g := &v.gates[last]
	if g.empty() {
		if g.watched != nil {
			g.watched.unwatchGate(v.number, uint32(last))
		}
		v.gates[last] = gate{}
		v.gates = v.gates[:last]
		return
	}
	x := g.last()
	if v.cells != nil {
		x = v.cells.list[x.of].last()
	}
	s := v.in.subs[x.of]
	v.take(s, x.at)
	s.dropMember(x.at)
}

// last is the entry that is the cheapest to take out.
func (p *pool) last() entry { return p.entries[len(p.entries)-1] }

// shed lets go of the last value.
func (c *cells) shed(view uint32) {
	last := uint32(len(c.values) - 1)
	if t := c.values[last].term; t != nil {
		t.unwatchGate(view, last|valueRef)
	}
	c.values = c.values[:last]
}

func (b *Backlog) forgetView(v *View) {
	for _, t := range v.filters {
		t.uses--
		b.release(t)
	}
	for _, l := range v.limits {
		l.key.limits--
		b.releaseKey(l.key)
	}
	b.views[v.number] = nil
	b.freeViews = append(b.freeViews, v.number)
	*v = View{Watch: v.Watch, Data: v.Data, key: v.key, state: dropped}
}
