package shard

import (
	"github.com/quern-queue/quern/engine/shard/machine"
)

func (p *Scoring) scratch() *machine.WindowScratch {
	if w, ok := p.s.pools.windows.Get().(*machine.WindowScratch); ok {
		return w
	}
	return &machine.WindowScratch{}
}
