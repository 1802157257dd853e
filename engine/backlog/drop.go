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
	notified := b.stirred
	b.stirred, b.notified = b.notified[:0], notified
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

// DropViews drops the least recently used views that are not watched, until at most keep are left, and returns how many: first those
// that only questions made.
// A dropped view offers nothing; View makes a new one for the same branch. Its memory goes in slices, so that no call holds
// the lock for long: this call does a bounded part, and so do the next ones and Sweep.
func (b *Backlog) DropViews(keep int) (count int) {
	if len(b.viewOf) > keep {
		var idle []*View
		for v := range b.standing() {
			if !v.Watch {
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

// drop takes the view out of everybody's reach. If no other one stands on its frame, what that holds of submissions and terms is left to
// Sweep.
func (b *Backlog) drop(v *View) {
	delete(b.viewOf, v.key)
	v.state = dropped
	b.stirred = slices.DeleteFunc(b.stirred, func(other *View) bool { return other == v })
	if len(v.bands.views) > 1 {
		v.bands.leave(v)
		return
	}
	b.detach(v.frame)
	if v.fair == nil {
		return
	}
	for _, leaf := range v.fair.leaves {
		leaf.state = dropped
		b.detach(leaf.frame)
	}
	v.fair.undo()
}

// detach has the frame found no more.
func (b *Backlog) detach(f *frame) {
	f.dropped = true
	gone := func(other *frame) bool { return other == f }
	switch {
	case f.fair != nil: // only its leaves look for submissions
	case f.anchor == nil:
		b.broad = slices.DeleteFunc(b.broad, gone)
	default:
		f.anchor.frames = slices.DeleteFunc(f.anchor.frames, gone)
	}
	if b.frameOf[f.shape] == f {
		delete(b.frameOf, f.shape)
	}
	b.unsettled = slices.DeleteFunc(b.unsettled, gone)
	b.dropped = append(b.dropped, f)
}

// Sweep takes apart what dropped views still hold, and has the gates of others stand in their bands. It takes at most `most` submissions
// and gates, and reports whether nothing is left. Until then the remains cost what a view costs.
func (b *Backlog) Sweep(most int) (clean bool) {
	for len(b.dropped) > 0 {
		last := len(b.dropped) - 1
		f := b.dropped[last]
		for f.remains() {
			if most <= 0 {
				return false
			}
			most--
			f.shed()
		}
		b.forget(f)
		b.dropped[last] = nil
		b.dropped = b.dropped[:last]
	}
	for len(b.unsettled) > 0 {
		if most <= 0 {
			return false
		}
		most = b.unsettled[len(b.unsettled)-1].bands.reband(most)
	}
	return true
}

// remains says whether a dropped frame still holds something.
func (f *frame) remains() bool {
	return len(f.gates) > 0 || f.cells != nil && len(f.cells.values) > 0 || f.fair != nil && len(f.fair.undone) > 0
}

// shed lets go of one submission of the last gate, or of that gate if it has none; then of one value; of a fair view, of one
// tenant.
func (f *frame) shed() {
	if f.fair != nil {
		f.fair.shed()
		return
	}
	last := len(f.gates) - 1
	if last < 0 {
		f.cells.shed()
		return
	}
	g := &f.gates[last]
	if g.empty() {
		if g.watched != nil {
			f.bands.unwatch(g.watched, uint32(last))
		}
		f.gates[last] = gate{}
		f.gates = f.gates[:last]
		return
	}
	x := g.last()
	if f.cells != nil {
		x = f.cells.list[x.of].last()
	}
	s := f.in.subs[x.of]
	f.take(s, x.at)
	s.dropMember(x.at)
}

// last is the entry that is the cheapest to take out.
func (p *pool) last() entry { return p.entries[len(p.entries)-1] }

// shed lets go of the last value.
func (c *cells) shed() {
	last := uint32(len(c.values) - 1)
	if t := c.values[last].term; t != nil {
		t.unwatchGate(c.of.number, last|valueRef)
	}
	c.values = c.values[:last]
}

func (b *Backlog) forget(f *frame) {
	for _, t := range f.filters {
		t.uses--
		b.release(t)
	}
	for _, l := range f.limits {
		l.key.limits--
		b.releaseKey(l.key)
	}
	b.frames[f.number] = nil
	b.freeFrames = append(b.freeFrames, f.number)
	*f = frame{dropped: true}
}
