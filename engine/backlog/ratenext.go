package backlog

import (
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/strategy"
)

// This file answers when a rate next allows a chunk of a view, for empty answers. Nothing here changes a view.
//
// A submission stands in one gate only, however many of its limits hold it back. So the gate that opens first does not
// say when the submission may be taken: another of its rates may hold it for longer. In a view of several limits the
// gates hold cells, which know all limits of their submissions.

// nextLooked bounds how many values and cells NextRate looks at.
const nextLooked = 256

// NextRate returns the time in nanoseconds at which a rate next allows a chunk of the view; false if
// no rate holds any of them back. A submission that several rates hold back waits for the last of them.
// If very many values or combinations of values are ahead, the time may be too early.
func (v *View) NextRate() (at int64, held bool) {
	due := v.Values.Rates.due
	if !v.rated() || len(due) == 0 {
		return 0, false
	}
	at = math.MaxInt64
	next := []int{0} // places of the heap whose predecessors were all looked at
	for looked := 0; len(next) > 0; looked++ {
		first := 0
		for i := range next {
			if due[next[i]].next() < due[next[first]].next() {
				first = i
			}
		}
		place := next[first]
		p := due[place]
		if p.next() >= at {
			return at, held
		}
		if looked >= nextLooked {
			return p.next(), true
		}
		if p.count > 0 {
			if opens, waits := v.waitsFor(p, &looked); waits {
				at, held = min(at, opens), true
			}
		}
		next[first] = 2*place + 1
		next = append(next, 2*place+2)
		next = slices.DeleteFunc(next, func(place int) bool { return place >= len(due) })
	}
	return at, held
}

// rated says whether a rate limits the view.
func (v *View) rated() bool {
	leaf := func(b *base) bool {
		return slices.ContainsFunc(b.limits, func(l limit) bool { return l.of >= strategy.Measures })
	}
	if v.fair == nil {
		return leaf(v.base)
	}
	return slices.ContainsFunc(v.fair.leaves, func(v *View) bool { return leaf(v.base) })
}

// waitsFor says when the first submission or cell in the pace's gates of the view may be taken; false: they hold
// nothing.
func (v *View) waitsFor(p *pace, looked *int) (at int64, waits bool) {
	for _, ref := range p.gates {
		b := v.bases.list[ref.base]
		if b != v.base && (b.outer == nil || b.outer != v) || ref.gate&valueRef != 0 || b.gates[ref.gate].empty() {
			continue
		}
		opens := p.next()
		if b.cells != nil {
			opens = b.cells.opens(&b.gates[ref.gate], opens, looked)
		}
		if !waits || opens < at {
			at, waits = opens, true
		}
	}
	return at, waits
}

// opens is when the first cell may be taken of a gate that opens at this moment: other rates may hold it back for
// longer. When too many cells were looked at, it is the moment itself.
func (c *cells) opens(g *gate, moment int64, looked *int) int64 {
	first := int64(math.MaxInt64)
	for i := range g.count() {
		for _, e := range g.nth(i).entries {
			if *looked++; *looked >= nextLooked {
				return moment
			}
			at := moment
			for _, x := range c.rowOf(e.of) {
				if x == none || c.values[x].of < strategy.Measures {
					continue
				}
				t := c.values[x].tally()
				if p := t.rate().paces.of(t.term); p != nil && p.count > 0 {
					at = max(at, p.next())
				}
			}
			if first = min(first, at); first == moment {
				return moment
			}
		}
	}
	return first
}
