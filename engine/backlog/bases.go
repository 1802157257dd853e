package backlog

import (
	"iter"
	"slices"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// bases are the bases of all views. They learn of every change of a submission or value
// that concerns them.
//
//	a submission is offered or taken back ─► broad: bases without an index, all of them
//	                                      ─► bases of each of its terms: those that filter by the term
//
// So a change of a submission of company=7 costs nothing in the views of other companies. list has
// an order that depends on the calls alone. A map would make two runs with one seed differ, and no
// failure could be replayed.
type bases struct {
	values *values
	oldest *oldest

	list      []*base // by number; nil where free
	free      []uint32
	broad     []*base // those without an index
	unsettled []*base // those whose gates are not all in their bands
	stirred   []*View // that are to be told of by Stirred
}

// add gives a new base a number.
func (b *bases) add(on *base) {
	if last := len(b.free) - 1; last >= 0 {
		on.number, b.free = b.free[last], b.free[:last]
		b.list[on.number] = on
		return
	}
	on.number = uint32(len(b.list))
	b.list = append(b.list, on)
}

func (b *bases) remove(on *base) {
	b.list[on.number] = nil
	b.free = append(b.free, on.number)
}

// attach has the base told of submissions that are offered, detach ends that.
func (b *bases) attach(on *base) {
	if on.by == nil {
		b.broad = append(b.broad, on)
		return
	}
	for _, t := range on.by.index {
		t.bases = append(t.bases, on)
	}
}

func (b *bases) detach(on *base) {
	gone := func(other *base) bool { return other == on }
	b.unsettled = slices.DeleteFunc(b.unsettled, gone)
	if on.by == nil {
		b.broad = slices.DeleteFunc(b.broad, gone)
		return
	}
	for _, t := range on.by.index {
		t.bases = slices.DeleteFunc(t.bases, gone)
	}
}

// views goes through the standing views, of a fair branch through the one of all of it.
func (b *bases) views() iter.Seq[*View] {
	return func(yield func(*View) bool) {
		for _, on := range b.list { // the map of views has no order
			if on == nil || on.outer != nil {
				continue
			}
			for _, v := range on.bands.views {
				if v.state != dropped && !yield(v) {
					return
				}
			}
		}
	}
}

// offer takes a shown submission that has available chunks into every view it matches.
func (b *bases) offer(s *Submission) {
	b.oldest.add(s)
	for _, on := range b.broad {
		if on.admits(s) {
			on.join(s)
		}
	}
	for _, ref := range s.refs() {
		for _, on := range b.values.list[ref.term].bases {
			if on.admits(s) {
				on.join(s)
			}
		}
	}
}

// unoffer takes the submission out of all views. Its available chunks must still be counted as
// they were.
func (b *bases) unoffer(s *Submission) {
	b.oldest.remove(s)
	for i := range s.members {
		on := b.list[s.members[i].base]
		group := on.groupAt(s.members[i].gate)
		on.take(s, uint32(i))
		on.report(group)
	}
	s.members = s.members[:0]
}

// reweigh tells the Random views when the available chunks of a submission crossed a bound.
func (b *bases) reweigh(s *Submission, before uint64) {
	from, to := exponent(before), exponent(uint64(s.available))
	if from == to {
		return
	}
	for i := range s.members {
		if on := b.list[s.members[i].base]; on.order == strategy.Random {
			on.reweigh(s, uint32(i), from, to)
		}
	}
}

// reweight sets the weight that a value has now in the shares of the key.
func (b *bases) reweight(key queue.MetaKey, value queue.MetaValue, w fair.Weight) {
	for v := range b.views() {
		if v.fair != nil {
			v.fair.root.reweight(key, value, w)
		}
	}
}
