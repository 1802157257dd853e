package engine

// A queue of several shards. Each shard is a Queue of its own: it has a journal, a store, a worker and standing views, and every call to a
// queue can go to it, by the name orders~2. The first one has the name of the queue itself in the catalogue, and calls name it orders~1.
// Calls of producers and workers to "orders" go to a Sharded:
//
//	insert    ─► the shard of the submission's group, which stays there                      (sharded_groups.go)
//	reserve   ─► the shards' heads, merged branch by branch                                  (sharded_reserve.go)
//	complete, fail, extend, release, exchange ─► the shards that the ids name                (sharded_finish.go)
//	settings  ─► all shards                                                                  (sharded_settings.go)
//	a group moves to another shard when nothing of it is open                                (sharded_moves.go)
//	another shard is prepared when there is little room for new groups                       (sharded_room.go)
//	anything else of "orders" is refused, and the refusal names a shard that can be asked
//
// In a cluster each shard may be on another node. Reserves and results go to those of other nodes, too, by one errand for
// each node (sharded_errand.go). Web sends inserts to the nodes that have the shards, so here they are about shards of this
// node.
//
// A strategy that several shards cannot follow exactly is refused.
//
// Lock order: e.changing, then Queue.splitting, then groups.placing, then e.mu and groups.mu, of which no one takes both.

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/together"
)

// Work is a queue as producers and workers use it: a Queue, or a Sharded.
type Work interface {
	Name() string
	Relaxed() bool // answers come before a change is on the disk
	InsertMany(ctx context.Context, list []queue.Insertion, atomic bool) error
	Asked(ctx context.Context, raw []byte) (Asked, error)
	Reserve(ctx context.Context, r ReserveRequest, dst []queue.Reservation) (ReserveResult, error)
	Exchange(ctx context.Context, x Exchange, out *Exchanged) error
	Complete(ctx context.Context, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error)
	Fail(ctx context.Context, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error)
	Extend(ctx context.Context, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error)
	Release(ctx context.Context, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error)
}

var (
	_ Work = (*Queue)(nil)
	_ Work = (*Sharded)(nil)
)

// Sharded is a queue of several shards. The number only rises.
type Sharded struct {
	e       *Engine
	name    string
	created queue.Time                   // when the queue was created: a later one of the same name is another one
	rows    [queue.MaxQueueShards]string // names of the shards in the catalogue
	count   atomic.Int32                 // shards
	grown   chan struct{}                // closed when there are more; guarded by e.mu
	here    atomic.Pointer[shardsHere]   // nil: not all of them serve here
	groups  *groups
	heads   remembered
	counts  *together.Counts
	fair    fairShares // under the lock of counts
	shares  sharePlans
	kept    keptCounts

	deleting  atomic.Bool
	preparing atomic.Int32 // the number of the shard that is just being made; 0: none is
	tryAgain  time.Time    // when to try again after a shard could not be prepared; only prepareShards uses it
}

// Sharding has the queues of several shards, and the calls of producers, workers, lists and metrics that work for any number of shards.
type Sharding struct {
	of      *Engine
	sharded map[string]*Sharded // by name; guarded by Engine.mu
}

// Work finds a queue, or one shard of a queue, for producers and workers. The errors are those of Queue.
func (x *Sharding) Work(name string) (Work, error) {
	x.of.mu.RLock()
	s := x.sharded[name]
	x.of.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	return x.of.Queue(name)
}

// severalShards refuses a call that only one shard can answer.
func severalShards(name string) error {
	return queue.Invalid("/path/queue", "has several shards, and only one of them can answer this call: name it, as in %q. GET "+
		"/v1/queues/{queue}/shards lists them", queue.ShardName(name, 1))
}

// Name is the name of the queue.
func (s *Sharded) Name() string { return s.name }

// growthOf is closed when the queue gets more shards.
func growthOf(s *Sharded) <-chan struct{} {
	s.e.mu.RLock()
	defer s.e.mu.RUnlock()
	return s.grown
}

// rowName is the name that the catalogue has of a shard.
func rowName(queueName string, number int) string {
	if number == 1 {
		return queueName
	}
	return queue.ShardName(queueName, number)
}

