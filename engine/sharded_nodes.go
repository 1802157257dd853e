package engine

// A queue of several shards in a cluster. All its shards are on one node, so one process has all of its groups and merges its
// reserves. They move together: the first shard is the lead of the others (member.Situation). While they come to a node, calls
// wait for a moment, and then get what is there.

import (
	"context"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// gatherMost is how long calls wait for the other shards, from when the first one came. It is less than calls wait for a queue that moves.
const gatherMost = 800 * time.Millisecond

// arrive has a queue serve that this node has opened. With the first shard of several, the queue as a whole serves.
func (n *Nodes) arrive(ctx context.Context, q *Queue) error {
	e, whole := n.e, (*Sharded)(nil)
	shards := int(q.config.Load().Shards)
	if _, number := queue.CutShard(q.name); number == 0 && shards > 1 {
		err := e.catalogue.CatchUp(ctx) // it has all groups that are in use
		if err == nil {
			whole, err = e.newSharded(q.name)
		}
		if err != nil {
			return err
		}
		whole.arrived = n.node.Now()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quarantine = e.quarantine.without(q.id)
	e.register(q)
	if whole != nil {
		e.join(whole, shards)
	}
	return nil
}

// gathering says that a queue has just come, and some of its shards are still on their way.
func (n *Nodes) gathering(row *store.QueueRow) bool {
	n.e.mu.RLock()
	s := n.e.sharded[row.Name]
	n.e.mu.RUnlock()
	if s == nil || s.arrived == 0 || n.node.Now()-s.arrived > gatherMost {
		return false
	}
	for number := 2; number <= int(s.count.Load()); number++ {
		if further := n.known.Load().byName[rowName(s.name, number)]; further != nil && !n.serves(further.Shard) {
			return true
		}
	}
	return false
}

// gather completes the queues of several shards that are here: each shard goes by the settings of the first, and one that the
// catalogue does not have is made again, empty. Both are left undone when a node dies between two shards. The caller holds n.mu.
func (n *Nodes) gather(ctx context.Context) {
	n.e.mu.RLock()
	defer n.e.mu.RUnlock()
	for _, s := range n.e.sharded {
		first := n.e.queues[s.name]
		if first == nil || s.deleting.Load() {
			continue
		}
		settings := *first.config.Load()
		for number := 2; number <= int(s.count.Load()); number++ {
			name := rowName(s.name, number)
			if n.known.Load().byName[name] == nil {
				n.start(ctx, first.id, func() error { return n.e.remake(ctx, name) })
			}
			if q := n.e.queues[name]; q != nil && *q.config.Load() != settings {
				n.start(ctx, q.id, func() error { return n.follows(ctx, first, q) })
			}
		}
	}
}

// follows gives a shard the settings of the first one.
func (n *Nodes) follows(ctx context.Context, first, q *Queue) error {
	n.e.changing.Lock()
	defer n.e.changing.Unlock()
	if err := q.putSettings(ctx, *first.config.Load()); err != nil {
		return fmt.Errorf("settings of %s: %w", q.name, err)
	}
	return nil
}

// here fails if the first shard has gone to another node: the groups that this one knows may be old.
func (s *Sharded) here() error {
	s.e.mu.RLock()
	defer s.e.mu.RUnlock()
	if s.e.nodes == nil || s.e.sharded[s.name] == s {
		return nil
	}
	return absentQueue(s.e, s.name)
}
