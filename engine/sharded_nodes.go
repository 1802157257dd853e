package engine

// A queue of several shards in a cluster. Each shard has an owner of its own, so one queue can use several machines. Every node has a
// Sharded of every such queue. It learns from the catalogue how many shards there are and which shard has a group, and from the other nodes
// which of them serves a shard. This knowledge may be late: the shard itself refuses groups that it does not have.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// divide keeps the Sharded of all queues in line with the catalogue.
func (n *Nodes) divide(known *knownQueues) error {
	var errs []error
	for name, row := range known.byName {
		if _, number := queue.CutShard(name); number == 0 && row.Settings.Shards > 1 {
			errs = append(errs, n.divided(row))
		}
	}
	n.e.mu.change(func() {
		for name, s := range n.e.sharded {
			if row := known.byName[name]; (row == nil || row.Created != s.created) && !s.deleting.Load() {
				delete(n.e.sharded, name)
			}
		}
	})
	return errors.Join(errs...)
}

// divided keeps the Sharded of one queue in line with its row.
func (n *Nodes) divided(row *store.QueueRow) error {
	n.e.mu.RLock()
	s := n.e.sharded[row.Name]
	n.e.mu.RUnlock()
	if s != nil && s.created == row.Created {
		if int(s.count.Load()) < int(row.Settings.Shards) {
			n.e.mu.change(func() { n.e.join(s, int(row.Settings.Shards)) })
		}
		return s.follow()
	}
	s, err := n.e.newSharded(row.Name, row.Created)
	if err == nil {
		n.e.mu.change(func() { n.e.join(s, int(row.Settings.Shards)) })
	}
	return err
}

// gather completes the queues of several shards, which a node that died between two shards left incomplete. Each shard here gets the
// settings of the first one. A shard that the catalogue does not have is made again, empty. The caller holds n.mu.
func (n *Nodes) gather(ctx context.Context) {
	n.e.mu.RLock()
	defer n.e.mu.RUnlock()
	known := n.known.Load()
	for _, s := range n.e.sharded {
		row, first := known.byName[s.name], n.e.queues[s.name]
		if row == nil || s.deleting.Load() {
			continue
		}
		if first != nil && row.Settings != *first.config.Load() {
			n.start(ctx, first.id, func() error { n.e.noteSettings(first); return n.refresh() })
			continue
		}
		for number := 2; number <= int(s.count.Load()); number++ {
			name := rowName(s.name, number)
			if first != nil && known.byName[name] == nil {
				n.start(ctx, first.id, func() error { return n.e.remake(ctx, name) })
			}
			if q := n.e.queues[name]; q != nil && *q.config.Load() != row.Settings {
				n.start(ctx, q.id, func() error { return n.takeSettings(ctx, q) })
			}
		}
	}
}

// takeSettings gives a shard the settings that the catalogue has of the first one.
func (n *Nodes) takeSettings(ctx context.Context, q *Queue) error {
	n.e.changing.Lock()
	defer n.e.changing.Unlock()
	whole, _ := queue.CutShard(q.name)
	row := n.known.Load().byName[whole]
	if row == nil {
		return nil
	}
	if err := q.putSettings(ctx, row.Settings); err != nil {
		return fmt.Errorf("settings of %s: %w", q.name, err)
	}
	return nil
}

// settings are those of the queue, as its first shard has them. If another node serves that, they are the catalogue's copy.
func (s *Sharded) settings() (*queue.Settings, error) {
	first, err := s.shard(1)
	if err == nil {
		return first.config.Load(), nil
	}
	if known := s.e.nodes.queues(); known != nil && known.byName[s.name] != nil {
		return &known.byName[s.name].Settings, nil
	}
	all, _ := s.shards()
	for _, q := range all {
		if q != nil {
			return q.config.Load(), nil
		}
	}
	return nil, err
}

// Several says that a name is that of a queue of several shards.
func (l *Lookup) Several(name string) bool { return l.several(name) != nil }

func (l *Lookup) several(name string) *Sharded {
	l.n.e.mu.RLock()
	defer l.n.e.mu.RUnlock()
	return l.n.e.sharded[name]
}

// Seen waits until this node has seen an owner of each shard of a queue. It knows of new shards before it sees who has them.
func (l *Lookup) Seen(ctx context.Context, name string, most time.Duration) error {
	s := l.several(name)
	for waited := time.Duration(0); s != nil && waited < most && l.unseen(s); waited += seenLook {
		if waited == 0 {
			l.n.node.Hasten()
		}
		if pause(ctx, seenLook); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// seenLook is how often Seen looks whether a new shard has an owner.
const seenLook = 10 * time.Millisecond

// unseen says that a shard has no owner yet, as far as this node knows.
func (l *Lookup) unseen(s *Sharded) bool {
	owners, known := l.n.node.View().Owners, l.n.known.Load()
	for i := range int(s.count.Load()) {
		if row := known.byName[s.rows[i]]; row != nil && owners[row.Shard].Epoch == 0 {
			return true
		}
	}
	return false
}

// GroupHome names the shard of a group, as it is asked: "orders~2"; "": there is no such group. With create, a group that is
// not there gets a shard.
func (l *Lookup) GroupHome(queueName, group string, create bool) (string, error) {
	s := l.several(queueName)
	if s == nil {
		return "", nil
	}
	if create {
		if err := s.place([]string{group}, 0); err != nil {
			return "", err
		}
	}
	if s.groups.of(group) == 0 {
		learnGroups(s) // another node may have placed it just now
	}
	if number := s.groups.of(group); number > 0 {
		return queue.ShardName(s.name, number), nil
	}
	return "", nil
}

// Names are those of the shards, as they are asked: "orders~1".
func (s *Sharded) Names() []string {
	names := make([]string, s.count.Load())
	for i := range names {
		names[i] = queue.ShardName(s.name, i+1)
	}
	return names
}

// Spread says that other nodes serve shards of the queue, or that no node serves some of them at this moment.
func (s *Sharded) Spread() bool {
	if s.e.nodes == nil {
		return false
	}
	all, _ := s.shards()
	return slices.Contains(all, nil)
}

// HomeOf names the shard that has a submission, as it is asked: "orders~2". A submission of no shard of this queue goes to the first one,
// which does not know it.
func (s *Sharded) HomeOf(id queue.SubmissionID) string {
	return queue.ShardName(s.name, max(1, s.e.NumberIn(s.name, id)))
}

// farAt is the node that serves a shard that this node does not; nil: none does at this moment.
func (s *Sharded) farAt(number int) *Elsewhere {
	known := s.e.nodes.queues()
	if known == nil || known.byName[s.rows[number-1]] == nil {
		return nil
	}
	at := s.e.nodes.elsewhere(known.byName[s.rows[number-1]])
	if at == nil || at.Node == "" {
		return nil
	}
	return at
}
