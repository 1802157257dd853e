package backlog

import (
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/strategy"
)

// few is up to how many combinations are looked up as soon as a cell is met in vain. It is not moved then: that costs more
// than to look them up, and a tenant's cells are best left where no other tenant's chunks open the gate.
const few = 12

// chooseCell is choose for a view of cells. It draws, and moves each cell that it meets in vain; if that goes on for longer
// than it would take to look up every combination of open values, it does this. So a pick costs at most a small multiple of
// the cheaper of the two: where many limits leave much open nearly every draw is good, and where they leave little there are
// few combinations.
func (v *View) chooseCell(group uint32, rnd *rand.Rand) (*Submission, uint32) {
	met, searches := uint64(0), true
	for v.groups[group].offered > 0 && !v.in.Tired() {
		number, draw, drawn := v.drawCell(group, rnd)
		if !drawn {
			v.redrawn()
			continue
		}
		obstacle := v.obstacleOf(number)
		if obstacle == none {
			if s, draw, is := v.pickFrom(number, draw); is == chosen {
				return s, draw
			}
			continue
		}
		met++
		if searches {
			if count := v.combinations(number); count <= few || count <= 3*met {
				found := v.search(number)
				if searches = len(found) > 0; searches {
					if s, draw, is := v.pickAmong(found, rnd); is == chosen {
						return s, draw
					}
					continue
				}
			}
		}
		v.limited()
		v.evade(number, obstacle) // if nothing was found all of them, so that nobody comes here again
	}
	return nil, 0
}

// drawCell draws a cell of a group that offers some by its weight, and a number that is uniform over the bounds in it; of
// an ordered group it takes the first.
func (v *View) drawCell(group uint32, rnd *rand.Rand) (cell uint32, number uint64, ok bool) {
	if v.order != strategy.Random {
		in := &v.groups[group]
		gate := in.first
		if in.top != nil {
			gate = in.top.heap[0]
		}
		v.in.examined++
		return v.gates[gate].entries[0].of, 0, true
	}
	g, number := v.sampleGate(&v.groups[group], rnd)
	if number >= g.total {
		return 0, 0, false
	}
	x, number := g.find(number)
	v.in.examined++
	return x.of, number, number < v.cells.list[x.of].total
}

// verdict is what became of a submission on which a number fell.
type verdict uint8

const (
	rejected verdict = iota // the number is beyond what is available there
	moved                   // a limit of an operator's holds it back: it stands elsewhere now
	chosen
)

// pickFrom is the submission of a cell on which a number falls, and what is left of it; of an ordered cell the first.
func (v *View) pickFrom(cell uint32, number uint64) (s *Submission, draw uint32, is verdict) {
	var x entry
	if c := &v.cells.list[cell]; v.order == strategy.Random {
		x, number = c.find(number)
	} else {
		x = c.entries[0]
	}
	s = v.in.subs[x.of]
	v.in.examined++
	if number >= uint64(s.available) {
		v.redrawn()
		return nil, 0, rejected
	}
	if t := v.in.overrun(s); t != nil {
		v.extend(s, x.at, t)
		v.limited()
		return nil, 0, moved
	}
	return s, uint32(number), chosen
}

// pickAmong is the next submission of these cells.
func (v *View) pickAmong(found []uint32, rnd *rand.Rand) (s *Submission, draw uint32, is verdict) {
	if v.order != strategy.Random {
		first := found[0]
		for _, x := range found[1:] {
			if v.before(v.headOf(x), v.headOf(first)) {
				first = x
			}
		}
		return v.pickFrom(first, 0)
	}
	total := uint64(0)
	for _, x := range found {
		total += v.cells.list[x].total
	}
	for is == rejected {
		number, at := rnd.Uint64N(total), 0
		for number >= v.cells.list[found[at]].total {
			number -= v.cells.list[found[at]].total
			at++
		}
		s, draw, is = v.pickFrom(found[at], number)
	}
	return s, draw, is
}
