package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// cell is the submissions of a group that the same counters hold back: in a view of two or
// more limits they stand in cells, and the cells in gates. A cell whose gate is open may
// be under another limit that is reached; then a pick moves all of it at once. Cells can also be
// found by their row (grid.go).
//
// The limits that a cell is under are its row. It has the submissions' value for each limit of
// the view, then an extra value of a key that only an operator limits; none where there is none.
// A submission gets the extra only when a pick meets it while that value has its maximum in
// flight. If it has several such values, the others are in grid.further.
type cell struct {
	pool
	group uint32
	gate  uint32 // none: it is new
	place uint32 // in the gate
	next  uint32 // the next cell whose row has the same hash

	gateExp uint8 // by which it stands there, under Random
}

// cells are where the submissions of a base of two or more limits stand: in the cells of
// its grid, which stand in its gates.
//
// Three levels hold a submission of such a view: its cell, the gate that the cell stands in, and
// the top that the gate stands in if it is open. A change of a submission may change the first of
// its cell, that the first of its gate, and that the place of the gate in the top: reseat and
// refresh go up this way.
type cells struct {
	of *base
	grid
}

// newCells begins when the base has its limits, in whichever order.
func newCells(b *base) *cells {
	return &cells{b, grid{
		base: b.number, limits: b.limits, meter: &b.meter, dims: make([]dimension, len(b.limits)+1),
		row: make([]uint32, len(b.limits)+1), first: map[uint64]uint32{}, valueOf: map[tally]uint32{},
	}}
}

// enter puts a submission that joins the view into its cell.
func (c *cells) enter(s *Submission, at, group uint32) {
	b := c.of
	c.row = c.row[:len(c.dims)]
	for i, l := range b.limits {
		c.row[i] = none
		if t := s.termOf(l.key); t != nil {
			c.row[i] = c.valueFor(tally{t, l.of}, uint32(i), l.max)
		}
	}
	extra := len(b.limits)
	c.row[extra] = none
	if t := (tally{b.Values.overrun(s), strategy.Simultaneous}); t.term != nil && b.limits.on(t) == queue.NoLimit {
		c.row[extra] = c.valueFor(t, uint32(extra), queue.NoLimit)
	}
	b.put(s, at, c.cellFor(group))
}

// extend moves a submission that an operator's limit of another key holds back to the cell
// that is under that, too.
func (c *cells) extend(s *Submission, at uint32, t *term) {
	b := c.of
	number := s.members[at].gate
	group := c.list[number].group
	c.row = append(append(c.row[:0], c.rowOf(number)...), c.further[number]...)
	extra := c.valueFor(tally{t, strategy.Simultaneous}, uint32(len(b.limits)), queue.NoLimit)
	if c.row[len(b.limits)] == none {
		c.row[len(b.limits)] = extra
	} else {
		c.row = append(c.row, extra)
	}
	b.take(s, at)
	b.put(s, at, c.cellFor(group))
}

// reseat moves a cell whose content changed to its new place: into its gate, elsewhere in
// the gate, or out of it.
func (c *cells) reseat(number uint32) {
	b := c.of
	x := &c.list[number]
	gate := x.gate
	switch {
	case gate == none:
		c.seat(number, c.homeOf(number))
		return
	case x.empty():
		c.unseat(number)
		c.drop(number)
		return
	case b.order == strategy.Random:
		exp := exponent(x.total)
		if exp == x.gateExp {
			return
		}
		c.lift(number)
		x.gateExp = exp
		x.place = b.gates[gate].add(exp, entry{of: number})
	default:
		heapFix(byHead{c}, b.gates[gate].entries, int(x.place))
	}
	b.refresh(gate)
}

// seat enters a cell into a gate.
func (c *cells) seat(number, gate uint32) {
	x, g := &c.list[number], &c.of.gates[gate]
	x.gate = gate
	if c.of.order == strategy.Random {
		x.gateExp = exponent(x.total)
		x.place = g.add(x.gateExp, entry{of: number})
	} else {
		g.entries = heapPush(byHead{c}, g.entries, entry{of: number})
	}
	c.of.refresh(gate)
}

// unseat is the inverse of seat.
func (c *cells) unseat(number uint32) {
	gate := c.list[number].gate
	c.lift(number)
	c.of.refresh(gate)
}

// lift is unseat without a look at the top.
func (c *cells) lift(number uint32) {
	x := &c.list[number]
	g := &c.of.gates[x.gate]
	if c.of.order != strategy.Random {
		g.entries = trimmed(heapRemove(byHead{c}, g.entries, int(x.place)))
		return
	}
	c.of.trail.noteRemoval(spot{base: c.of, kind: ofCells, in: x.gate, exp: x.gateExp, place: x.place}, &g.sampler)
	if moved, ok := g.remove(x.gateExp, x.place); ok {
		c.list[moved.of].place = x.place
	}
}

// homeOf is the gate for a cell: one that is shut, so that no pick examines it for
// nothing; otherwise that of its scarcest value.
func (c *cells) homeOf(number uint32) (gate uint32) {
	group, x := c.list[number].group, c.obstacleOf(number)
	if x == none {
		for i, y := range c.rowOf(number) {
			if y != none && (x == none || c.room(i) < c.room(int(c.values[x].dim))) {
				x = y
			}
		}
	}
	if x == none {
		return c.of.freeGate(group)
	}
	return c.of.gateFor(group, c.values[x].tally())
}

// evade moves a cell that stands in an open gate, but is under another limit that is reached,
// to the shut gate of that value. There no pick meets it again until the gate opens.
func (c *cells) evade(number, obstacle uint32) {
	c.unseat(number)
	c.seat(number, c.of.gateFor(c.list[number].group, c.values[obstacle].tally()))
}

// byHead ranks the cells of a gate by their first submissions.
type byHead struct{ c *cells }

func (b byHead) before(a, y entry) bool {
	return before(b.c.of.order, b.c.headOf(a.of), b.c.headOf(y.of))
}

func (b byHead) moved(x entry, to int) { b.c.list[x.of].place = uint32(to) }

// headOf is the first submission of a cell that is not empty.
func (c *cells) headOf(number uint32) *Submission {
	return c.of.subs.list[c.list[number].entries[0].of]
}
