package inspect

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// NodeWork is the work of reserves for one kind of block since the shard was opened or reloaded.
type NodeWork struct {
	Node     string // the block's name in the language of strategies
	Examined uint64 // submissions, combinations of values, and candidates of who scores, that were looked at
	Limited  uint64 // of them, that a limit held back, and that were put where it lets them out again
	Redrawn  uint64 // draws of Random that fell on nothing, and were made again
	Unwanted uint64 // candidates that the scorer wanted none of
}

// Blocks is the work of reserves by kind of block, always the same kinds in the same order.
func (ins *Inspector) Blocks() []NodeWork {
	list := make([]NodeWork, 0, backlog.Kinds)
	ins.Look(func(m *machine.Machine) {
		for kind := range backlog.Kinds {
			w := m.Backlog.Work(kind)
			list = append(list, NodeWork{Node: backlog.KindName(kind), Examined: w.Examined, Limited: w.Limited,
				Redrawn: w.Redrawn})
		}
	})
	for _, w := range ins.scoring.Work() {
		list = append(list, NodeWork{Node: w.Block, Examined: w.Examined, Unwanted: w.Unwanted})
	}
	return list
}

// mostSummed is how many tenants one hold of the mutex adds up the lags of: that cannot be
// done in parts, as each lag is of the moment.
const mostSummed = 10_000

// LedgerSums is how the fair ledgers stand together. The largest lag is looked for in
// slices, between which everybody else has a turn.
func (ins *Inspector) LedgerSums() (sums backlog.LedgerSums) {
	var shares []backlog.Share
	ins.Look(func(m *machine.Machine) { sums, shares = m.Backlog.Ledgers.Sums(mostSummed, nil) })
	for _, share := range shares {
		for from, more := 0, true; more; more = from != 0 {
			ins.Look(func(*machine.Machine) {
				var lag float64
				lag, from = share.MostLag(from, machine.LookMost)
				sums.Most = max(sums.Most, lag)
			})
		}
	}
	return sums
}
