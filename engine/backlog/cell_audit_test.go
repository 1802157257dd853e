package backlog

import (
	"slices"

	"github.com/quern-queue/quern/engine/strategy"
)

// auditCellsOf checks the cells of a gate and counts their submissions.
func (m *model) auditCellsOf(v *View, gate uint32) (members int) {
	g := &v.gates[gate]
	each := func(x entry, place int) *cell {
		c := &v.cells.list[x.of]
		if c.gate != gate || c.place != uint32(place) || c.group != g.group || c.empty() {
			m.fatalf("view %s gate %d: the cell %d says that it stands in %d at %d, and is of group %d, want at %d and %d; empty: %v", v.key, gate, x.of, c.gate, c.place, c.group, place, g.group, c.empty())
		}
		members += m.auditCell(v, x.of)
		return c
	}
	if v.order != strategy.Random {
		for i, x := range g.entries {
			if each(x, i); i > 0 && (byHead{v.cells}).before(x, g.entries[(i-1)/2]) {
				m.fatalf("view %s gate %d is no heap", v.key, gate)
			}
		}
		return members
	}
	total := uint64(0)
	for bk := range m.bucketsOf(v, &g.sampler) {
		for i, x := range bk.entries {
			total += bound(bk.exp)
			if c := each(x, i); c.gateExp != bk.exp || exponent(c.total) != bk.exp {
				m.fatalf("view %s gate %d: the cell %d of weight %d is in the bucket %d and says %d", v.key, gate, x.of, c.total, bk.exp, c.gateExp)
			}
		}
	}
	if g.total != total {
		m.fatalf("view %s gate %d has the weight %d, want %d", v.key, gate, g.total, total)
	}
	return members
}

// auditCell checks that a cell is found by its row, that its gate is of one of its values, and that its submissions have the
// values; it counts these.
func (m *model) auditCell(v *View, number uint32) int {
	c := v.cells
	x, row := &c.list[number], v.cells.rowOf(number)
	at, ok := c.first[hash(x.group, row)]
	for ok && at != none && at != number {
		at = c.list[at].next
	}
	if !ok || at != number {
		m.fatalf("view %s: the cell %d is not found by its row %v", v.key, number, row)
	}
	values := slices.DeleteFunc(append(slices.Clone(row), c.further[number]...), func(x uint32) bool { return x == none })
	watched := v.gates[x.gate].watched
	at = v.groups[x.group].free
	if watched != nil && !slices.ContainsFunc(values, func(x uint32) bool { return c.values[x].term == watched }) ||
		watched == nil && v.state != dropped && (x.gate != at || len(values) > 0) {
		m.fatalf("view %s: the cell %d with the values %v stands in gate %d, which watches %v", v.key, number, values, x.gate, watched)
	}
	each := func(e entry) {
		s := m.b.subs.list[e.of]
		for i, l := range v.limits {
			if t := s.termOf(l.key); t == nil && row[i] != none || t != nil && (row[i] == none || c.values[row[i]].term != t) {
				m.fatalf("view %s: submission %v is not of its cell's row", v.key, s.id)
			}
		}
		for _, x := range values {
			if t := c.values[x].term; s.termOf(t.key) != t {
				m.fatalf("view %s: submission %v has not all values of its cell", v.key, s.id)
			}
		}
	}
	for i := range x.count() { // of an ordered view there is one
		for _, e := range x.nth(i).entries {
			each(e)
		}
	}
	return m.auditPool(v, number, &x.pool)
}

