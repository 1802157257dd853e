package backlog

import (
	"fmt"
	"math/rand/v2"
)

// Bounds of the exceptions, which are the only state that grows with use.
const (
	// MaxSkip is how many chunks of one submission may be taken ahead of its cursors.
	MaxSkip = 4096
	// MaxPutBack is up to how many put-back chunks of one submission Random draws evenly from all available chunks. Beyond
	// it, put-back chunks are handed out first, so that consumers that take and drop cannot grow the set without end.
	MaxPutBack = 4096
	// MaxPutBackAll is the same for all submissions of the backlog together.
	MaxPutBackAll = 1_000_000
)

// at is the chunk at a position of the permutation. The product is at most (2^32-2)^2 + 2^32, so nothing overflows.
func (s *Submission) at(p uint32) uint32 {
	return uint32((uint64(p)*uint64(s.mul) + uint64(s.add)) % uint64(s.chunks))
}

// positionOf is the inverse of at.
func (s *Submission) positionOf(index uint32) uint32 {
	n := uint64(s.chunks)
	distance := (uint64(index) + n - uint64(s.add)) % n
	return uint32(distance * uint64(s.inv) % n)
}

// visited says whether a cursor has passed the chunk.
func (s *Submission) visited(index uint32) bool {
	return index < s.l || s.p > 0 && s.positionOf(index) < s.p
}

// IsAvailable says whether the chunk could be taken now: it is put back, or no cursor visited it and it was not withdrawn.
func (s *Submission) IsAvailable(index uint32) bool {
	if s.home == nil || index >= s.chunks {
		return false
	}
	if s.visited(index) {
		return s.back.find(index) >= 0
	}
	return !s.ahead.has(index)
}

// next removes the next chunk in the given order from the available ones. There must be one. Under Random, draw is uniform
// over 0..available-1: one number decides both between put-back and unvisited, and which of the put-back.
func (b *Backlog) next(s *Submission, random bool, draw uint32, rnd *rand.Rand) uint32 {
	if count := s.putBack; count > 0 {
		many := count > MaxPutBack || b.putBack > MaxPutBackAll
		switch {
		case !random:
			return b.takeBack(s, 0)
		case many:
			return b.takeBack(s, int(rnd.Uint32N(count)))
		case draw < count:
			return b.takeBack(s, int(draw))
		}
	}
	for {
		index, ok := s.advance(random)
		if !ok {
			panic(fmt.Sprintf("backlog: submission %v: %d chunks should be available, but the cursors stand at %d and %d of %d", s.id, s.available, s.p, s.l, s.chunks))
		}
		if !s.skip(index) {
			return index
		}
		if b.preview.running {
			b.preview.skipped = append(b.preview.skipped, index)
		}
	}
}

// advance moves a cursor to the next chunk that the other one has not visited, and past it. It jumps: however much the
// other cursor has visited, the cost is O(log chunks). (To walk, and to list the remainder once it is small, would leave
// picks of 10^4 steps in submissions that both cursors have nearly emptied.)
func (s *Submission) advance(random bool) (index uint32, ok bool) {
	n := uint64(s.chunks)
	if s.p == s.chunks || s.l == s.chunks {
		return 0, false
	}
	if random {
		p := uint64(s.p)
		if index = s.upcoming - 1; s.upcoming == 0 {
			index = s.at(s.p)
		}
		if index < s.l {
			p += firstHit(uint64(s.mul), n, uint64(s.l-index), n-1-uint64(index))
			if p >= n {
				return 0, false
			}
			index = s.at(uint32(p))
		}
		s.p = uint32(p + 1)
		s.foresee(uint64(index) + uint64(s.mul))
		return index, true
	}
	l := uint64(s.l)
	if s.p > 0 {
		if position := s.positionOf(s.l); position < s.p {
			l += firstHit(uint64(s.inv), n, uint64(s.p-position), n-1-uint64(position))
			if l >= n {
				return 0, false
			}
		}
	}
	s.l = uint32(l + 1)
	return uint32(l), true
}

// foresee notes the chunk at the cursor p: the one before it plus mul, modulo chunks.
func (s *Submission) foresee(sum uint64) {
	if n := uint64(s.chunks); sum >= n {
		sum -= n
	}
	s.upcoming = uint32(sum) + 1
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
func (b *Backlog) takeBack(s *Submission, place int) uint32 {
	index := s.back.takeAt(place)
	b.putBack--
	s.putBack--
	if len(s.back.heap) == 0 {
		if len(b.emptyPiles) < maxEmptyPiles && cap(s.back.heap) <= keepCap {
			b.emptyPiles = append(b.emptyPiles, s.back)
		}
		s.back = nil
	}
	return index
}

func (b *Backlog) addBack(s *Submission, index uint32) {
	if s.back == nil {
		if last := len(b.emptyPiles) - 1; last >= 0 {
			s.back, b.emptyPiles = b.emptyPiles[last], b.emptyPiles[:last]
		} else {
			s.back = &pile{}
		}
	}
	s.back.add(index)
	b.putBack++
	s.putBack++
}

// maxEmptyPiles is how many empty piles are kept for the next submission that needs one, so that a chunk that goes to and
// fro allocates nothing.
const maxEmptyPiles = 1024

// Withdrawn is the result of Withdraw.
type Withdrawn uint8

// The results: the chunk was available and is taken now; it was not available; or it was, but the skip set is full and
// nothing changed.
const (
	Taken Withdrawn = iota
	WasTaken
	Full
)

// pluck removes this very chunk from the available ones, without telling anybody.
func (b *Backlog) pluck(s *Submission, index uint32, bounded bool) Withdrawn {
	if s.home == nil || index >= s.chunks {
		return WasTaken
	}
	if index < s.l {
		return b.pluckBack(s, index)
	}
	position := s.positionOf(index)
	switch {
	case position < s.p:
		return b.pluckBack(s, index)
	case s.ahead.has(index):
		return WasTaken
	case index == s.l: // the next in either order: no exception is needed
		s.l++
	case position == s.p:
		s.p++
		s.foresee(uint64(index) + uint64(s.mul))
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

func (b *Backlog) pluckBack(s *Submission, index uint32) Withdrawn {
	place := s.back.find(index)
	if place < 0 {
		return WasTaken
	}
	b.takeBack(s, place)
	return Taken
}

// giveBack is the inverse of pluck for a taken chunk.
func (b *Backlog) giveBack(s *Submission, index uint32) {
	if s.skip(index) {
		return
	}
	if index >= s.chunks || s.IsAvailable(index) {
		panic(fmt.Sprintf("backlog: submission %v: chunk %d of %d is put back but was not taken", s.id, index, s.chunks))
	}
	b.addBack(s, index)
}
