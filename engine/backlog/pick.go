package backlog

import (
	"fmt"
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/strategy"
)

// Take takes the next chunk in the view's order and counts it in flight. It finds none when
// every submission of the view is hidden, exhausted or under a limit that is reached. Only Random draws
// from rnd (and not when the view is empty). An ordered view takes put-back chunks first, smallest index
// first, then goes on in index order; Random takes every available chunk of the view with the same
// probability, where a submission's chunks that were never taken come in the order of its permutation
// (see MaxPutBackAll for the exception).
func (b *Backlog) Take(v *View, rnd *rand.Rand) (s *Submission, index uint32, ok bool) {
	if v.state == dropped {
		return nil, 0, false
	}
	b.Views.touch(v)
	on, before := v.base, b.meter.examined
	from, s, draw := on.chooseNext(v, rnd)
	b.meter.work[on.kind()].Examined += b.meter.examined - before
	if s == nil {
		return nil, 0, false
	}
	return s, b.takeFrom(from, s, draw, rnd), true
}

// chooseNext is the submission whose turn it is in the view; the base that gives it, which is a leaf's
// in a fair view; and for Random a number that is uniform over its available chunks.
func (b *base) chooseNext(v *View, rnd *rand.Rand) (from *base, s *Submission, draw uint32) {
	if b.Rules.Halted() {
		return nil, nil, 0
	}
	if b.fair != nil {
		return b.fair.choose(v, rnd)
	}
	if b.fewest != nil {
		s, draw = b.fewest.choose(v.most, rnd)
	} else {
		s, draw = b.choose(0, v.most, rnd)
	}
	return b, s, draw
}

// takeFrom takes the next chunk of the submission that the base chose.
func (b *Backlog) takeFrom(on *base, s *Submission, draw uint32, rnd *rand.Rand) (index uint32) {
	index = b.next(s, on.order == strategy.Random, draw, rnd)
	b.taken(s, true)
	if b.Values.Rates.count > 0 {
		b.Values.paced(s, &b.trail)
	}
	return index
}

// choose is the next submission of a group for a view whose number is `most`, and for
// Random a number that is uniform over its available chunks.
func (b *base) choose(group, most uint32, rnd *rand.Rand) (s *Submission, draw uint32) {
	if b.cells != nil {
		return b.cells.choose(group, rnd)
	}
	if b.order == strategy.Random {
		return b.sample(group, most, rnd)
	}
	return b.head(group, most), 0
}

// head is the first submission of an ordered group that no limit holds back.
func (b *base) head(group, most uint32) *Submission {
	for b.groups[group].offered > 0 && !b.meter.tired() {
		in := &b.groups[group]
		number := in.first
		switch {
		case b.bands.on:
			if number = b.bands.first(in, most); number == none {
				return nil
			}
		case in.top != nil:
			number = in.top.heap[0]
		}
		x := b.gates[number].entries[0]
		s := b.subs.list[x.of]
		b.meter.examined++
		if b.heldBack(s, x.at, most) {
			continue
		}
		return s
	}
	return nil
}

// sample draws a submission with a probability proportional to its available chunks. It also returns the
// rest of the random number, which is uniform over these chunks.
func (b *base) sample(group, most uint32, rnd *rand.Rand) (*Submission, uint32) {
	for b.groups[group].offered > 0 && !b.meter.tired() {
		g, number := b.sampleGate(&b.groups[group], most, rnd)
		if g == nil {
			return nil, 0
		}
		if number >= g.total {
			b.redrawn()
			continue
		}
		x, draw := g.find(number)
		s := b.subs.list[x.of]
		b.meter.examined++
		if draw >= uint64(s.available) {
			b.redrawn()
			continue
		}
		if b.heldBack(s, x.at, most) {
			continue
		}
		return s, uint32(draw)
	}
	return nil, 0
}

// sampleGate draws a gate of a group that offers some, and a number that is uniform over the gate's
// total if it is below it. The gate is nil if none is open to a view whose number is `most`.
func (b *base) sampleGate(in *group, most uint32, rnd *rand.Rand) (g *gate, number uint64) {
	if b.bands.on {
		return b.bands.draw(in, most, rnd)
	}
	sole := in.first
	if in.top != nil {
		if in.top.count() > 1 || len(in.top.entries) > 1 {
			x, number := in.top.find(rnd.Uint64N(in.top.total))
			return &b.gates[x.of], number
		}
		sole = in.top.entries[0].of
	}
	g = &b.gates[sole]
	return g, rnd.Uint64N(g.total)
}

