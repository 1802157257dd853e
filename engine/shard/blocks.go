package shard

import (
	"math"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// NodeWork is what reserves did for one kind of block since the shard was opened, or had to reload.
type NodeWork struct {
	Node     string // the block's name in the language of strategies
	Examined uint64 // submissions, combinations of values, and candidates of who scores, that were looked at
	Limited  uint64 // of them, that a limit held back, and that were put where it lets them out again
	Redrawn  uint64 // draws of Random that fell on nothing, and were made again
	Unwanted uint64 // candidates that the scorer wanted none of
}

// The kinds of blocks that score.
const (
	pluginKind = iota
	scoreKind
	scoredKinds
)

// count counts a window that was scored.
func (p *Scoring) count(br *strategy.Branch, w *machine.WindowScratch) {
	unwanted := uint64(0)
	for _, score := range w.Scores[:w.Rows] {
		if math.IsNaN(score) {
			unwanted++
		}
	}
	kind := pluginKind
	if br.Scored.Expression != nil {
		kind = scoreKind
	}
	p.work[kind].examined.Add(uint64(w.Rows))
	p.work[kind].unwanted.Add(unwanted)
}

// Blocks is what reserves did, by kind of block, always the same kinds in the same order.
func (ins *Inspect) Blocks() []NodeWork {
	s := ins.s
	list := make([]NodeWork, 0, backlog.Kinds+scoredKinds)
	s.mu.Lock()
	for kind := range backlog.Kinds {
		w := s.m.Backlog.Work(kind)
		list = append(list, NodeWork{Node: backlog.KindName(kind), Examined: w.Examined, Limited: w.Limited, Redrawn: w.Redrawn})
	}
	s.mu.Unlock()
	for kind, name := range [scoredKinds]string{pluginKind: "Plugin", scoreKind: "Score"} {
		w := &s.Scoring.work[kind]
		list = append(list, NodeWork{Node: name, Examined: w.examined.Load(), Unwanted: w.unwanted.Load()})
	}
	return list
}

// mostSummed is how many tenants one hold of the mutex adds up the lags of: that cannot be done in parts, as each lag is of the
// moment.
const mostSummed = 10_000

// LedgerSums is how the fair ledgers stand together. The largest lag is looked for in slices, between which everybody else has a
// turn.
func (ins *Inspect) LedgerSums() backlog.LedgerSums {
	s := ins.s
	s.mu.Lock()
	sums, shares := s.m.Backlog.LedgerSums(mostSummed, nil)
	s.mu.Unlock()
	for _, share := range shares {
		for from, more := 0, true; more; more = from != 0 {
			var lag float64
			s.mu.Lock()
			lag, from = share.MostLag(from, machine.LookMost)
			s.mu.Unlock()
			sums.Most = max(sums.Most, lag)
		}
	}
	return sums
}