// auditCells checks that a view counts the cells of its values right, lists the open ones exactly, has no empty cells,
// and that a search finds exactly the cells from which something may be taken.
func (m *model) auditCells(v *View) {
	c := v.cells
	count, without := make([]uint32, len(c.values)), make([]uint32, len(c.dims))
	live := 0
	for number := range c.list {
		if slices.Contains(c.free, uint32(number)) {
			continue
		}
		live++
		if x := &c.list[number]; x.empty() || x.gate == none {
			m.fatalf("view %s: the cell %d is empty or in no gate", v.key, number)
		}
		for i, x := range v.cells.rowOf(uint32(number)) {
			if x == none {
				without[i]++
				continue
			}
			if count[x]++; int(c.values[x].dim) != i {
				m.fatalf("view %s: the value %d stands in row %v, want in place %d", v.key, x, v.cells.rowOf(uint32(number)), c.values[x].dim)
			}
		}
		for _, x := range c.further[uint32(number)] {
			count[x]++
		}
	}
	for i := range c.dims {
		if c.dims[i].without != without[i] {
			m.fatalf("view %s: %d cells are counted without dimension %d, want %d", v.key, c.dims[i].without, i, without[i])
		}
	}
	open, values := make([]int, len(c.dims)), make([]uint32, len(c.dims))
	for number := range c.values {
		x := &c.values[number]
		if x.term == nil || v.state == dropped && c.valueOf[x.tally()] != uint32(number) {
			continue
		}
		lists := count[number] > 0 && x.tally().counter().count < x.max
		if count[number] > 0 {
			values[x.dim]++
		}
		if lists {
			open[x.dim]++
		}
		if x.cells != count[number] || c.valueOf[x.tally()] != uint32(number) || lists != (x.place != none) || lists && c.dims[x.dim].open[x.place] != uint32(number) {
			m.fatalf("view %s: value %d (%s=%v) has %d cells, want %d; it is listed at %d, want so: %v", v.key, number, x.term.key.name, x.term.value, x.cells, count[number], x.place, lists)
		}
	}
	for i := range c.dims {
		if d := &c.dims[i]; len(d.open) != open[i] || d.values != values[i] {
			m.fatalf("view %s lists %d open values of %d in dimension %d, want %d of %d", v.key, len(d.open), d.values, i, open[i], values[i])
		}
	}
	if live != len(c.list)-len(c.free) || len(c.rows) != len(c.list)*len(c.dims) {
		m.fatalf("view %s has %d cells and %d free, want %d", v.key, len(c.list), len(c.free), live)
	}
	m.auditSearch(v)
}

// auditSearch searches in every group and compares with a look at every cell.
func (m *model) auditSearch(v *View) {
	c := v.cells
	examined := m.b.meter.examined
	for group := range v.groups {
		var want []uint32
		like := uint32(none)
		for number := range c.list {
			if x := &c.list[number]; x.empty() || x.group != uint32(group) {
				continue
			}
			if like = uint32(number); v.cells.obstacleOf(like) == none {
				want = append(want, like)
			}
		}
		if like == none {
			continue
		}
		got := slices.Sorted(slices.Values(v.cells.search(like)))
		if !slices.Equal(got, want) {
			m.fatalf("view %s group %d: a search finds the cells %v, want %v", v.key, group, got, want)
		}
		if most := v.cells.combinations(like); uint64(len(want)) > 0 && most == 0 || len(c.further) == 0 && uint64(len(want)) > most {
			m.fatalf("view %s group %d: %d combinations, but %d cells from which something may be taken", v.key, group, most, len(want))
		}
	}
	m.b.meter.examined = examined
}

// nestedBranches are of two to five limits with small maxima, in every order, filtered, and under Fair.
func nestedBranches() []strategy.Branch {
	l := func(key string, max uint32) strategy.Limit { return strategy.Limit{Key: key, Max: max} }
	fairly := func(key string, inner ...strategy.Branch) strategy.Branch {
		return strategy.Branch{Fair: key, Inner: inner}
	}
	two := []strategy.Limit{l("a", 1), l("b", 1)}
	three := []strategy.Limit{l("a", 2), l("b", 1), l("c", 1)}
	five := []strategy.Limit{l("a", 2), l("b", 2), l("c", 1), l("d", 1), l("e", 2)}
	narrow := limited(strategy.Random, l("a", 1), l("c", 1))
	narrow.Filters = []strategy.Filter{equals("b", 1)}
	return []strategy.Branch{
		limited(strategy.Random, two...), limited(strategy.OldestFirst, two...), limited(strategy.CustomPriority, two...),
		limited(strategy.Random, three...), limited(strategy.NewestFirst, three...),
		limited(strategy.Random, five...), limited(strategy.OldestFirst, five...), limited(strategy.Random, l("d", 0), l("e", 1)),
		limited(strategy.CustomPriority, l("a", 1), l("e", 3)), narrow,
		fairly("a", limited(strategy.Random, two...)), fairly("d", limited(strategy.Random, three...)),
		fairly("b", limited(strategy.OldestFirst, five...)), fairly("$submission", limited(strategy.Random, two...)),
		fairly("c", fairly("a", limited(strategy.Random, five...), limited(strategy.NewestFirst, l("b", 1), l("c", 2)))),
	}
}