// emptySharded is a Sharded that has no shards and no groups yet.
func emptySharded(e *Engine, name string) *Sharded {
	s := &Sharded{e: e, name: name, groups: newGroups(), grown: make(chan struct{})}
	s.counts = together.New(e.options.Seed(), e.options.Now, func() []*shard.Shard { return shardsHereOf(s) })
	for i := range s.rows {
		s.rows[i] = rowName(name, i+1)
	}
	return s
}

// askedAs is the name under which a queue that serves is asked. The first shard of several has the queue's name in the
// catalogue, and calls by that name are about all shards.
func askedAs(q *Queue) string {
	if _, number := queue.CutShard(q.name); number == 0 && q.many.Load() != nil {
		return queue.ShardName(q.name, 1)
	}
	return q.name
}

// has says that a queue is a shard of this one.
func (s *Sharded) has(q *Queue) bool {
	many := q.many.Load()
	return many != nil && many.name == s.name // it is another Sharded after the queue came back to a node of a cluster
}

// shard is one shard of the queue. Its errors are those of Engine.Queue.
func (s *Sharded) shard(number int) (*Queue, error) {
	name := s.rows[number-1]
	s.e.mu.RLock()
	q, refused := s.e.queues[name], error(nil)
	if q == nil {
		refused = absentQueue(s.e, name)
	}
	s.e.mu.RUnlock()
	return q, refused
}

// shardsHere are all shards of a queue, if all serve here. No one changes the lists.
type shardsHere struct {
	changes uint64 // of the engine's tables until then
	queues  []*Queue
	parts   []*shard.Shard
	sources []source
}

// allHere are the shards, if it is known without a look at each that all serve here; nil: the caller has to look.
func allHere(s *Sharded) *shardsHere {
	if all := s.here.Load(); all != nil && all.changes == s.e.mu.changes.Load() && len(all.queues) == int(s.count.Load()) {
		return all
	}
	return nil
}

// shards are the shards by number less one; nil: that one does not serve. refused says why the first such shard does not. The caller does
// not change the list.
func (s *Sharded) shards() (all []*Queue, refused error) {
	if here := allHere(s); here != nil {
		return here.queues, nil
	}
	s.e.mu.RLock()
	defer s.e.mu.RUnlock()
	here := &shardsHere{changes: s.e.mu.changes.Load()}
	all = make([]*Queue, s.count.Load())
	for i := range all {
		if all[i] = s.e.queues[s.rows[i]]; all[i] == nil && refused == nil {
			refused = absentQueue(s.e, s.rows[i])
		}
		here.sources = append(here.sources, ownShard{all[i], i + 1})
	}
	here.parts = servedBy(all)
	if here.queues = all; refused != nil {
		here = nil
	}
	s.here.Store(here)
	return all, refused
}

// shardsHereOf are the shards that serve, as shards has them.
func shardsHereOf(s *Sharded) []*shard.Shard {
	if here := allHere(s); here != nil {
		return here.parts
	}
	all, _ := s.shards()
	return servedBy(all)
}

func servedBy(list []*Queue) []*shard.Shard {
	parts := make([]*shard.Shard, len(list))
	for i, q := range list {
		if q != nil {
			parts[i] = q.shard
		}
	}
	return parts
}

// one is a shard that serves, the first if that does.
func (s *Sharded) one() (*Queue, error) {
	if q, err := s.shard(1); err == nil {
		return q, nil
	}
	all, refused := s.shards()
	for _, q := range all {
		if q != nil {
			return q, nil
		}
	}
	return nil, refused
}

// Relaxed reports whether the queue answers before a change is on the disk.
func (s *Sharded) Relaxed() bool {
	settings, err := s.settings()
	return err == nil && settings.Durability == queue.Relaxed
}

// Asked is what a reservation asks for by a strategy. Named strategies are those of the first shard.
func (s *Sharded) Asked(ctx context.Context, raw []byte) (Asked, error) {
	return asks(ctx, s.e, raw, func(name string) (Asked, error) {
		q, err := s.shard(1)
		if err == nil {
			return q.Strategies.asked(name)
		}
		at := s.farAt(1)
		if at == nil {
			return Asked{}, err
		}
		return farShard{s, 1, at.URL}.named(ctx, name)
	})
}
