package engine

// How a queue gets several shards, keeps them over restarts and kills, and is deleted.
//
//	shards are made, one after the other ─► the first one's groups are placed, while inserts wait ─►
//	the setting is in the first shard's journal (from here on it counts) ─► calls go to Sharded
//
// A kill before the setting leaves empty shards, which the next attempt uses. A start makes missing shards, and gives all shards the
// settings of the first.

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// maxShardedName leaves room for the mark and the number of a shard in the name of a queue.
const maxShardedName = queue.MaxQueueNameBytes - len("~16")

// split makes the shards that settings ask for. It returns when the setting is durable in the first one. The caller holds
// e.changing.
func (x *Sharding) split(ctx context.Context, first *Queue, settings queue.Settings) error {
	if err := x.splittable(first, &settings); err != nil {
		return err
	}
	s, err := x.shardedOf(first)
	if err != nil {
		return err
	}
	if err := s.make(ctx, int(settings.Shards), settings); err != nil {
		return err
	}
	first.splitting.Lock()
	defer first.splitting.Unlock()
	if s.number(first) == 1 && first.many.Load() == nil {
		if err := s.adopt(ctx, first); err != nil {
			return err
		}
	}
	if err := first.putSettings(ctx, settings); err != nil {
		return err
	}
	before := int(s.count.Load())
	x.of.mu.change(func() { x.join(s, int(settings.Shards)) })
	for number := before + 1; number <= int(settings.Shards); number++ {
		if err := s.inherit(ctx, number); err != nil { // what was set while the shards were made
			return err
		}
	}
	return nil
}

// errQuotaOfShards refuses quotas that no shard alone could keep.
var errQuotaOfShards = queue.Invalid("/shards", "is more than 1, and max_waiting_chunks, max_open_submissions and "+
	"max_open_bytes need a queue with one shard: each shard would count for itself. Set limits for groups instead")

// splittable says why a queue cannot have this many shards.
func (x *Sharding) splittable(q *Queue, settings *queue.Settings) error {
	shards, now := settings.Shards, q.config.Load().Shards
	switch {
	case shards < now:
		return queue.Invalid("/shards", "is %d, and the queue has %d: the number can only rise. To use fewer shards, name the others in "+
			"draining_shards", shards, now)
	case len(q.name) > maxShardedName:
		return queue.Invalid("/shards", "needs a queue whose name has at most %d bytes: its shards are named after it",
			maxShardedName)
	case settings.Quota() != queue.Quota{}:
		return errQuotaOfShards
	case q.values.limitsBut(queue.GroupKey):
		return queue.Invalid("/shards", "cannot rise while limits or quotas are set for values of other keys than %q: each shard "+
			"would count for itself. Remove them first", queue.GroupKey)
	}
	x.of.mu.RLock()
	defer x.of.mu.RUnlock()
	if user := x.of.forwards.feeds(q.name); user != "" {
		return queue.Invalid("/shards", "cannot rise: the dead letters of the queue %q go on to this one, which has to have one "+
			"shard", user)
	}
	there, more := len(x.of.queues)+len(x.of.quarantine)+len(x.of.nodes.others()), int(shards)-int(now)
	if there+more > queue.MaxQueues {
		return queue.Invalid("/shards", "is too large: each shard counts as a queue, there are %d, and at most %d are allowed",
			there, queue.MaxQueues)
	}
	return nil
}

// shardedOf is the Sharded that a queue belongs to as its first shard, or a new one that no call is sent to yet.
func (x *Sharding) shardedOf(first *Queue) (*Sharded, error) {
	if s := first.many.Load(); s != nil {
		return s, nil
	}
	return x.newSharded(first.name, first.created)
}

func (x *Sharding) newSharded(name string, created queue.Time) (*Sharded, error) {
	s := emptySharded(x.of, name)
	s.created = created
	s.count.Store(1)
	return s, s.follow()
}

// make makes the shards that are missing, up to a number. The caller holds e.changing.
func (s *Sharded) make(ctx context.Context, shards int, settings queue.Settings) error {
	for number := 1; number <= shards; number++ {
		name := rowName(s.name, number)
		s.e.mu.RLock()
		there := s.e.queues[name] != nil || s.e.quarantine.find(name) != nil || s.e.nodes.queues().row(name) != nil
		id, err := s.e.freeShard(s.e.nodes != nil)
		s.e.mu.RUnlock()
		if !there && err == nil {
			_, err = s.e.createQueue(ctx, store.QueueRow{Name: name, Shard: id, Settings: settings, Created: queue.At(s.e.options.Now())})
		}
		if there {
			err = nil // it needs no number
		}
		if err == nil && (!there || number > int(s.count.Load())) {
			err = s.inherit(ctx, number)
		}
		if err != nil {
			return fmt.Errorf("shard %d: %w", number, err)
		}
	}
	return nil
}

