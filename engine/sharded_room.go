package engine

// Room for new groups in a queue of several shards. A shard with as many groups as the setting groups_per_shard is full, and
// gets no new group while another one is open. While open shards have room for fewer new groups than spare_groups, one more
// shard is prepared, up to max_shards:
//
//	every second ─► roomFor decides, from counts and settings ─► at most one shard is prepared
//
// An insert does not wait for that. If all shards are full, new groups go to the one with the least to do: the queue overruns.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	// roomEvery is how often the server looks whether a queue needs another shard.
	roomEvery = time.Second

	// roomAgain is the pause after a shard could not be prepared, such as on a full disk.
	roomAgain = 30 * time.Second
)

// room is the room for new groups in the shards of a queue, and the action that follows.
type room struct {
	free    int64 // new groups until all open shards are full; meaningless if shards are never full
	overrun bool  // a new group goes to a shard that is full
	prepare bool  // another shard is to be prepared
}

// shardRoom is a shard as roomFor sees it.
type shardRoom struct {
	groups int
	closed bool // offline or draining: it takes no new group
}

// isFull says that a shard with so many groups gets no new one while another is open.
func isFull(groups int, settings *queue.Settings) bool {
	return settings.GroupsPerShard > 0 && int64(groups) >= settings.GroupsPerShard
}

// roomFor decides for a queue with these shards. It is the only place that does.
func roomFor(shards []shardRoom, settings *queue.Settings) (r room) {
	if settings.GroupsPerShard == 0 {
		return r
	}
	for _, s := range shards {
		if !s.closed {
			r.free += max(0, settings.GroupsPerShard-int64(s.groups))
		}
	}
	r.overrun = r.free == 0
	r.prepare = r.free < settings.SpareGroups && len(shards) < min(int(settings.MaxShards), queue.MaxQueueShards)
	return r
}

// roomIn looks at the shards of the queue. A shard that no node serves at this moment counts as serving, because it only moves. One in
// quarantine has no room.
func roomIn(s *Sharded, settings *queue.Settings) room {
	shards := make([]shardRoom, s.count.Load())
	s.e.mu.RLock()
	for i := range shards {
		shards[i].closed = s.e.quarantine.find(s.rows[i]) != nil || settings.Drains(i+1)
	}
	s.e.mu.RUnlock()
	s.groups.mu.RLock()
	defer s.groups.mu.RUnlock()
	for i := range shards {
		shards[i].groups = s.groups.count[i]
	}
	return roomFor(shards, settings)
}

// overrunText says that new groups of the queue go to shards that are full; "": they do not.
func overrunText(s *Sharded, settings *queue.Settings) string {
	if !roomIn(s, settings).overrun {
		return ""
	}
	text := fmt.Sprintf("all shards are full: each has %d groups or more, and takes new ones all the same", settings.GroupsPerShard)
	if s.count.Load() < queue.MaxQueueShards {
		return text + "; a larger shards or max_shards makes room"
	}
	return text + "; a larger groups_per_shard makes room"
}

// Overrun says that new groups of a queue go to shards that are full; "": they do not.
func (x *Sharding) Overrun(name string) string {
	s := x.whole(name)
	if s == nil {
		return ""
	}
	settings, err := s.settings()
	if err != nil {
		return ""
	}
	return overrunText(s, settings)
}

// firsts are the queues of several shards whose first shard is served here: this server answers for the queue as a whole.
func (x *Sharding) firsts() map[*Sharded]*Queue {
	x.of.mu.RLock()
	defer x.of.mu.RUnlock()
	all := map[*Sharded]*Queue{}
	for name, s := range x.sharded {
		if q := x.of.queues[name]; q != nil {
			all[s] = q
		}
	}
	return all
}

// overruns says that new groups of the queue of a first shard go to shards that are full: 1, or 0.
func overruns(q *Queue) float64 {
	if many := q.many.Load(); many != nil && roomIn(many, q.config.Load()).overrun {
		return 1
	}
	return 0
}

// overruns are the checks of queues that overrun. They serve, so these checks fail nothing.
func (x *Sharding) overruns() (checks []Check) {
	for s, first := range x.firsts() {
		if text := overrunText(s, first.config.Load()); text != "" {
			checks = append(checks, Check{api.Check{Name: "shards of " + s.name, Detail: text}, true})
		}
	}
	slices.SortFunc(checks, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	return checks
}

// prepareShards prepares at most one shard for each queue that needs one, and whose first shard is served here.
func (x *Sharding) prepareShards(ctx context.Context) {
	for s := range x.firsts() {
		now := x.of.options.Now()
		if now.Before(s.tryAgain) {
			continue
		}
		if err := prepareShard(ctx, s); err != nil && ctx.Err() == nil {
			s.tryAgain = now.Add(roomAgain)
			x.of.options.Logger.Warn("another shard could not be prepared; the server tries again", "queue", s.name, "error", err,
				"again_in", roomAgain)
		}
	}
}

// prepareShard adds a shard if the queue needs one. It makes the same change as an operator that raises the setting shards, so a kill at
// any step leaves the same: an empty shard that the next attempt uses.
func prepareShard(ctx context.Context, s *Sharded) error {
	first, err := s.shard(1)
	if err != nil || s.deleting.Load() || !roomIn(s, first.config.Load()).prepare { // the node of the first shard does it
		return nil
	}
	s.e.changing.Lock()
	defer s.e.changing.Unlock()
	first, err = s.shard(1)
	if err != nil {
		return nil
	}
	settings := *first.config.Load()
	if !roomIn(s, &settings).prepare { // an operator was faster
		return nil
	}
	settings.Shards = uint8(s.count.Load()) + 1
	s.preparing.Store(int32(settings.Shards))
	defer s.preparing.Store(0)
	if _, err := s.e.configure(ctx, first, settings); err != nil {
		return err
	}
	s.e.options.Logger.Info("another shard is open for new groups", "queue", s.name, "shard", settings.Shards)
	return nil
}

// Preparing is the number of the shard of a queue that is being made, and that no call goes to yet; 0: there is none. If a kill left it
// half made, the next attempt makes the rest.
func (x *Sharding) Preparing(name string) int {
	s := x.whole(name)
	if s == nil {
		return 0
	}
	next := int(s.count.Load()) + 1
	if int(s.preparing.Load()) == next {
		return next
	}
	if next > queue.MaxQueueShards {
		return 0
	}
	x.of.mu.RLock()
	defer x.of.mu.RUnlock()
	if row := s.rows[next-1]; x.of.queues[row] != nil || x.of.nodes.queues().row(row) != nil {
		return next
	}
	return 0
}
