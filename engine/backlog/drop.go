package backlog

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/strategy"
)

// dropSlice is how much of dropped views one Drop takes apart: about half a millisecond.
const dropSlice = 4096

// Stirred returns the watched views that were empty, have something to take now, and
// became so since the last call, each once, in the order in which they did. The slice is
// valid until the next call but one.
func (vs *views) Stirred() []*View {
	notified := vs.bases.stirred
	vs.bases.stirred, vs.notified = vs.notified[:0], notified
	kept := notified[:0]
	for _, v := range notified {
		v.stirred = false
		if v.Watch && !v.Empty() && v.state != dropped {
			kept = append(kept, v)
		}
	}
	clear(notified[len(kept):])
	return kept
}

// Drop drops the least recently used views that are not watched, until at most keep are
// left, and returns how many: first those that only questions made.
// A dropped view offers nothing; Of makes a new one for the same branch. Its memory goes in
// slices, so that no call holds the lock for long: this call does a bounded part, and so do the
// next ones and Sweep.
func (vs *views) Drop(keep int) (count int) {
	if len(vs.byKey) > keep {
		var idle []*View
		for v := range vs.bases.views() {
			if !v.Watch {
				idle = append(idle, v)
			}
		}
		slices.SortFunc(idle, func(a, b *View) int {
			switch {
			case a.asked == b.asked:
				return cmp.Compare(a.used, b.used)
			case a.asked:
				return -1
			}
			return 1
		})
		for _, v := range idle {
			if len(vs.byKey) <= keep {
				break
			}
			vs.drop(v)
			count++
		}
	}
	vs.Sweep(dropSlice)
	return count
}

// drop makes the view unreachable. If no other view stands on its base, Sweep later lets go of
// the base's submissions and terms.
//
// To take a large view apart takes milliseconds, in which no call could have the mutex.
func (vs *views) drop(v *View) {
	delete(vs.byKey, v.key)
	v.state = dropped
	vs.bases.stirred = slices.DeleteFunc(vs.bases.stirred, func(other *View) bool { return other == v })
	if len(v.bands.views) > 1 {
		v.bands.leave(v)
		return
	}
	vs.detach(v.base)
	if v.fair == nil {
		return
	}
	for _, leaf := range v.fair.leaves {
		leaf.state = dropped
		vs.detach(leaf.base)
	}
	delete(vs.fair, v.fair.name)
	v.fair.root.undo(&vs.Values)
}

// detach removes the base from the tables that find it, and leaves it to Sweep.
func (vs *views) detach(b *base) {
	b.dropped = true
	vs.bases.detach(b)
	if vs.baseOf[b.shape] == b {
		delete(vs.baseOf, b.shape)
	}
	vs.dropped = append(vs.dropped, b)
}

// Sweep takes apart the remains of dropped views, and moves gates of other views into their
// bands. It takes at most `most` submissions and gates, and reports whether nothing is left.
// Until then the remains cost as much as a view.
func (vs *views) Sweep(most int) (clean bool) {
	for len(vs.dropped) > 0 {
		last := len(vs.dropped) - 1
		b := vs.dropped[last]
		for b.remains() {
			if most <= 0 {
				return false
			}
			most--
			b.shed()
		}
		vs.forget(b)
		vs.dropped[last] = nil
		vs.dropped = vs.dropped[:last]
	}
	for len(vs.bases.unsettled) > 0 {
		if most <= 0 {
			return false
		}
		most = vs.bases.unsettled[len(vs.bases.unsettled)-1].bands.reband(most)
	}
	return true
}

// remains says whether a dropped base still holds something.
func (b *base) remains() bool {
	return len(b.gates) > 0 || b.fewest != nil && len(b.fewest.turns) > 0 ||
		b.cells != nil && len(b.cells.values) > 0 || b.fair != nil && len(b.fair.undone) > 0
}

// shed lets go of one submission of the last gate, or of that gate if it has none; then of
// one value; of a fair view, of one tenant.
func (b *base) shed() {
	if b.fair != nil {
		b.fair.shed()
		return
	}
	last := len(b.gates) - 1
	switch {
	case last >= 0:
	case b.fewest != nil && len(b.fewest.turns) > 0:
		b.fewest.shed()
		return
	default:
		b.cells.shed()
		return
	}
	g := &b.gates[last]
	if g.empty() {
		if g.watched != nil {
			b.bands.unwatch(g.tally(), uint32(last))
		}
		b.gates[last] = gate{}
		b.gates = b.gates[:last]
		return
	}
	x := g.last()
	if b.cells != nil {
		x = b.cells.list[x.of].last()
	}
	s := b.subs.list[x.of]
	b.take(s, x.at)
	s.dropMember(x.at)
}

// last is the entry that is the cheapest to take out.
func (p *pool) last() entry { return p.entries[len(p.entries)-1] }

func (vs *views) forget(b *base) {
	for _, x := range b.filters {
		vs.Values.releaseFilter(x)
	}
	if b.fewest != nil {
		vs.Values.unlimit(b.fewest.key)
		if b.fewest.without != nil {
			vs.Values.unlimit(b.fewest.without)
		}
	}
	for _, l := range b.limits {
		if l.of >= strategy.Measures {
			vs.Values.released(vs.Values.Rates.list[l.of-strategy.Measures])
		}
		vs.Values.unlimit(l.key)
	}
	vs.bases.remove(b)
	*b = base{dropped: true}
}
