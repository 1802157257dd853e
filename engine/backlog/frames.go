package backlog

import (
	"iter"
	"slices"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// frames are the frames of all views. They learn of every change of a submission or value
// that concerns them.
//
//	a submission is offered or taken back ─► broad: frames without an index, all of them
//	                                      ─► frames of each of its terms: those that filter by the term
//
// So a change of a submission of company=7 costs nothing in the views of other companies. list has
// an order that depends on the calls alone. A map would make two runs with one seed differ, and no
// failure could be replayed.
type frames struct {
	values *values
	oldest *oldest

	list      []*frame // by number; nil where free
	free      []uint32
	broad     []*frame // those without an index
	unsettled []*frame // those whose gates are not all in their bands
	stirred   []*View  // that are to be told of by Stirred
}

// add gives a new frame a number.
func (fs *frames) add(f *frame) {
	if last := len(fs.free) - 1; last >= 0 {
		f.number, fs.free = fs.free[last], fs.free[:last]
		fs.list[f.number] = f
		return
	}
	f.number = uint32(len(fs.list))
	fs.list = append(fs.list, f)
}

func (fs *frames) remove(f *frame) {
	fs.list[f.number] = nil
	fs.free = append(fs.free, f.number)
}

// attach has the frame told of submissions that are offered, detach ends that.
func (fs *frames) attach(f *frame) {
	if f.by == nil {
		fs.broad = append(fs.broad, f)
		return
	}
	for _, t := range f.by.index {
		t.frames = append(t.frames, f)
	}
}

func (fs *frames) detach(f *frame) {
	gone := func(other *frame) bool { return other == f }
	fs.unsettled = slices.DeleteFunc(fs.unsettled, gone)
	if f.by == nil {
		fs.broad = slices.DeleteFunc(fs.broad, gone)
		return
	}
	for _, t := range f.by.index {
		t.frames = slices.DeleteFunc(t.frames, gone)
	}
}

// views goes through the standing views, of a fair branch through the one of all of it.
func (fs *frames) views() iter.Seq[*View] {
	return func(yield func(*View) bool) {
		for _, f := range fs.list { // the map of views has no order
			if f == nil || f.outer != nil {
				continue
			}
			for _, v := range f.bands.views {
				if v.state != dropped && !yield(v) {
					return
				}
			}
		}
	}
}

// offer takes a shown submission that has available chunks into every view it matches.
func (fs *frames) offer(s *Submission) {
	fs.oldest.add(s)
	for _, f := range fs.broad {
		if f.admits(s) {
			f.join(s)
		}
	}
	for _, ref := range s.refs() {
		for _, f := range fs.values.list[ref.term].frames {
			if f.admits(s) {
				f.join(s)
			}
		}
	}
}

// unoffer takes the submission out of all views. Its available chunks must still be counted as
// they were.
func (fs *frames) unoffer(s *Submission) {
	fs.oldest.remove(s)
	for i := range s.members {
		f := fs.list[s.members[i].frame]
		group := f.groupAt(s.members[i].gate)
		f.take(s, uint32(i))
		f.report(group)
	}
	s.members = s.members[:0]
}

// reweigh tells the Random views when the available chunks of a submission crossed a bound.
func (fs *frames) reweigh(s *Submission, before uint64) {
	from, to := exponent(before), exponent(uint64(s.available))
	if from == to {
		return
	}
	for i := range s.members {
		if f := fs.list[s.members[i].frame]; f.order == strategy.Random {
			f.reweigh(s, uint32(i), from, to)
		}
	}
}

// reweight sets the weight that a value has now in the shares of the key.
func (fs *frames) reweight(key queue.MetaKey, value queue.MetaValue, w fair.Weight) {
	for v := range fs.views() {
		if v.fair != nil {
			v.fair.root.reweight(key, value, w)
		}
	}
}
