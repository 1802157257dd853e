package engine

// The lists of groups and of shards. A queue of one shard has both, too: its groups are the values of the group's key.

import (
	"context"
	"encoding/base64"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// GroupInfo is a group and the shard that has it.
type GroupInfo struct {
	Name        string
	Shard       int
	Waiting     uint64 // chunks that no consumer has, but for those that wait for a retry
	InFlight    uint64
	Submissions uint64 // open ones
	Settings    GroupSettings
	MovingTo    int  // the shard that it moves to when nothing of it is open; 0: it stays
	placed      bool // a shard of several has it, and no one deleted it
}

// exists says whether a group has open work, or someone created it, or a shard of several has it.
func (g *GroupInfo) exists() bool { return g.placed || g.Submissions > 0 || g.Settings.Version > 0 }

// Groups lists the groups of a queue, or of one shard, by name.
func (x *Sharding) Groups(queueName, cursor string, limit int) (page Page[GroupInfo], err error) {
	if limit, err = validLimit(limit); err != nil {
		return page, err
	}
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return page, badCursor()
	}
	work, err := x.Work(queueName)
	if err != nil {
		return page, err
	}
	names, err := groupsOf(work)
	if err != nil {
		return page, err
	}
	slices.Sort(names)
	from, found := slices.BinarySearch(names, string(after))
	if found {
		from++
	}
	for _, name := range names[from:] {
		info := groupIn(work, name)
		if !info.exists() {
			continue
		}
		if len(page.Items) == limit {
			page.Next = base64.RawURLEncoding.EncodeToString([]byte(page.Items[limit-1].Name))
			break
		}
		page.Items = append(page.Items, info)
	}
	return page, nil
}

// groupsOf are the names that groups of a queue, or of one shard, may have.
func groupsOf(work Work) ([]string, error) {
	s, several := work.(*Sharded)
	number := 0 // all
	if !several {
		q := work.(*Queue)
		if s = q.many.Load(); s == nil {
			return q.openGroups()
		}
		number = s.number(q)
	}
	s.groups.mu.RLock()
	defer s.groups.mu.RUnlock()
	var names []string
	for name, at := range s.groups.byName {
		if number == 0 || at == number {
			names = append(names, name)
		}
	}
	return names, nil
}

// Group is one group of a queue. CodeUnknownGroup: no open submission is of it, and no one created it.
func (x *Sharding) Group(queueName, name string) (info GroupInfo, err error) {
	work, err := x.Work(queueName)
	if err != nil {
		return info, err
	}
	if info = groupIn(work, name); !info.exists() {
		return GroupInfo{}, noGroup(queueName, name)
	}
	return info, nil
}

// ShardOf is the number of the shard that has a submission; 0: its queue has only one, or is not here.
func (x *Sharding) ShardOf(id queue.SubmissionID) int {
	x.of.mu.RLock()
	q := x.of.shards[id.Shard()]
	x.of.mu.RUnlock()
	if q == nil {
		return 0
	}
	return NumberOf(q)
}

// NumberOf is the number of a shard within its queue; 0: the queue has only this one.
func NumberOf(q *Queue) int {
	many := q.many.Load()
	if many == nil {
		return 0
	}
	return many.number(q)
}

// groupIn counts the work of a group. Shard 0: there is no such group. If the shard does not serve, there are no counts.
func groupIn(work Work, name string) GroupInfo {
	info := GroupInfo{Name: name, Shard: 1}
	q, one := work.(*Queue)
	if s, several := work.(*Sharded); several {
		info.Shard = s.groups.of(name)
		if info.Shard == 0 {
			return info
		}
		q, _ = s.shard(info.Shard)
	} else if one && q.many.Load() != nil {
		if info.Shard = q.many.Load().number(q); q.many.Load().groups.of(name) != info.Shard {
			return GroupInfo{Name: name}
		}
	}
	if q == nil {
		info.placed = true // for all that is known
		return info
	}
	for _, value := range queue.GroupValues(name) {
		info.InFlight += q.shard.Values.Get(queue.MetaEntry{Key: queue.GroupKey, Value: value}).InFlight
	}
	use := q.shard.Settings.Use(name)
	info.Waiting, info.Submissions = use.Waiting, use.Submissions
	set, _ := q.shard.Settings.Group(name)
	info.Settings = groupSettings(&set)
	if moves := q.shard.Settings.GroupRow(name).Moves; !moves.Gone {
		info.MovingTo = int(moves.To)
	}
	info.placed = q.many.Load() != nil && !q.shard.Settings.Deleted(name)
	return info
}

// ShardInfo is the entry of a shard in a list.
type ShardInfo struct {
	Number int
	Name   string // under which it is asked
	State  string // api.ShardOpen and so on
	Reason string // why it is offline
	Groups int
	Stats  queue.Stats
}

// Shard says how a shard stands: the only one of a queue, or one of several.
func (x *Sharding) Shard(ctx context.Context, name string) (info ShardInfo, err error) {
	q, err := x.of.Queue(name)
	if err != nil {
		return info, err
	}
	info = ShardInfo{Number: max(NumberOf(q), 1), Name: name}
	if s := q.many.Load(); s != nil {
		s.groups.mu.RLock()
		info.Groups = s.groups.count[info.Number-1]
		s.groups.mu.RUnlock()
	} else {
		names, err := q.groupNames(ctx)
		if info.Groups = len(names); err != nil {
			return info, err
		}
	}
	return shardInfo(q, info), nil
}

// shardInfo adds how a shard stands.
func shardInfo(q *Queue, info ShardInfo) ShardInfo {
	info.State, info.Stats = api.ShardOpen, q.Stats()
	if q.many.Load() != nil && isFull(info.Groups, q.config.Load()) {
		info.State = api.ShardFull
	}
	if q.config.Load().Drains(info.Number) {
		info.State = api.ShardDraining
	}
	if q.config.Load().Draining {
		info.State = api.ShardDraining
	}
	if refused := q.shard.Health(); refused != nil {
		info.State, info.Reason = api.ShardOffline, refused.Error()
	}
	return info
}
