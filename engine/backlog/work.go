package backlog

import (
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/strategy"
)

// Work is Take's work for one kind of view since New, to find its chunks.
type Work struct {
	Examined uint64 // submissions, cells and combinations of values that were looked at
	// of them, those that were moved out of the way, behind the limit that holds them back
	Limited uint64
	Redrawn uint64 // draws of Random that fell on nothing, and were made again
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

// Work is Take's work for the views of a kind.
func (b *Backlog) Work(kind int) Work { return b.meter.work[kind] }

// meter counts the looks and moves of picks, and bounds the moves.
type meter struct {
	examined uint64
	work     [Kinds]Work
	allowed  int // that may be moved; 0: no bound
	moved    int
	once     bool // a draw that falls on nothing counts as moved, so that a bound of one ends the pick (TakeOnce)
}

func (m *meter) tired() bool { return m.allowed > 0 && m.moved >= m.allowed }

// kind is the kind that the view's work counts for.
func (b *base) kind() int {
	if b.fair != nil || b.outer != nil {
		return fairKind
	}
	return int(b.order)
}

// limited and redrawn count the events on the way to a pick.
func (b *base) limited() {
	b.meter.work[b.kind()].Limited++
	b.meter.moved++
}

func (b *base) redrawn() {
	b.meter.work[b.kind()].Redrawn++
	if b.meter.once {
		b.meter.moved++
	}
}

// LedgerSums is how the ledgers of all fair views stand together.
type LedgerSums struct {
	// shares: one for each Fair, and for one inside of another one for each tenant around it
	Ledgers                int
	Active, Owing, Blocked int // tenants
	// the sum of all lags in chunks, or seconds where time is shared: anything but 0 is a mistake
	Lag   float64
	Most  float64 // the largest lag of a tenant, whichever way, in the same: to be found by MostLag
	Whole bool    // Lag and Most are of all shares: otherwise there were too many tenants to add up
}

// Sums adds up the ledgers, but for Most. It looks at `most` tenants at most for the lags, and appends
// their shares to dst; the other sums take one step for each share.
func (l *ledgers) Sums(most int, dst []Share) (sums LedgerSums, shares []Share) {
	sums.Whole = true
	for v := range l.views.bases.views() {
		if v.fair == nil {
			continue
		}
		dst = v.fair.root.sum(&sums, &most, dst)
	}
	return sums, dst
}

func (d *division) sum(sums *LedgerSums, most *int, dst []Share) []Share {
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
		sums.Lag += x.SumOfLags().In(x.unit())
		dst = append(dst, Share{x})
	}
	for _, a := range d.arms {
		if a.inner != nil {
			dst = a.inner.sum(sums, most, dst)
		}
	}
	return dst
}

func (s *share) unit() fair.Cost {
	if s.Unit == 0 {
		return fair.Chunk
	}
	return s.Unit
}

// MostLag is the largest lag, whichever way, of up to `most` tenants from the number `from` on, and the
// number to go on from; 0 when there are no more. Between two calls anything may happen to the backlog.
func (s Share) MostLag(from, most int) (lag float64, next int) {
	for number := from; number < len(s.share.tenants); number++ {
		if number-from == most {
			return lag, number
		}
		of := s.share.Lag(uint32(number)).In(s.share.unit())
		lag = max(lag, of, -of)
	}
	return lag, 0
}
