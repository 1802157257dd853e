package backlog

import (
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// few is the number of combinations up to which they are looked up as soon as a drawn cell is blocked. The cell
// is not moved then: that costs more than the look-ups, and a tenant's cells are best left where no other
// tenant's chunks open the gate.
const few = 12

// choose is base.choose for a view of cells. It draws, and moves each drawn cell that is blocked; if that goes
// on for longer than it would take to look up every combination of open values, it looks them up. So a pick
// costs at most a small multiple of the cheaper of the two: where many limits leave much open nearly every draw
// is good, and where they leave little there are few combinations.
func (c *cells) choose(group uint32, rnd *rand.Rand) (*Submission, uint32) {
	b := c.of
	// where values are ranked by their first submissions, every cell that is blocked has to move out of the way
	// and a single draw must not give more to the cells that are open
	met, searches := uint64(0), b.fewest == nil && !b.meter.once
	for b.groups[group].offered > 0 && !b.meter.tired() {
		number, draw, drawn := c.draw(group, rnd)
		if !drawn {
			b.redrawn()
			continue
		}
		obstacle := c.obstacleOf(number)
		if obstacle == none {
			if s, draw, is := c.pickFrom(number, draw); is == chosen {
				return s, draw
			}
			continue
		}
		met++
		if searches {
			if count := c.combinations(number); count <= few || count <= 3*met {
				found := c.search(number)
				if searches = len(found) > 0; searches {
					if s, draw, is := c.pickAmong(found, rnd); is == chosen {
						return s, draw
					}
					continue
				}
			}
		}
		b.limited()
		c.evade(number, obstacle) // if nothing was found all of them, so that no pick comes here again
	}
	return nil, 0
}

// draw draws a cell of a group that offers some by its weight, and a number that is
// uniform over the bounds in it; of an ordered group it takes the first.
func (c *cells) draw(group uint32, rnd *rand.Rand) (cell uint32, number uint64, ok bool) {
	b := c.of
	if b.order != strategy.Random {
		in := &b.groups[group]
		gate := in.first
		if in.top != nil {
			gate = in.top.heap[0]
		}
		b.meter.examined++
		return b.gates[gate].entries[0].of, 0, true
	}
	g, number := b.sampleGate(&b.groups[group], queue.NoLimit, rnd)
	if number >= g.total {
		return 0, 0, false
	}
	x, number := g.find(number)
	b.meter.examined++
	return x.of, number, number < c.list[x.of].total
}

// verdict is the result for a drawn submission.
type verdict uint8

const (
	rejected verdict = iota // the number is beyond the available chunks of the submission
	moved                   // a limit of an operator's holds it back: it stands elsewhere now
	chosen
)

// pickFrom is the submission of a cell on which the number falls, and the rest of the number; of an ordered
// cell it is the first submission.
func (c *cells) pickFrom(cell uint32, number uint64) (s *Submission, draw uint32, is verdict) {
	var x entry
	b := c.of
	if in := &c.list[cell]; b.order == strategy.Random {
		x, number = in.find(number)
	} else {
		x = in.entries[0]
	}
	s = c.of.subs.list[x.of]
	c.of.meter.examined++
	if number >= uint64(s.available) {
		c.of.redrawn()
		return nil, 0, rejected
	}
	if t := c.of.Values.overrun(s); t != nil {
		c.extend(s, x.at, t)
		c.of.limited()
		return nil, 0, moved
	}
	return s, uint32(number), chosen
}

// pickAmong returns the next submission of these cells.
func (c *cells) pickAmong(found []uint32, rnd *rand.Rand) (s *Submission, draw uint32, is verdict) {
	if c.of.order != strategy.Random {
		first := found[0]
		for _, x := range found[1:] {
			if before(c.of.order, c.headOf(x), c.headOf(first)) {
				first = x
			}
		}
		return c.pickFrom(first, 0)
	}
	total := uint64(0)
	for _, x := range found {
		total += c.list[x].total
	}
	for is == rejected {
		number, at := rnd.Uint64N(total), 0
		for number >= c.list[found[at]].total {
			number -= c.list[found[at]].total
			at++
		}
		s, draw, is = c.pickFrom(found[at], number)
	}
	return s, draw, is
}
