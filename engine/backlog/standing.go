package backlog

import (
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Walk calls fn for up to `most` shown submissions, from place `from` (-1: the end) down,
// and returns the place to go on from; 0 when it met all. Between two calls anything may happen to the
// backlog: Walk may miss a submission that is shown meanwhile, and may meet one twice that moves into
// the place of a hidden one. fn must not change the backlog.
func (b *Backlog) Walk(from, most int, fn func(*Submission)) (next int) {
	if from < 0 {
		from = len(b.subs.shown)
	}
	next = min(from, len(b.subs.shown))
	for ; most > 0 && next > 0; most-- {
		next--
		fn(b.subs.list[b.subs.shown[next]])
	}
	return next
}

// ShownLen is how many submissions are shown.
func (b *Backlog) ShownLen() int { return len(b.subs.shown) }

// Find is the submission's value of a key.
func (s *Submission) Find(key queue.MetaKey) (value queue.MetaValue, has bool) {
	value, _, has = s.Count(strategy.Limit{Key: key})
	return value, has
}

// Count is the submission's value of the key of a limit, and the limit's count for that value.
//
// The count of a rate is 1 while the value has to wait.
func (s *Submission) Count(l strategy.Limit) (value queue.MetaValue, count uint32, has bool) {
	if l.Of == strategy.Rate {
		return s.countRate(l)
	}
	for _, ref := range s.refs() {
		if t := s.home.list[ref.term]; t.key.name == l.Key {
			return t.value, t.counters[l.Of].count, true
		}
	}
	if of, lack := queue.LackedBy(l.Key); lack {
		return s.countLacked(of, l)
	}
	return value, 0, false
}

func (s *Submission) countRate(l strategy.Limit) (value queue.MetaValue, count uint32, has bool) {
	if has = l.Key == ""; !has {
		value, has = s.Find(l.Key)
	}
	for _, state := range s.home.OfRates(queue.MetaEntry{Key: l.Key, Value: value}) {
		if _, waits := state.Opens(0); has && waits && state.Limit() == l {
			count = 1
		}
	}
	return value, count, has
}

// Before says whether a view of the order that is not Random would take all of s before any of other.
func (s *Submission) Before(other *Submission, order strategy.Order) bool {
	return s != other && before(order, s, other)
}

// sampled is how many exceptions of one submission are read at most; if there are more, some are read
// and the rest is inferred.
const sampled = 512

// AvailableBefore is how many chunks of the submission an ordered view would take before this
// available one: exactly, if few lie before it and few are put back or taken ahead of the cursors.
func (s *Submission) AvailableBefore(index uint32) uint32 {
	if s.back.find(index) >= 0 {
		return countSmaller(s.back.heap, index)
	}
	// All put-back chunks, and those from the cursor on that Random's cursor did not visit either.
	n := uint32(s.back.len()) + index - s.l - s.visitedByRandom(s.l, index)
	if s.ahead != nil {
		n -= min(n, countSmaller(s.ahead.keys, index))
	}
	return n
}

// visitedByRandom is about how many of the chunks from..to-1 Random's cursor has visited; the ordered
// cursor has visited none of them. Random's visits are spread evenly over all of them.
func (s *Submission) visitedByRandom(from, to uint32) (n uint32) {
	if to-from > sampled {
		return uint32(uint64(s.p-s.both) * uint64(to-from) / uint64(s.chunks-s.l))
	}
	for index := from; index < to; index++ {
		if s.positionOf(index) < s.p {
			n++
		}
	}
	return n
}

// countSmaller is about how many of the numbers are smaller than bound.
func countSmaller(numbers []uint32, bound uint32) (n uint32) {
	stride := 1 + len(numbers)/sampled
	for i := 0; i < len(numbers); i += stride {
		if numbers[i] < bound {
			n += uint32(stride)
		}
	}
	return min(n, uint32(len(numbers)))
}

// Withheld is a value of the submission that has as many chunks in flight as an operator
// allows it; false if there is none.
func (s *Submission) Withheld() (at queue.Saturated, withheld bool) {
	if s.home.limited == 0 {
		return at, false
	}
	for _, ref := range s.refs() {
		t := s.home.list[ref.term]
		if t.counters[strategy.Simultaneous].overrun() && t.ruling[s.home.rules.book] == queue.Unruled {
			entry := queue.MetaEntry{Key: t.key.name, Value: t.value}
			return queue.Saturated{MetaEntry: entry, InFlight: t.inFlight(), Limit: t.limit()}, true
		}
	}
	return at, false
}

// Gives says whether the view would give a chunk now, and which of its leaves. Of a fair
// view it costs a copy of ledgers, as a Preview does.
func (b *Backlog) Gives(v *View) (leaf int, ok bool) {
	if v.Empty() {
		return 0, false
	}
	picks := b.Preview([]*View{v}, 1, rand.New(rand.NewPCG(0, 0)), nil, nil)
	if len(picks) == 0 {
		return 0, false
	}
	return int(picks[0].Leaf), true
}

// Overtaken says whether an earlier alternative gives something to the tenants that the submission
// belongs to in this leaf of a fair view, and which leaf does: as long as there is one, this leaf
// gives these tenants nothing. Where Fair is in Fair it may cost a copy of ledgers, as a Preview does.
func (b *Backlog) Overtaken(v *View, s *Submission, leaf int) (by int, ok bool) {
	if v.fair == nil {
		return 0, false
	}
	examined, work, rnd := b.meter.examined, b.meter.work, rand.New(rand.NewPCG(0, 0))
	outer := b.trail
	b.trail = trail{depth: outer.depth + 1}
	for level, seat := range v.Seats(s, leaf) {
		for k := range v.fair.leaves[leaf].path[level] {
			var charge Charge
			if from, first, _ := seat.share.ask(seat.number, k, rnd, &charge); first != nil && !ok {
				by, ok = int(from.leaf), true
			}
		}
	}
	b.trail.restoreLedgers()
	b.trail = outer
	b.meter.examined, b.meter.work = examined, work
	return by, ok
}
