package shard

import (
	"math"

	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/shard/scoring"
	"github.com/quern-queue/quern/engine/strategy"
)

// The kinds of blocks that score.
const (
	pluginKind = iota
	scoreKind
	scoredKinds
)

// count counts a window that was scored.
func (p *Scoring) count(br *strategy.Branch, w *scoring.WindowScratch) {
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

// Scored is what those who score did since the shard was opened.
func (p *Scoring) Scored() (list []inspect.NodeWork) {
	for kind, name := range [scoredKinds]string{pluginKind: "Plugin", scoreKind: "Score"} {
		w := &p.work[kind]
		list = append(list, inspect.NodeWork{Node: name, Examined: w.examined.Load(), Unwanted: w.unwanted.Load()})
	}
	return list
}
