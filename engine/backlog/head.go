package backlog

import (
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// A queue of several shards has a backlog for each of them, and takes from the one whose turn it is. For that it
// compares the heads of one branch in all of them: of an ordered branch the first candidate, of a random one the
// number of chunks. Between the look at the heads and the pick other callers may take something. TakeWithin then keeps
// the order by a bound, and after TakeOnce has failed the caller draws again over all shards.

// Head describes the next pick of a view: of an ordered view the submission that comes first, of a Random view a
// number of chunks, by which it is weighed against others.
type Head struct {
	Flight   uint32 // by PreferDistinct: chunks in flight of the value that is next
	Priority int64
	ID       queue.SubmissionID
	Weight   uint64 // Random: the sum of the bounds that draws are made from, never less than the available chunks
}

// Before says whether a branch of this order takes the chunk behind h before the one behind other. For Random it only
// compares the counts of PreferDistinct.
func (h *Head) Before(other *Head, order strategy.Order) bool {
	if h.Flight != other.Flight {
		return h.Flight < other.Flight
	}
	return order != strategy.Random && precedes(order, h.Priority, h.ID, other.Priority, other.ID)
}

// Head is the head of the view; false: it has nothing. The view is built, and not scored. Of a fair view it only says
// that there is something. Like a pick, it moves submissions that limits hold back out of the way, and gives up when
// it is tired (Allow).
func (b *Backlog) Head(v *View, rnd *rand.Rand) (h Head, ok bool) {
	if v.state == dropped || b.Rules.Halted() {
		return h, false
	}
	b.Views.touch(v)
	switch {
	case v.fair != nil: // TenantHeads says more
		h.Weight = uint64(v.fair.root.shares[0].Active())
		return h, h.Weight > 0
	case v.order == strategy.Random:
		return v.randomHead(v.most)
	}
	_, s, _ := v.chooseNext(v, rnd)
	if s == nil {
		return h, false
	}
	return v.headOf(s), true
}

// headOf is the head that a submission makes.
func (b *base) headOf(s *Submission) Head {
	h := Head{Priority: s.priority, ID: s.id}
	if b.fewest != nil {
		if t := b.fewest.termOf(s); t != nil {
			h.Flight = t.inFlight()
		}
	}
	return h
}

// randomHead weighs a Random view.
func (b *base) randomHead(most uint32) (h Head, ok bool) {
	switch in := &b.groups[0]; {
	case b.fewest != nil:
		if len(b.fewest.least) == 0 {
			return h, false
		}
		h.Flight, h.Weight = b.fewest.least[0].flight, b.fewest.least[0].total
	case b.bands.on:
		for t := in.top; t != nil && t.max <= most; t = t.next {
			h.Weight += t.total
		}
	case in.offered > 0:
		h.Weight = b.weight(0)
	}
	return h, h.Weight > 0
}

// TakeWithin is Take, unless the bound comes before the next chunk of the view.
func (b *Backlog) TakeWithin(v *View, bound *Head, rnd *rand.Rand) (s *Submission, index uint32, ok bool) {
	if h, has := b.Head(v, rnd); !has || bound.Before(&h, v.order) {
		return nil, 0, false
	}
	return b.Take(v, rnd)
}

// TakeOnce is Take of a Random view with a single draw, from as many places as the view had when it
// was weighed. A draw can fall on a place without a chunk, and TakeOnce then fails. A caller that
// draws again among several views therefore takes every chunk of all of them with the same
// probability.
func (b *Backlog) TakeOnce(v *View, weight uint64, rnd *rand.Rand) (s *Submission, index uint32, ok bool) {
	h, has := b.Head(v, rnd)
	if !has || h.Weight < weight && rnd.Uint64N(weight) >= h.Weight {
		return nil, 0, false
	}
	allowed := b.meter.allowed
	b.meter.once, b.meter.allowed = true, b.meter.moved+1
	s, index, ok = b.Take(v, rnd)
	b.meter.once, b.meter.allowed = false, allowed
	return s, index, ok
}
