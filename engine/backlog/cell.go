package backlog

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// cell is the submissions of a group that the same counters hold back: in a view of two or more limits they stand in cells, and
// the cells in gates. A cell whose gate is open may be under another limit that is reached; then a pick moves all of it at
// once. Cells are found by what they are under as well (search.go).
//
// What a cell is under is a row: for each limit of the view the value that the submissions have, then an extra one, of a key
// that the view does not limit but an operator does; none where there is none. A submission gets the extra only when a pick
// meets it while that value has its maximum in flight. If it has several such values, the others are in View.further.
type cell struct {
	pool
	group uint32
	gate  uint32 // none: it is new
	place uint32 // in the gate
	next  uint32 // the next cell whose row has the same hash

	gateExp uint8 // by which it stands there, under Random
}

// value is a term by which cells of the view are told apart, and what its counter may reach.
type value struct {
	term  *term
	base  uint32 // the limit of the view; queue.NoLimit of an extra
	max   uint32 // it is shut from here on
	cells uint32 // that have it
	dim   uint32 // the place in rows
	place uint32 // in its dimension's open; none: it is shut, or no cell has it
}

// dimension is a place in rows.
type dimension struct {
	open    []uint32 // values that are not shut and that cells have
	values  uint32   // all that cells have
	without uint32   // cells that have none
	fixed   bool     // the same in all cells of a group: tenants are told apart by this key
}

// valueRef marks the number of a value in gateRef.gate.
const valueRef = 1 << 31

// cells are where the submissions of a frame of two or more limits stand, found by what they are under.
type cells struct {
	of      *frame
	list    []cell
	free    []uint32
	rows    []uint32            // by cell, each len(dims) long
	further map[uint32][]uint32 // by cell: values of keys that the view does not limit, beyond the row's
	first   map[uint64]uint32   // by hash of the row
	dims    []dimension         // as View.limits, and that of the extras

	values     []value
	freeValues []uint32
	valueOf    map[*term]uint32

	row   []uint32 // scratch: a row, and what is further
	found []uint32 // scratch: of a search
}

func newCells(f *frame) *cells {
	limits := len(f.limits)
	return &cells{
		of: f, dims: make([]dimension, limits+1), row: make([]uint32, limits+1),
		first: map[uint64]uint32{}, valueOf: map[*term]uint32{},
	}
}

// enter puts a submission that joins the view into its cell.
func (c *cells) enter(s *Submission, at, group uint32) {
	f := c.of
	c.row = c.row[:len(c.dims)]
	for i, l := range f.limits {
		c.row[i] = none
		if t := s.termOf(l.key); t != nil {
			c.row[i] = c.valueFor(t, uint32(i), l.max)
		}
	}
	extra := len(f.limits)
	c.row[extra] = none
	if t := f.in.Values.overrun(s); t != nil && !f.limits.has(t.key) {
		c.row[extra] = c.valueFor(t, uint32(extra), queue.NoLimit)
	}
	f.put(s, at, c.cellFor(group))
}

// overrun is a term of the submission that has as many chunks in flight as an operator lets it have, nil if there is none.
func (x *terms) overrun(s *Submission) *term {
	if x.limited > 0 {
		for _, ref := range s.refs() {
			if t := x.list[ref.term]; t.inFlight >= t.limit {
				return t
			}
		}
	}
	return nil
}

// extend moves a submission that an operator's limit of another key holds back to the cell that is under that, too.
func (c *cells) extend(s *Submission, at uint32, t *term) {
	f := c.of
	number := s.members[at].gate
	group := c.list[number].group
	c.row = append(append(c.row[:0], c.rowOf(number)...), c.further[number]...)
	extra := c.valueFor(t, uint32(len(f.limits)), queue.NoLimit)
	if c.row[len(f.limits)] == none {
		c.row[len(f.limits)] = extra
	} else {
		c.row = append(c.row, extra)
	}
	f.take(s, at)
	f.put(s, at, c.cellFor(group))
}

func (c *cells) rowOf(number uint32) []uint32 {
	width := uint32(len(c.dims))
	return c.rows[number*width : (number+1)*width]
}

// hash is of a group and a row: a step of SplitMix64's finaliser for each number. The group's comes first, alone, as numbers
// that are both small would cancel out.
func hash(group uint32, row []uint32) uint64 {
	h := (uint64(group) + 1) * 0xbf58476d1ce4e5b9
	h ^= h >> 31
	for _, x := range row {
		h = (h ^ uint64(x)) * 0xbf58476d1ce4e5b9
		h ^= h >> 31
	}
	return h
}

