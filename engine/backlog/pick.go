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
	f, before := v.frame, b.meter.examined
	from, s, draw := f.chooseNext(v, rnd)
	b.meter.work[f.kind()].Examined += b.meter.examined - before
	if s == nil {
		return nil, 0, false
	}
	return s, b.takeFrom(from, s, draw, rnd), true
}

// chooseNext is the submission whose turn it is in the view; the frame that gives it, which is a leaf's
// in a fair view; and for Random a number that is uniform over its available chunks.
func (f *frame) chooseNext(v *View, rnd *rand.Rand) (from *frame, s *Submission, draw uint32) {
	if f.Rules.Halted() {
		return nil, nil, 0
	}
	if f.fair != nil {
		return f.fair.choose(v, rnd)
	}
	if f.fewest != nil {
		s, draw = f.fewest.choose(v.most, rnd)
	} else {
		s, draw = f.choose(0, v.most, rnd)
	}
	return f, s, draw
}

// takeFrom takes the next chunk of the submission that the frame chose.
func (b *Backlog) takeFrom(f *frame, s *Submission, draw uint32, rnd *rand.Rand) (index uint32) {
	index = b.next(s, f.order == strategy.Random, draw, rnd)
	b.taken(s, true)
	if b.Values.Rates.count > 0 {
		b.Values.paced(s, &b.trail)
	}
	return index
}

// choose is the next submission of a group for a view whose number is `most`, and for
// Random a number that is uniform over its available chunks.
func (f *frame) choose(group, most uint32, rnd *rand.Rand) (s *Submission, draw uint32) {
	if f.cells != nil {
		return f.cells.choose(group, rnd)
	}
	if f.order == strategy.Random {
		return f.sample(group, most, rnd)
	}
	return f.head(group, most), 0
}

// head is the first submission of an ordered group that no limit holds back.
func (f *frame) head(group, most uint32) *Submission {
	for f.groups[group].offered > 0 && !f.meter.tired() {
		in := &f.groups[group]
		number := in.first
		switch {
		case f.bands.on:
			if number = f.bands.first(in, most); number == none {
				return nil
			}
		case in.top != nil:
			number = in.top.heap[0]
		}
		x := f.gates[number].entries[0]
		s := f.subs.list[x.of]
		f.meter.examined++
		if f.heldBack(s, x.at, most) {
			continue
		}
		return s
	}
	return nil
}

// sample draws a submission with a probability proportional to its available chunks. It also returns the
// rest of the random number, which is uniform over these chunks.
func (f *frame) sample(group, most uint32, rnd *rand.Rand) (*Submission, uint32) {
	for f.groups[group].offered > 0 && !f.meter.tired() {
		g, number := f.sampleGate(&f.groups[group], most, rnd)
		if g == nil {
			return nil, 0
		}
		if number >= g.total {
			f.redrawn()
			continue
		}
		x, draw := g.find(number)
		s := f.subs.list[x.of]
		f.meter.examined++
		if draw >= uint64(s.available) {
			f.redrawn()
			continue
		}
		if f.heldBack(s, x.at, most) {
			continue
		}
		return s, uint32(draw)
	}
	return nil, 0
}

// sampleGate draws a gate of a group that offers some, and a number that is uniform over the gate's
// total if it is below it. The gate is nil if none is open to a view whose number is `most`.
func (f *frame) sampleGate(in *group, most uint32, rnd *rand.Rand) (g *gate, number uint64) {
	if f.bands.on {
		return f.bands.draw(in, most, rnd)
	}
	sole := in.first
	if in.top != nil {
		if in.top.count() > 1 || len(in.top.entries) > 1 {
			x, number := in.top.find(rnd.Uint64N(in.top.total))
			return &f.gates[x.of], number
		}
		sole = in.top.entries[0].of
	}
	g = &f.gates[sole]
	return g, rnd.Uint64N(g.total)
}

// heldBack moves a submission that stands in an open gate, but is under an operator's limit that is
// reached, into the shut gate of that limit. There no pick meets it again until the gate opens.
func (f *frame) heldBack(s *Submission, at, most uint32) bool {
	if f.Values.limited == 0 && !f.strays {
		return false
	}
	t := f.obstacle(s, most)
	if t.term == nil {
		return false
	}
	group := f.gates[s.members[at].gate].group
	f.take(s, at)
	f.put(s, at, f.gateFor(group, t))
	f.limited()
	return true
}

// taken counts one available chunk less, and one more in flight or not.
func (b *Backlog) taken(s *Submission, flight bool) {
	b.Recount.Changing(s)
	shown := s.Shown()
	if shown && s.available == 1 && s.offered() {
		b.frames.unoffer(s)
	}
	s.available--
	if shown {
		b.subs.available--
		b.Rules.cover(s, -1)
		b.frames.reweigh(s, uint64(s.available)+1)
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
		b.frames.reweigh(s, uint64(s.available)-1)
	case s.offered():
		b.frames.offer(s)
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
