package engine

// What lists of groups and of shards say. A queue of one shard has both, too: its groups are the values of the group's key.

import (
	"context"
	"encoding/base64"
	"maps"
	"reflect"
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
	placed      bool // a shard of several has it, and no one deleted it
}

// exists says whether there is something of a group, or someone created it, or a shard of several has it.
func (g *GroupInfo) exists() bool { return g.placed || g.Submissions > 0 || g.Settings.Version > 0 }

// Groups lists the groups of a queue by name.
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
	if q, one := work.(*Queue); one {
		return q.openGroups()
	}
	g := work.(*Sharded).groups
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.AppendSeq(make([]string, 0, len(g.byName)), maps.Keys(g.byName)), nil
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

// groupIn counts the work of a group. Shard 0: there is no such group. Of a shard that does not serve it knows no
// counts.
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
	info.placed = q.many.Load() != nil && !q.shard.Settings.Deleted(name)
	return info
}

// ShardInfo is what a list of shards says of one.
type ShardInfo struct {
	Number int
	Name   string // under which it is asked
	State  string // api.ShardOpen and so on
	Reason string // why it is offline
	Groups int
	Stats  queue.Stats
}

// Shards lists the shards of a queue.
func (x *Sharding) Shards(ctx context.Context, queueName string) (list []ShardInfo, err error) {
	work, err := x.Work(queueName)
	if err != nil {
		return nil, err
	}
	if q, one := work.(*Queue); one {
		names, err := q.groupNames(ctx)
		return []ShardInfo{shardInfo(q, nil, ShardInfo{Number: 1, Name: queueName, Groups: len(names)})}, err
	}
	s := work.(*Sharded)
	all, _ := s.shards()
	for i, q := range all {
		info := ShardInfo{Number: i + 1, Name: queue.ShardName(s.name, i+1)}
		s.groups.mu.RLock()
		info.Groups = s.groups.count[i]
		s.groups.mu.RUnlock()
		_, refused := s.shard(i + 1)
		list = append(list, shardInfo(q, refused, info))
	}
	return list, nil
}

// shardInfo adds how a shard stands; q is nil if it does not serve, and refused says why.
func shardInfo(q *Queue, refused error, info ShardInfo) ShardInfo {
	if info.State = api.ShardOpen; q != nil {
		info.Stats, refused = q.Stats(), q.shard.Health()
		if q.config.Load().Draining {
			info.State = api.ShardDraining
		}
	}
	if refused != nil {
		info.State, info.Reason = api.ShardOffline, refused.Error()
	}
	return info
}

// Stats are the numbers of a queue, added up over the shards that serve. Of several there is no forecast.
func (x *Sharding) Stats(queueName string) (api.Stats, error) {
	work, err := x.Work(queueName)
	if err != nil {
		return api.Stats{}, err
	}
	if q, one := work.(*Queue); one {
		return q.Stats().Stats, nil
	}
	all, refused := work.(*Sharded).shards()
	sum, serving := api.Stats{Empty: 1}, 0
	for _, q := range all {
		if q != nil {
			addStats(&sum, q.Stats().Stats)
			serving++
		}
	}
	if serving == 0 {
		return sum, refused
	}
	return sum, nil
}

// addStats adds counts. The age of the oldest is the largest of all, a flag is set where one shard sets it, and a queue is
// empty if all shards are.
func addStats(sum *api.Stats, one api.Stats) {
	empty := min(sum.Empty, one.Empty)
	to, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(one)
	for i := range to.NumField() {
		switch field := to.Field(i); field.Kind() {
		case reflect.Uint64:
			field.SetUint(field.Uint() + from.Field(i).Uint())
		case reflect.Uint8:
			field.SetUint(max(field.Uint(), from.Field(i).Uint()))
		case reflect.Float64:
			field.SetFloat(max(field.Float(), from.Field(i).Float()))
		}
	}
	sum.Empty, sum.Forecast = empty, nil
}