// join makes calls go to a queue of this many shards. The caller holds e.mu, or no other goroutine has the engine yet.
func (x *Sharding) join(s *Sharded, shards int) {
	s.count.Store(int32(shards))
	x.sharded[s.name] = s
	for number := 1; number <= shards; number++ {
		if q := x.of.queues[rowName(s.name, number)]; q != nil {
			q.many.Store(s)
		}
	}
	close(s.grown)
	s.grown = make(chan struct{})
}

// openSharded joins the shards of every queue that has several, and makes those that are missing. No other goroutine has
// the engine yet.
func (x *Sharding) openSharded(ctx context.Context, rows []store.QueueRow) error {
	for _, row := range rows {
		settings := row.Settings
		if q := x.of.queues[row.Name]; q != nil {
			settings = *q.config.Load()
		}
		if _, number := queue.CutShard(row.Name); number > 0 || settings.Shards <= 1 {
			continue
		}
		s, err := x.newSharded(row.Name, row.Created)
		if err == nil {
			err = s.make(ctx, int(settings.Shards), settings)
		}
		if err != nil {
			return fmt.Errorf("queue %s: %w", row.Name, err)
		}
		x.join(s, int(settings.Shards))
		if err := errors.Join(s.configure(ctx, settings), s.recall()); err != nil {
			return fmt.Errorf("queue %s: %w", row.Name, err)
		}
	}
	return nil
}

// recall puts the groups of all open work into the catalogue. It has them already, unless a repair of a damaged catalogue has lost rows.
func (s *Sharded) recall() error {
	all, _ := s.shards()
	for i, q := range all {
		if q == nil {
			continue
		}
		names, err := q.openGroups()
		if err == nil {
			err = s.place(names, i+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remake makes a shard again, empty, after one in quarantine was deleted. For the name of any other queue it does nothing.
func (x *Sharding) remake(ctx context.Context, name string) error {
	x.of.changing.Lock()
	defer x.of.changing.Unlock()
	whole, _ := queue.CutShard(name)
	x.of.mu.RLock()
	s := x.sharded[whole]
	x.of.mu.RUnlock()
	if s == nil || s.deleting.Load() {
		return nil
	}
	first, err := s.shard(1)
	if err != nil && x.of.nodes != nil {
		return nil // the node that serves the first shard does it (gather)
	}
	if err != nil {
		if first, err = s.one(); err != nil {
			return err
		}
	}
	count := int(s.count.Load())
	if err := s.make(ctx, count, *first.config.Load()); err != nil {
		return err
	}
	x.of.mu.change(func() { x.join(s, count) })
	return nil
}

// configure gives all shards that serve the settings of the first.
func (s *Sharded) configure(ctx context.Context, settings queue.Settings) error {
	all, _ := s.shards()
	for _, q := range all {
		if q == nil {
			continue
		}
		if err := q.putSettings(ctx, settings); err != nil {
			return err
		}
	}
	s.tellSettings(ctx)
	return nil
}

// delete deletes a queue of several shards. It looks at all of them first, so that it deletes none if another one must stay. If one must
// stay all the same, it makes the others again, empty as they were.
func (s *Sharded) delete(ctx context.Context) error {
	all, refused := s.sources()
	if refused != nil {
		return refused
	}
	first, err := s.shard(1)
	if err != nil {
		return err
	}
	own, _ := s.shards()
	open := s.farLoads(own)
	for i, q := range own {
		if q != nil {
			open[i] = q.shard.Stats().SubmissionsOpen
		}
		if n, known := open[i]; !known || n > 0 {
			return s.stays(i+1, n)
		}
	}
	s.deleting.Store(true)
	defer s.deleting.Store(false)
	for number := len(all); number >= 1; number-- {
		if err := s.deleteShard(ctx, number, all[number-1]); err != nil {
			s.e.changing.Lock()
			defer s.e.changing.Unlock()
			settings := *first.config.Load()
			err = errors.Join(err, s.make(ctx, len(all), settings))
			s.e.mu.change(func() { s.e.join(s, len(all)) })
			return err
		}
	}
	s.e.mu.change(func() { delete(s.e.sharded, s.name) })
	return nil
}

// deleteShard deletes one shard, where it is served.
func (s *Sharded) deleteShard(ctx context.Context, number int, at source) error {
	if far, other := at.(farShard); other {
		return s.askJSON(context.WithoutCancel(ctx), farMost, far.url, askDelete, deleteAsked{number}, &struct{}{})
	}
	return deleteQueue(ctx, s.e, rowName(s.name, number), false)
}

// stays says why a queue cannot be deleted: a shard has open submissions, or their number is not known.
func (s *Sharded) stays(number int, open uint64) error {
	if open > 0 {
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("Shard %d of the queue has %s. The queue can be "+
			"deleted when none is open.", number, queue.Exactly(open, "open submission"))}
	}
	return &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf("The node that serves shard %d of the queue does not answer. "+
		"Nothing was done: send this again in a moment.", number)}
}

// oneShardOnly refuses a change of a single shard of a queue.
func oneShardOnly(name string) error {
	whole, number := queue.CutShard(name)
	if number == 0 {
		return nil
	}
	return queue.Invalid("/path/queue", "names shard %d of the queue %q: this is done to the whole queue", number, whole)
}
