package backlog

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// grid finds cells by their values. It knows neither their submissions nor their gates.
//
//	limits: company, host                      rows (one per cell)
//	submissions company=7 host=a  ─► cell 0    [ company=7, host=a ]
//	            company=7 host=b  ─► cell 1    [ company=7, host=b ]
//	            company=8 (none)  ─► cell 2    [ company=8, none   ]
//
// A cell stands for all submissions with the same values, so a pick that meets a blocked one moves
// them in a single step. `first` finds the cell of a row by its hash; cells with one hash are
// linked by `next`.
type grid struct {
	base   uint32 // whose gates counters tell
	limits limits // of the base
	meter  *meter

	list    []cell
	free    []uint32
	rows    []uint32            // by cell, each len(dims) long
	further map[uint32][]uint32 // by cell: values of keys that the view does not limit, beyond the row's
	first   map[uint64]uint32   // by hash of the row
	dims    []dimension         // as the limits, and that of the extras

	values     []value
	freeValues []uint32
	valueOf    map[tally]uint32

	row   []uint32 // scratch: a row, and the values beyond it
	found []uint32 // scratch: of a search
}

// value is a tally that tells cells of the view apart, with the limit of its counter.
type value struct {
	term    *term
	counter *counter // the tally's: every pick asks whether it is reached
	max     uint32   // it is shut from here on
	cells   uint32   // that have it
	place   uint32   // in its dimension's open; none: it is shut, or no cell has it
	of      strategy.Measure
	dim     uint8 // the place in rows
	// 32 bytes: there is one for each value of each view
}

func (v *value) tally() tally { return tally{v.term, v.of} }

func (v *value) isShut() bool { return v.counter.reached(v.max) }

// dimension is a place in rows.
type dimension struct {
	open    []uint32 // values that are not shut and that cells have
	values  uint32   // all that cells have
	without uint32   // cells that have none
	fixed   bool     // the same in all cells of a group: tenants are told apart by this key
}

// valueRef marks the number of a value in gateRef.gate.
const valueRef = 1 << 31

// Rows stand in one slice, each of the width of all keys: a row of its own per cell would cost a pointer and a
// header more than its few numbers.
func (g *grid) rowOf(number uint32) []uint32 {
	width := uint32(len(g.dims))
	return g.rows[number*width : (number+1)*width]
}

// hash is of a group and a row: a step of SplitMix64's finaliser for each number. The
// group's comes first, alone, as numbers that are both small would cancel out.
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
// The hash alone does not decide: cells with one hash are compared number by number.
func (g *grid) cellFor(group uint32) (number uint32) {
	width := len(g.dims)
	row, further := g.row[:width], g.row[width:]
	h := hash(group, row)
	head, ok := g.first[h]
	if !ok {
		head = none
	}
	for number = head; number != none; number = g.list[number].next {
		if g.list[number].group == group && slices.Equal(g.rowOf(number), row) &&
			slices.Equal(g.further[number], further) {
			return number
		}
	}
	if last := len(g.free) - 1; last >= 0 {
		number, g.free = g.free[last], g.free[:last]
		copy(g.rowOf(number), row)
	} else {
		number = uint32(len(g.list))
		g.list = append(g.list, cell{})
		g.rows = append(g.rows, row...)
	}
	x := &g.list[number]
	x.group, x.gate, x.next = group, none, head
	g.first[h] = number
	if len(further) > 0 {
		if g.further == nil {
			g.further = map[uint32][]uint32{}
		}
		g.further[number] = slices.Clone(further)
	}
	g.count(number, 1)
	return number
}

// count counts a cell that comes or, by ^0, goes.
func (g *grid) count(number, by uint32) {
	for i, x := range g.rowOf(number) {
		if x == none {
			g.dims[i].without += by
			continue
		}
		g.countValue(x, by)
	}
	for _, x := range g.further[number] {
		g.countValue(x, by)
	}
}

// drop frees an empty cell that is in no gate. A little memory stays for the next one.
func (g *grid) drop(number uint32) {
	g.count(number, ^uint32(0))
	delete(g.further, number)
	x := &g.list[number]
	h := hash(x.group, g.rowOf(number))
	switch head := g.first[h]; {
	case head == number && x.next == none:
		delete(g.first, h)
	case head == number:
		g.first[h] = x.next
	default:
		before := head
		for g.list[before].next != number {
			before = g.list[before].next
		}
		g.list[before].next = x.next
	}
	*x = cell{pool: x.pool.emptied()}
	g.free = append(g.free, number)
}

// obstacleOf is a value of the cell that is shut, none if there is none. Of several it is the scarcest, so that
// the cell is looked at again as rarely as possible.
func (g *grid) obstacleOf(number uint32) uint32 {
	found := uint32(none)
	for i, x := range g.rowOf(number) {
		if x != none && g.values[x].isShut() && (found == none || g.room(i) < g.room(int(g.values[found].dim))) {
			found = x
		}
	}
	if found != none {
		return found
	}
	if g.further != nil {
		for _, x := range g.further[number] {
			if g.values[x].isShut() {
				return x
			}
		}
	}
	return none
}

// room is how many chunks of all values of a dimension may be in flight. In the dimension with the least room a
// value is shut the most of the time, so a cell in its gate is the least often examined for nothing.
func (g *grid) room(dim int) uint64 {
	switch d := &g.dims[dim]; {
	case d.fixed:
		return 0 // and no other tenant's chunks open or shut the gate
	case dim == len(g.limits):
		return 1<<64 - 1
	default:
		return uint64(d.values) * uint64(g.limits[dim].max)
	}
}

