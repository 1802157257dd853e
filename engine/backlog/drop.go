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
	notified := vs.frames.stirred
	vs.frames.stirred, vs.notified = vs.notified[:0], notified
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
		for v := range vs.frames.views() {
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

// drop makes the view unreachable. If no other view stands on its frame, Sweep later lets go of
// the frame's submissions and terms.
//
// To take a large view apart takes milliseconds, in which no call could have the mutex.
func (vs *views) drop(v *View) {
	delete(vs.byKey, v.key)
	v.state = dropped
	vs.frames.stirred = slices.DeleteFunc(vs.frames.stirred, func(other *View) bool { return other == v })
	if len(v.bands.views) > 1 {
		v.bands.leave(v)
		return
	}
	vs.detach(v.frame)
	if v.fair == nil {
		return
	}
	for _, leaf := range v.fair.leaves {
		leaf.state = dropped
		vs.detach(leaf.frame)
	}
	delete(vs.fair, v.fair.name)
	v.fair.root.undo(&vs.Values)
}

// detach removes the frame from the tables that find it, and leaves it to Sweep.
func (vs *views) detach(f *frame) {
	f.dropped = true
	vs.frames.detach(f)
	if vs.frameOf[f.shape] == f {
		delete(vs.frameOf, f.shape)
	}
	vs.dropped = append(vs.dropped, f)
}

// Sweep takes apart the remains of dropped views, and moves gates of other views into their
// bands. It takes at most `most` submissions and gates, and reports whether nothing is left.
// Until then the remains cost as much as a view.
func (vs *views) Sweep(most int) (clean bool) {
	for len(vs.dropped) > 0 {
		last := len(vs.dropped) - 1
		f := vs.dropped[last]
		for f.remains() {
			if most <= 0 {
				return false
			}
			most--
			f.shed()
		}
		vs.forget(f)
		vs.dropped[last] = nil
		vs.dropped = vs.dropped[:last]
	}
	for len(vs.frames.unsettled) > 0 {
		if most <= 0 {
			return false
		}
		most = vs.frames.unsettled[len(vs.frames.unsettled)-1].bands.reband(most)
	}
	return true
}

// remains says whether a dropped frame still holds something.
func (f *frame) remains() bool {
	return len(f.gates) > 0 || f.fewest != nil && len(f.fewest.turns) > 0 ||
		f.cells != nil && len(f.cells.values) > 0 || f.fair != nil && len(f.fair.undone) > 0
}

// shed lets go of one submission of the last gate, or of that gate if it has none; then of
// one value; of a fair view, of one tenant.
func (f *frame) shed() {
	if f.fair != nil {
		f.fair.shed()
		return
	}
	last := len(f.gates) - 1
	switch {
	case last >= 0:
	case f.fewest != nil && len(f.fewest.turns) > 0:
		f.fewest.shed()
		return
	default:
		f.cells.shed()
		return
	}
	g := &f.gates[last]
	if g.empty() {
		if g.watched != nil {
			f.bands.unwatch(g.tally(), uint32(last))
		}
		f.gates[last] = gate{}
		f.gates = f.gates[:last]
		return
	}
	x := g.last()
	if f.cells != nil {
		x = f.cells.list[x.of].last()
	}
	s := f.subs.list[x.of]
	f.take(s, x.at)
	s.dropMember(x.at)
}

// last is the entry that is the cheapest to take out.
func (p *pool) last() entry { return p.entries[len(p.entries)-1] }

func (vs *views) forget(f *frame) {
	for _, x := range f.filters {
		vs.Values.releaseFilter(x)
	}
	if f.fewest != nil {
		vs.Values.unlimit(f.fewest.key)
		if f.fewest.without != nil {
			vs.Values.unlimit(f.fewest.without)
		}
	}
	for _, l := range f.limits {
		if l.of >= strategy.Measures {
			vs.Values.released(vs.Values.Rates.list[l.of-strategy.Measures])
		}
		vs.Values.unlimit(l.key)
	}
	vs.frames.remove(f)
	*f = frame{dropped: true}
}
