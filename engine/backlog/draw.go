package backlog

import (
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// few is up to how many combinations are looked up as soon as a drawn cell is blocked. It is not moved then: that costs more
// than to look them up, and a tenant's cells are best left where no other tenant's chunks open the gate.
const few = 12

// chooseCell is choose for a view of cells. It draws, and moves each drawn cell that is blocked; if that goes on for longer
// than it would take to look up every combination of open values, it does this. So a pick costs at most a small multiple of
// the cheaper of the two: where many limits leave much open nearly every draw is good, and where they leave little there are
// few combinations.
func (f *frame) chooseCell(group uint32, rnd *rand.Rand) (*Submission, uint32) {
	met, searches := uint64(0), true
	for f.groups[group].offered > 0 && !f.in.Tired() {
		number, draw, drawn := f.drawCell(group, rnd)
		if !drawn {
			f.redrawn()
			continue
		}
		obstacle := f.obstacleOf(number)
		if obstacle == none {
			if s, draw, is := f.pickFrom(number, draw); is == chosen {
				return s, draw
			}
			continue
		}
		met++
		if searches {
			if count := f.combinations(number); count <= few || count <= 3*met {
				found := f.search(number)
				if searches = len(found) > 0; searches {
					if s, draw, is := f.pickAmong(found, rnd); is == chosen {
						return s, draw
					}
					continue
				}
			}
		}
		f.limited()
		f.evade(number, obstacle) // if nothing was found all of them, so that no pick comes here again
	}
	return nil, 0
}

// drawCell draws a cell of a group that offers some by its weight, and a number that is uniform over the bounds in it; of
// an ordered group it takes the first.
func (f *frame) drawCell(group uint32, rnd *rand.Rand) (cell uint32, number uint64, ok bool) {
	if f.order != strategy.Random {
		in := &f.groups[group]
		gate := in.first
		if in.top != nil {
			gate = in.top.heap[0]
		}
		f.in.examined++
		return f.gates[gate].entries[0].of, 0, true
	}
	g, number := f.sampleGate(&f.groups[group], queue.NoLimit, rnd)
	if number >= g.total {
		return 0, 0, false
	}
	x, number := g.find(number)
	f.in.examined++
	return x.of, number, number < f.cells.list[x.of].total
}

// verdict is what became of a submission on which a number fell.
type verdict uint8

const (
	rejected verdict = iota // the number is beyond what is available there
	moved                   // a limit of an operator's holds it back: it stands elsewhere now
	chosen
)

// pickFrom is the submission of a cell on which a number falls, and what is left of it; of an ordered cell the first.
func (f *frame) pickFrom(cell uint32, number uint64) (s *Submission, draw uint32, is verdict) {
	var x entry
	if c := &f.cells.list[cell]; f.order == strategy.Random {
		x, number = c.find(number)
	} else {
		x = c.entries[0]
	}
	s = f.in.subs[x.of]
	f.in.examined++
	if number >= uint64(s.available) {
		f.redrawn()
		return nil, 0, rejected
	}
	if t := f.in.overrun(s); t != nil {
		f.extend(s, x.at, t)
		f.limited()
		return nil, 0, moved
	}
	return s, uint32(number), chosen
}

// pickAmong is the next submission of these cells.
func (f *frame) pickAmong(found []uint32, rnd *rand.Rand) (s *Submission, draw uint32, is verdict) {
	if f.order != strategy.Random {
		first := found[0]
		for _, x := range found[1:] {
			if f.before(f.headOf(x), f.headOf(first)) {
				first = x
			}
		}
		return f.pickFrom(first, 0)
	}
	total := uint64(0)
	for _, x := range found {
		total += f.cells.list[x].total
	}
	for is == rejected {
		number, at := rnd.Uint64N(total), 0
		for number >= f.cells.list[found[at]].total {
			number -= f.cells.list[found[at]].total
			at++
		}
		s, draw, is = f.pickFrom(found[at], number)
	}
	return s, draw, is
}
