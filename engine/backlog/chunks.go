package backlog

import (
	"fmt"
	"math/rand/v2"
)

// Bounds of the exceptions, which are the only state that grows with use.
const (
	// MaxSkip is how many chunks of one submission may be taken ahead of its cursors.
	MaxSkip = 4096
	// MaxPutBackAll is the number of put-back chunks in the backlog up to which Random draws
	// evenly from all available chunks of a submission. Beyond it, put-back chunks are handed out
	// first, so that consumers that take and drop chunks cannot grow the sets without end.
	MaxPutBackAll = 1_000_000
)

// A cursor steps over chunks that the other one has visited. Where the other one has visited
// nearly all, that takes many steps. The remaining chunks are then put back (gather), unless that
// too would take too many steps. So a pick in a submission that both orders have nearly emptied
// costs hundreds of steps. The most, chunks/maxGather, occurs where one order has left only a
// hundred-thousandth of 4*10^9 chunks to the other.
const (
	longWalk  = 64
	maxGather = 1 << 16
)

// exceptions take chunks and give them back where the cursors are not enough, and count the
// put-back chunks of all submissions.
type exceptions struct {
	putBack    int // chunks in all piles
	emptyPiles []*pile
}

// at is the chunk at a position of the permutation.
func (s *Submission) at(p uint32) uint32 {
	if s.chunks <= maxTable {
		return uint32(s.key>>(4*p)) & 15
	}
	return encipher(s.key, s.chunks, p)
}

// positionOf is the inverse of at.
func (s *Submission) positionOf(index uint32) uint32 {
	if s.chunks <= maxTable {
		return place(s.key, s.chunks, index)
	}
	return decipher(s.key, s.chunks, index)
}

// visited says whether a cursor has passed the chunk.
func (s *Submission) visited(index uint32) bool {
	return index < s.l || s.p > 0 && s.positionOf(index) < s.p
}

// IsAvailable says whether the chunk could be taken now: it is put back, or no cursor
// visited it and it was not withdrawn.
func (s *Submission) IsAvailable(index uint32) bool {
	if s.home == nil || index >= s.chunks {
		return false
	}
	if s.visited(index) {
		return s.back.find(index) >= 0
	}
	return !s.ahead.has(index)
}

// next removes the next chunk in the given order from the available ones. There must be
// one. Under Random, draw is uniform over 0..available-1: one number decides both between
// put-back and unvisited, and which of the put-back.
func (b *Backlog) next(s *Submission, random bool, draw uint32, rnd *rand.Rand) uint32 {
	if count := s.putBack; count > 0 {
		switch {
		case !random:
			return b.exceptions.takeBack(s, 0)
		case b.exceptions.putBack > MaxPutBackAll:
			return b.exceptions.takeBack(s, int(rnd.Uint32N(count)))
		case draw < count:
			return b.exceptions.takeBack(s, int(draw))
		}
	}
	if random && b.trail.draws != nil {
		if index, found := b.drawn(s); found {
			return index
		}
	}
	for steps := 1; ; steps++ {
		index, fresh := s.step(random)
		switch {
		case !fresh:
		case !s.skip(index):
			return index
		case b.trail.depth > 0:
			b.trail.skipped = append(b.trail.skipped, index)
		}
		if steps != longWalk || b.trail.depth > 0 || s.chunks-max(s.p, s.l) > maxGather {
			continue
		}
		if random {
			return b.exceptions.gather(s, draw-s.putBack)
		}
		b.exceptions.gather(s, none)
		return b.exceptions.takeBack(s, 0)
	}
}

// step moves a cursor past the next chunk, and says whether the other one has not visited it.
func (s *Submission) step(random bool) (index uint32, fresh bool) {
	switch {
	case s.p == s.chunks || s.l == s.chunks:
		panic(fmt.Sprintf("backlog: submission %v: %d chunks should be available, but the cursors "+
			"stand at %d and %d of %d", s.id, s.available, s.p, s.l, s.chunks))
	case random:
		index = s.at(s.p)
		fresh = index >= s.l
		s.p++
	default:
		index = s.l
		fresh = s.p == 0 || s.positionOf(index) >= s.p
		s.l++
	}
	if !fresh {
		s.both++
	}
	return index, fresh
}