// cellFor is the group's cell of the scratch row; made when there is none.
func (c *cells) cellFor(group uint32) (number uint32) {
	width := len(c.dims)
	row, further := c.row[:width], c.row[width:]
	h := hash(group, row)
	head, ok := c.first[h]
	if !ok {
		head = none
	}
	for number = head; number != none; number = c.list[number].next {
		if c.list[number].group == group && slices.Equal(c.rowOf(number), row) && slices.Equal(c.further[number], further) {
			return number
		}
	}
	if last := len(c.free) - 1; last >= 0 {
		number, c.free = c.free[last], c.free[:last]
		copy(c.rowOf(number), row)
	} else {
		number = uint32(len(c.list))
		c.list = append(c.list, cell{})
		c.rows = append(c.rows, row...)
	}
	x := &c.list[number]
	x.group, x.gate, x.next = group, none, head
	c.first[h] = number
	if len(further) > 0 {
		if c.further == nil {
			c.further = map[uint32][]uint32{}
		}
		c.further[number] = slices.Clone(further)
	}
	c.count(number, 1)
	return number
}

// count counts a cell that comes or, by ^0, goes.
func (c *cells) count(number, by uint32) {
	for i, x := range c.rowOf(number) {
		if x == none {
			c.dims[i].without += by
			continue
		}
		c.countValue(x, by)
	}
	for _, x := range c.further[number] {
		c.countValue(x, by)
	}
}

// drop gives up an empty cell that stands in no gate. A little memory stays for the next one.
func (c *cells) drop(number uint32) {
	c.count(number, ^uint32(0))
	delete(c.further, number)
	x := &c.list[number]
	h := hash(x.group, c.rowOf(number))
	switch head := c.first[h]; {
	case head == number && x.next == none:
		delete(c.first, h)
	case head == number:
		c.first[h] = x.next
	default:
		before := head
		for c.list[before].next != number {
			before = c.list[before].next
		}
		c.list[before].next = x.next
	}
	*x = cell{pool: x.pool.emptied()}
	c.free = append(c.free, number)
}

// settle puts a cell whose content changed where it belongs now: into its gate, elsewhere in there, or nowhere.
func (c *cells) settle(number uint32) {
	f := c.of
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
	case f.order == strategy.Random:
		exp := exponent(x.total)
		if exp == x.gateExp {
			return
		}
		c.lift(number)
		x.gateExp = exp
		x.place = f.gates[gate].add(exp, entry{of: number})
	default:
		heapFix(byHead{c}, f.gates[gate].entries, int(x.place))
	}
	f.refresh(gate)
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
	c.of.in.preview.noteRemoval(spot{frame: c.of, kind: ofCells, in: x.gate, exp: x.gateExp, place: x.place}, &g.sampler)
	if moved, ok := g.remove(x.gateExp, x.place); ok {
		c.list[moved.of].place = x.place
	}
}

// homeOf is the gate for a cell: one that is shut, so that no pick examines it for nothing; otherwise that of its scarcest value.
func (c *cells) homeOf(number uint32) (gate uint32) {
	group, x := c.list[number].group, c.obstacleOf(number)
	if x == none {
		for i, y := range c.rowOf(number) {
			if y != none && (x == none || c.room(uint32(i)) < c.room(c.values[x].dim)) {
				x = y
			}
		}
	}
	if x == none {
		return c.of.freeGate(group)
	}
	return c.of.gateFor(group, c.values[x].term)
}

// room is how many chunks of all values of a dimension may be in flight. Where there is the least, a value is shut the most of
// the time: a cell in the gate of that one is the least often examined for nothing.
func (c *cells) room(dim uint32) uint64 {
	switch d := &c.dims[dim]; {
	case d.fixed:
		return 0 // and the gate is no other tenant's chunks' to open and shut
	case int(dim) == len(c.of.limits):
		return 1<<64 - 1
	default:
		return uint64(d.values) * uint64(c.of.limits[dim].max)
	}
}

// obstacleOf is a value of the cell that is shut, none if there is none; of several the scarcest.
func (c *cells) obstacleOf(number uint32) uint32 {
	found := uint32(none)
	for i, x := range c.rowOf(number) {
		if x != none && c.values[x].isShut() && (found == none || c.room(uint32(i)) < c.room(c.values[found].dim)) {
			found = x
		}
	}
	if found != none {
		return found
	}
	if c.further != nil {
		for _, x := range c.further[number] {
			if c.values[x].isShut() {
				return x
			}
		}
	}
	return none
}

// evade moves a cell that stands in an open gate, but is under another limit that is reached, to the shut gate of that
// value. There no pick meets it again until the gate opens.
func (c *cells) evade(number, obstacle uint32) {
	c.unseat(number)
	c.seat(number, c.of.gateFor(c.list[number].group, c.values[obstacle].term))
}

// byHead ranks the cells of a gate by their first submissions.
type byHead struct{ c *cells }

func (r byHead) before(a, b entry) bool { return r.c.of.before(r.c.headOf(a.of), r.c.headOf(b.of)) }

func (r byHead) moved(x entry, to int) { r.c.list[x.of].place = uint32(to) }

// headOf is the first submission of a cell that is not empty.
func (c *cells) headOf(number uint32) *Submission {
	return c.of.in.subs[c.list[number].entries[0].of]
}
