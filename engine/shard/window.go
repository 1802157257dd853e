package shard

import (
	"github.com/quern-queue/quern/engine/shard/scoring"
)

func (p *Scoring) scratch() *scoring.WindowScratch {
	if w, ok := p.s.pools.windows.Get().(*scoring.WindowScratch); ok {
		return w
	}
	return &scoring.WindowScratch{}
}