// pass moves a cursor to an index. Available chunks that it passes are put back.
func (e *exceptions) pass(s *Submission, random bool, to uint32) {
	cursor := &s.l
	if random {
		cursor = &s.p
	}
	for *cursor < to {
		if index, fresh := s.step(random); fresh && !s.skip(index) {
			e.addBack(s, index)
		}
	}
}

// gather puts back all chunks that no cursor has visited, except the nth of them (from 0), which
// it takes.
func (e *exceptions) gather(s *Submission, nth uint32) (picked uint32) {
	for random := s.p > s.l; s.p < s.chunks && s.l < s.chunks; {
		index, fresh := s.step(random)
		switch {
		case !fresh || s.skip(index):
			continue
		case nth == 0:
			picked = index
		default:
			e.addBack(s, index)
		}
		nth--
	}
	return picked
}

// drawn takes one of the chunks that no cursor visited, any of them equally likely. It
// gives up where both cursors have visited nearly all.
func (b *Backlog) drawn(s *Submission) (index uint32, found bool) {
	for range longWalk {
		if s.p >= s.l {
			index = s.at(s.p + b.trail.draws.Uint32N(s.chunks-s.p))
		} else {
			index = s.l + b.trail.draws.Uint32N(s.chunks-s.l)
		}
		if !s.visited(index) && b.exceptions.pluck(s, index, false) == Taken {
			return index, true
		}
	}
	return 0, false
}

// skip takes a chunk that a cursor just passed out of the skip set, and says whether it was there.
func (s *Submission) skip(index uint32) bool {
	if !s.ahead.delete(index) {
		return false
	}
	if s.ahead.count == 0 {
		s.ahead = nil
	}
	return true
}

// takeBack removes the put-back chunk at a place of the pile; place 0 is the smallest.
func (e *exceptions) takeBack(s *Submission, place int) uint32 {
	index := s.back.takeAt(place)
	e.putBack--
	s.putBack--
	if len(s.back.heap) == 0 {
		if len(e.emptyPiles) < maxEmptyPiles && cap(s.back.heap) <= keepCap {
			e.emptyPiles = append(e.emptyPiles, s.back)
		}
		s.back = nil
	}
	return index
}

func (e *exceptions) addBack(s *Submission, index uint32) {
	if s.back == nil {
		if last := len(e.emptyPiles) - 1; last >= 0 {
			s.back, e.emptyPiles = e.emptyPiles[last], e.emptyPiles[:last]
		} else {
			s.back = &pile{}
		}
	}
	s.back.add(index)
	e.putBack++
	s.putBack++
}

// maxEmptyPiles is how many empty piles are kept for the next submission that needs one,
// so that a chunk that goes to and fro allocates nothing.
const maxEmptyPiles = 1024

// Withdrawn is the result of Withdraw.
type Withdrawn uint8

// The results: the chunk was available and is taken now; it was not available; or it was,
// but the skip set is full and nothing changed.
const (
	Taken Withdrawn = iota
	WasTaken
	Full
)

// pluck removes this very chunk from the available ones, without notifying views.
func (e *exceptions) pluck(s *Submission, index uint32, bounded bool) Withdrawn {
	if s.home == nil || index >= s.chunks {
		return WasTaken
	}
	if index < s.l {
		return e.pluckBack(s, index)
	}
	position := s.positionOf(index)
	switch {
	case position < s.p:
		return e.pluckBack(s, index)
	case s.ahead.has(index):
		return WasTaken
	case index == s.l: // the next in either order: no exception is needed
		s.l++
	case position == s.p:
		s.p++
	case bounded && s.ahead.len() >= MaxSkip:
		return Full
	default:
		if s.ahead == nil {
			s.ahead = newTable(true)
		}
		s.ahead.put(index, 0)
	}
	return Taken
}

func (e *exceptions) pluckBack(s *Submission, index uint32) Withdrawn {
	place := s.back.find(index)
	if place < 0 {
		return WasTaken
	}
	e.takeBack(s, place)
	return Taken
}

// giveBack is the inverse of pluck for a taken chunk.
func (e *exceptions) giveBack(s *Submission, index uint32) {
	if s.skip(index) {
		return
	}
	if index >= s.chunks || s.IsAvailable(index) {
		panic(fmt.Sprintf("backlog: submission %v: chunk %d of %d is put back but was not taken", s.id, index,
			s.chunks))
	}
	e.addBack(s, index)
}