// heldBack moves a submission that stands in an open gate, but is under an operator's limit that is
// reached, into the shut gate of that limit. There no pick meets it again until the gate opens.
func (b *base) heldBack(s *Submission, at, most uint32) bool {
	if b.Values.limited == 0 && !b.strays {
		return false
	}
	t := b.obstacle(s, most)
	if t.term == nil {
		return false
	}
	group := b.gates[s.members[at].gate].group
	b.take(s, at)
	b.put(s, at, b.gateFor(group, t))
	b.limited()
	return true
}

// taken counts one available chunk less, and one more in flight or not.
func (b *Backlog) taken(s *Submission, flight bool) {
	b.Recount.Changing(s)
	shown := s.Shown()
	if shown && s.available == 1 && s.offered() {
		b.bases.unoffer(s)
	}
	s.available--
	if shown {
		b.subs.available--
		b.Rules.cover(s, -1)
		b.bases.reweigh(s, uint64(s.available)+1)
	}
	if flight {
		s.inFlight++
		b.subs.flying++
		for _, t := range b.Values.lacked {
			if s.termOf(t.key) != nil {
				b.Values.taken(t)
			}
		}
	}
	for _, ref := range s.refs() {
		t := b.Values.list[ref.term]
		if shown {
			t.available--
		}
		if flight {
			b.Values.taken(t)
		}
	}
}

// given is the inverse of taken for a chunk that is not in flight any more.
func (b *Backlog) given(s *Submission) {
	b.Recount.Changing(s)
	s.available++
	if !s.Shown() {
		return
	}
	b.subs.available++
	b.Rules.cover(s, 1)
	for _, ref := range s.refs() {
		b.Values.list[ref.term].available++
	}
	switch {
	case s.available > 1:
		b.bases.reweigh(s, uint64(s.available)-1)
	case s.offered():
		b.bases.offer(s)
	}
}

// TakeChunk takes this very chunk and counts it in flight, whatever the limits. It refuses
// when the chunk is not available, or when no cursor visited it and the skip set is full.
func (b *Backlog) TakeChunk(s *Submission, index uint32) bool { return b.take(s, index, true) }

// Retake is TakeChunk before ShrinkSkips, for a chunk that was in flight when the submission was
// restored. It ignores the bound of the skip set, as cursors had visited these chunks before.
func (b *Backlog) Retake(s *Submission, index uint32) bool { return b.take(s, index, false) }

func (b *Backlog) take(s *Submission, index uint32, bounded bool) bool {
	if b.exceptions.pluck(s, index, bounded) != Taken {
		return false
	}
	b.taken(s, true)
	return true
}

// Withdraw takes a chunk without its ever being in flight: a late completion, or one that
// is replayed. With bounded, the skip set is kept to MaxSkip.
func (b *Backlog) Withdraw(s *Submission, index uint32, bounded bool) Withdrawn {
	result := b.exceptions.pluck(s, index, bounded)
	if result == Taken {
		b.taken(s, false)
	}
	return result
}

// Land counts one chunk of the submission as no longer in flight; the chunk stays taken. Gates may open.
func (b *Backlog) Land(s *Submission) {
	if s.home == nil {
		return
	}
	if s.inFlight == 0 {
		panic(fmt.Sprintf("backlog: submission %v: a chunk lands, but none is in flight", s.id))
	}
	b.Recount.Changing(s)
	s.inFlight--
	b.landed(s, 1)
	for _, ref := range s.refs() {
		b.Values.landed(b.Values.list[ref.term], 1)
	}
}

// landed counts chunks as no longer in flight in the submission's own number and in its values.
func (b *Backlog) landed(s *Submission, chunks uint32) {
	b.subs.flying -= uint64(chunks)
	for _, t := range b.Values.lacked {
		if s.termOf(t.key) != nil {
			b.Values.landed(t, chunks)
		}
	}
}

// PutBack makes a taken chunk available again. A chunk that is in flight must Land too;
// the order of the two is free.
func (b *Backlog) PutBack(s *Submission, index uint32) {
	if s.home == nil {
		return
	}
	b.exceptions.giveBack(s, index)
	b.given(s)
}
