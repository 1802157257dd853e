package engine

import (
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/shard/percents"
	"github.com/quern-queue/quern/engine/strategy"
)

// sharePlans are plans whose limits in percent are of the chunks in flight in all shards.
type sharePlans struct {
	waiting atomic.Int64 // chunks that calls which wait in all shards ask for

	mu    sync.Mutex
	plans percents.Plans
}

// numbered is a call with a number in place of each percentage of its strategy, if all shards are on this node. The number
// is of what all shards have in flight or are asked for.
func numbered(s *Sharded, r *ReserveRequest) *ReserveRequest {
	if s.Spread() {
		return r
	}
	chunks := r.Max + int(s.shares.waiting.Load())
	all, _ := s.shards()
	for _, q := range all {
		if q != nil {
			chunks += q.shard.Percents.Asked()
		}
	}
	now := *r
	now.Plan = s.shares.plan(r.Plan, chunks)
	return &now
}

// plan is a plan as it is for so many chunks.
func (p *sharePlans) plan(of *strategy.Plan, chunks int) *strategy.Plan {
	p.mu.Lock()
	now := p.plans.Find(of, chunks)
	p.mu.Unlock()
	if now != nil {
		return now
	}
	now = of.Now(chunks) // a large plan takes long to compile
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plans.Keep(of, chunks, now)
}
