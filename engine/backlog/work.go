package backlog

import (
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/strategy"
)

// Work is what Take did for one kind of view since New, to find what it gave.
type Work struct {
	Examined uint64 // submissions, cells and combinations of values that were looked at
	Limited  uint64 // of them, that were moved out of the way, to where the limit that holds them back lets them out again
	Redrawn  uint64 // draws of Random that fell on nothing, and were made again
}

// Kinds are the blocks that Work is counted by: the orders, and Fair for everything inside of it.
const (
	fairKind = int(strategy.CustomPriority) + 1
	Kinds    = fairKind + 1
)

// KindName is the block's name in the language of strategies; kind is below Kinds.
func KindName(kind int) string {
	if kind == fairKind {
		return "Fair"
	}
	return strategy.Order(kind).String()
}

// Work is what Take did for the views of a kind.
func (b *Backlog) Work(kind int) Work { return b.work[kind] }

// kind is what the view's work is counted by.
func (v *View) kind() int {
	if v.fair != nil || v.outer != nil {
		return fairKind
	}
	return int(v.order)
}

// limited and redrawn count what happens on the way to a pick.
func (v *View) limited() {
	v.in.work[v.kind()].Limited++
	v.in.moves.done++
}

func (v *View) redrawn() { v.in.work[v.kind()].Redrawn++ }

// LedgerSums is how the ledgers of all fair views stand together.
type LedgerSums struct {
	Ledgers                int     // shares: one for each Fair, and for one inside of another one for each tenant around it
	Active, Owing, Blocked int     // tenants
	Lag                    float64 // the sum of all lags in chunks, or seconds where time is shared: anything but 0 is a mistake
	Most                   float64 // the largest lag of a tenant, whichever way, in the same
	Whole                  bool    // Lag and Most are of all shares: otherwise there were too many tenants to add up
}

// LedgerSums adds up the ledgers. It looks at `most` tenants at most for the lags; all else costs what there are shares.
func (b *Backlog) LedgerSums(most int) (sums LedgerSums) {
	sums.Whole = true
	for _, v := range b.views {
		if v == nil || v.fair == nil || v.state == dropped {
			continue
		}
		v.fair.root.sum(&sums, &most)
	}
	return sums
}

func (d *division) sum(sums *LedgerSums, most *int) {
	for _, x := range d.shares {
		t := x.Totals()
		sums.Ledgers++
		sums.Active += t.Active
		sums.Owing += t.Owing
		sums.Blocked += t.Blocked
		if *most -= len(x.tenants) + 1; *most < 0 {
			sums.Whole = false
			continue
		}
		unit := x.Unit
		if unit == 0 {
			unit = fair.Chunk
		}
		sums.Lag += x.SumOfLags().In(unit)
		for number := range x.tenants {
			lag := x.Lag(uint32(number)).In(unit)
			sums.Most = max(sums.Most, lag, -lag)
		}
	}
	for _, a := range d.arms {
		if a.inner != nil {
			a.inner.sum(sums, most)
		}
	}
}
