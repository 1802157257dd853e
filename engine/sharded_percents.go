package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/percents"
	"github.com/quern-queue/quern/engine/strategy"
)

// sharePlans are plans whose limits in percent are of the chunks in flight in all shards.
type sharePlans struct {
	waiting atomic.Int64 // chunks that waiting calls ask for in all shards

	mu    sync.Mutex
	plans percents.Plans
	asked [queue.MaxQueueShards]shard.Asked
}

// numbered is a call with a number in place of each percentage of its strategy, if all shards are on this node. It is a percentage of the
// chunks in flight or asked for in all shards.
func numbered(s *Sharded, r *ReserveRequest) *ReserveRequest {
	if s.Spread() {
		return r
	}
	all, _ := s.shards()
	now := *r
	now.Plan = s.shares.plan(r.Plan, r.Max+int(s.shares.waiting.Load())+s.shares.chunks(all, s.e.options.Now()))
	return &now
}

// chunks counts the chunks in flight or asked for in all shards.
func (p *sharePlans) chunks(all []*Queue, now time.Time) (sum int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, q := range all {
		if q != nil {
			sum += p.asked[i].Chunks(q.shard, now)
		}
	}
	return sum
}

// plan is the plan with the numbers for so many chunks.
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
