package backlog

import "slices"

func (x *value) isShut() bool { return x.term.inFlight >= x.max }

// valueFor is the view's value of a term; made when there is none, and kept as long as the term.
func (c *cells) valueFor(t *term, dim, base uint32) (number uint32) {
	if number, ok := c.valueOf[t]; ok {
		return number
	}
	if last := len(c.freeValues) - 1; last >= 0 {
		number, c.freeValues = c.freeValues[last], c.freeValues[:last]
	} else {
		number = uint32(len(c.values))
		c.values = append(c.values, value{})
	}
	c.values[number] = value{term: t, base: base, max: min(base, t.limit), dim: dim, place: none}
	c.valueOf[t] = number
	t.watchGate(gateRef{c.values[number].max, c.of.number, number | valueRef})
	return number
}

// dropValue gives up a value that no cell has. The term does not tell it anything any more.
func (c *cells) dropValue(number uint32) {
	delete(c.valueOf, c.values[number].term)
	c.values[number] = value{}
	c.freeValues = append(c.freeValues, number)
}

// countValue counts a cell of the value that comes or, by ^0, goes.
func (c *cells) countValue(number, by uint32) {
	x := &c.values[number]
	before := x.cells
	x.cells += by
	switch {
	case before == 0:
		c.dims[x.dim].values++
	case x.cells == 0:
		c.dims[x.dim].values--
	}
	c.listValue(number)
}

// listValue has a value listed exactly while it is open and some cell has it.
func (c *cells) listValue(number uint32) {
	x := &c.values[number]
	d := &c.dims[x.dim]
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
		c.values[moved].place = x.place
		d.open = trimmed(d.open[:last])
		x.place = none
	}
}

// combinations is how many rows there are of values that are not shut, among them all rows of cells of the group from which
// something may be taken. The cell is one of the group.
func (c *cells) combinations(like uint32) uint64 {
	count := uint64(1)
	for i := range c.dims {
		d := &c.dims[i]
		if d.fixed {
			if x := c.rowOf(like)[i]; x != none && c.values[x].isShut() {
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

// search finds the group's cells from which something may be taken, by looking up every combination. The cell is one of the
// group. What it finds is valid until a cell changes.
func (c *cells) search(like uint32) (found []uint32) {
	c.found, c.row = c.found[:0], c.row[:len(c.dims)]
	if c.combinations(like) > 0 {
		c.searchFrom(0, like)
	}
	return c.found
}

func (c *cells) searchFrom(dim int, like uint32) {
	if dim == len(c.dims) {
		c.lookUp(c.list[like].group)
		return
	}
	d := &c.dims[dim]
	if d.fixed {
		c.row[dim] = c.rowOf(like)[dim]
		c.searchFrom(dim+1, like)
		return
	}
	for _, x := range d.open {
		c.row[dim] = x
		c.searchFrom(dim+1, like)
	}
	if d.without > 0 {
		c.row[dim] = none
		c.searchFrom(dim+1, like)
	}
}

// lookUp adds the cells of the scratch row to what was found.
func (c *cells) lookUp(group uint32) {
	c.of.in.examined++
	number, ok := c.first[hash(group, c.row)]
	if !ok {
		return
	}
	for at := number; at != none; at = c.list[at].next {
		if at != number {
			c.of.in.examined++
		}
		if c.list[at].group == group && slices.Equal(c.rowOf(at), c.row) && c.obstacleOf(at) == none {
			c.found = append(c.found, at)
		}
	}
}