// valueFor is the view's value of a tally; made when there is none, and kept as long as the term.
func (g *grid) valueFor(t tally, dim, most uint32) (number uint32) {
	if number, ok := g.valueOf[t]; ok {
		return number
	}
	if last := len(g.freeValues) - 1; last >= 0 {
		number, g.freeValues = g.freeValues[last], g.freeValues[:last]
	} else {
		number = uint32(len(g.values))
		g.values = append(g.values, value{})
	}
	g.values[number] = value{term: t.term, of: t.of, max: min(most, t.counter().limit), dim: uint8(dim),
		place: none, counter: t.counter()}
	g.valueOf[t] = number
	t.watch(gateRef{g.values[number].max, g.base, number | valueRef})
	return number
}

// dropValue gives up a value that no cell has. The term does not tell it anything any more.
func (g *grid) dropValue(number uint32) {
	delete(g.valueOf, g.values[number].tally())
	g.values[number] = value{}
	g.freeValues = append(g.freeValues, number)
}

// countValue counts a cell of the value that comes or, by ^0, goes.
// by is ^0 for minus one: the counters are unsigned, and adding the largest number subtracts one.
func (g *grid) countValue(number, by uint32) {
	x := &g.values[number]
	before := x.cells
	x.cells += by
	switch {
	case before == 0:
		g.dims[x.dim].values++
	case x.cells == 0:
		g.dims[x.dim].values--
	}
	g.listValue(number)
}

// listValue has a value listed exactly while it is open and some cell has it.
// Removing swaps with the last one, so the order of open values means nothing; search visits all of them anyway.
func (g *grid) listValue(number uint32) {
	x := &g.values[number]
	d := &g.dims[x.dim]
	lists := x.cells > 0 && !x.isShut()
	switch {
	case lists == (x.place != none):
	case lists:
		x.place = uint32(len(d.open))
		d.open = append(d.open, number)
	default:
		last := len(d.open) - 1
		moved := d.open[last]
		d.open[x.place] = moved
		g.values[moved].place = x.place
		d.open = trimmed(d.open[:last])
		x.place = none
	}
}

// combinations is how many rows of values that are not shut there are, among them the rows of all the group's
// cells from which something may be taken. The cell `like` is one of the group. It stops at 2^32, as the caller
// only searches when there are few.
func (g *grid) combinations(like uint32) uint64 {
	count := uint64(1)
	for i := range g.dims {
		d := &g.dims[i]
		if d.fixed {
			if x := g.rowOf(like)[i]; x != none && g.values[x].isShut() {
				return 0
			}
			continue
		}
		several := uint64(len(d.open))
		if d.without > 0 {
			several++
		}
		if count *= several; count > 1<<32 {
			return 1 << 32
		}
	}
	return count
}

// search finds the group's cells from which something may be taken, by looking up every combination. The cell
// `like` is one of the group. The result is valid until a cell changes. Looking up every combination beats
// walking over all cells when few values are open: with 10,000 companies at their limit and 3 that are not,
// three look-ups find what is left.
func (g *grid) search(like uint32) (found []uint32) {
	g.found, g.row = g.found[:0], g.row[:len(g.dims)]
	if g.combinations(like) > 0 {
		g.searchFrom(0, like)
	}
	return g.found
}

func (g *grid) searchFrom(dim int, like uint32) {
	if dim == len(g.dims) {
		g.lookUp(g.list[like].group)
		return
	}
	d := &g.dims[dim]
	if d.fixed {
		g.row[dim] = g.rowOf(like)[dim]
		g.searchFrom(dim+1, like)
		return
	}
	for _, x := range d.open {
		g.row[dim] = x
		g.searchFrom(dim+1, like)
	}
	if d.without > 0 {
		g.row[dim] = none
		g.searchFrom(dim+1, like)
	}
}

// lookUp adds the cells of the scratch row to `found`. examined counts looks, so that tests can say how many a
// pick may take.
func (g *grid) lookUp(group uint32) {
	g.meter.examined++
	number, ok := g.first[hash(group, g.row)]
	if !ok {
		return
	}
	for at := number; at != none; at = g.list[at].next {
		if at != number {
			g.meter.examined++
		}
		if g.list[at].group == group && slices.Equal(g.rowOf(at), g.row) && g.obstacleOf(at) == none {
			g.found = append(g.found, at)
		}
	}
}

// relimit takes over an operator's changed limit of a value. It returns the count from which the value is shut
// now.
func (g *grid) relimit(number, limit uint32) (max uint32) {
	v := &g.values[number]
	v.max = min(g.most(v), limit)
	return v.max
}

// most is the limit of the view for a value; an extra has none.
func (g *grid) most(v *value) uint32 {
	if int(v.dim) == len(g.limits) {
		return queue.NoLimit
	}
	return g.limits[v.dim].max
}

// shed lets go of the last value.
// A base that is dropped gives its values up one by one, in slices, as each is watched by a term.
func (g *grid) shed() {
	last := uint32(len(g.values) - 1)
	if t := g.values[last].tally(); t.term != nil {
		t.unwatch(g.base, last|valueRef)
	}
	g.values = g.values[:last]
}
