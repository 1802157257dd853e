package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/strategy"
)

// A reserve by Random needs the weights of the shards, and not their first chunks. So it uses the weights that an earlier
// reserve read, and asks one shard instead of all. A shard may have fewer chunks by now. Then a part of the draws finds
// nothing, and those are made again over all shards. So all chunks that were there at the look keep the same probability.

const (
	// headsFresh is for how long weights are used. Chunks that arrive in this time share the old weight of their shard.
	headsFresh = 20 * time.Millisecond
	// headsOld is the greatest age of weights: while one call reads them again, others go on with the old ones.
	headsOld = time.Second
	// headsMost is how many plans have remembered weights.
	headsMost = 64
)

// remembered are the heads of Random branches, as the last look of a reserve found them.
type remembered struct {
	mu sync.RWMutex
	of map[*strategy.Plan]*looked
}

type looked struct {
	at      time.Time
	shards  []source
	heads   []backlog.Head
	renewed bool // a call looks again
}

// recall is the remembered heads of a plan's first branch; nil: the caller has to look.
func (r *remembered) recall(plan *strategy.Plan, shards []source, now time.Time) []backlog.Head {
	r.mu.RLock()
	l := r.of[plan]
	fresh := l != nil && now.Sub(l.at).Abs() <= headsFresh && slices.Equal(l.shards, shards)
	r.mu.RUnlock()
	if fresh {
		return l.heads
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l = r.of[plan]; l == nil || now.Sub(l.at).Abs() > headsOld || !slices.Equal(l.shards, shards) || !l.renewed {
		if l != nil {
			l.renewed = true
		}
		return nil
	}
	return l.heads
}

// note keeps what a look found. No one may change the heads from then on.
func (r *remembered) note(plan *strategy.Plan, l *looked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= headsMost && r.of[plan] == nil {
		r.of = map[*strategy.Plan]*looked{}
	}
	r.of[plan] = l
}
