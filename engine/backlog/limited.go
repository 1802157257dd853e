package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// lookedGates bounds what Saturated looks at: with ten thousand values the shut gates may be anywhere.
const lookedGates = 256

// Saturated calls fn for values whose limit holds back submissions of the view that no rule covers,
// until fn returns false. It looks at a bounded part of the view, so it may find fewer than there are.
// A fair view may name a value once per tenant. fn must not change the backlog.
func (v *View) Saturated(fn func(queue.Saturated) bool) {
	left := lookedGates
	if v.fair == nil {
		v.saturated(&left, fn)
		return
	}
	for _, leaf := range v.fair.leaves {
		if !leaf.saturated(&left, fn) {
			return
		}
	}
}

// saturated looks at up to *left gates of a view that has gates itself, and says whether to go on.
func (v *View) saturated(left *int, fn func(queue.Saturated) bool) bool {
	for i := range v.gates[:min(len(v.gates), *left)] {
		*left--
		g := &v.gates[i]
		if g.watched == nil || g.of >= strategy.Measures { // NextRate tells of rates
			continue
		}
		max, c := g.max, g.tally().counter()
		if v.bands.on && v.limits[0].counts(g.tally()) {
			max = min(v.most, c.limit)
		}
		if g.empty() || !c.reached(max) || g.watched.ruling[v.Rules.book] != queue.Unruled ||
			!v.holdsFree(&g.pool, v.cells != nil, left) {
			continue
		}
		entry := queue.MetaEntry{Key: g.watched.key.name, Value: g.watched.value}
		if !fn(queue.Saturated{MetaEntry: entry, InFlight: c.count, Limit: max}) {
			return false
		}
	}
	return *left > 0
}

// holdsFree says whether a pool has a submission that no rule covers; in a pool of cells it looks into
// the cells. It looks at up to *left submissions.
func (b *base) holdsFree(p *pool, ofCells bool, left *int) bool {
	book := b.Rules.book
	if b.ruled[book] == 0 {
		return true
	}
	for i := range p.count() {
		for _, x := range p.nth(i).entries {
			switch {
			case *left <= 0:
				return false
			case ofCells && b.holdsFree(&b.cells.list[x.of].pool, false, left):
				return true
			case ofCells:
				continue
			}
			*left--
			if b.subs.list[x.of].ruling[book] == queue.Unruled {
				return true
			}
		}
	}
	return false
}
