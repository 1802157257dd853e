package web

// Groups and shards. A queue of several shards keeps each group in one of them. A group is the unit
// that cannot be split, so everything that is counted by group is exact in its shard.
//
// One shard can be asked by itself wherever a path names a queue: orders~2 is the second shard of
// orders. Calls that only one shard can answer are refused for the queue as a whole, and the refusal
// names a shard. These three lists are of the whole queue.

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// groups are the handlers of groups and shards.
type groups struct{ engine *engine.Engine }

func (x groups) routes(r *router) {
	register(r, operation{id: "list-shards", method: "GET", path: "/v1/queues/{queue}/shards", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues, summary: "List the shards of a queue",
		about: "A queue has one shard, or as many as its setting `shards` says. `queue` is the name under which " +
			"one shard alone is asked."}, x.shards)
	register(r, operation{id: "list-groups", method: "GET", path: "/v1/queues/{queue}/groups", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues, compress: true, summary: "List the groups of a queue",
		about: "A submission names its group with `group`, or with the meta key `group`. All submissions of a " +
			"group are in one shard of the queue. The list is in the order of the names."}, x.list)
	register(r, operation{id: "get-group", method: "GET", path: "/v1/queues/{queue}/groups/{group}", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues, summary: "Read a group"}, x.get)
}

// Shards are few, 16 at most, so their list has one page.
func (x groups) shards(ctx context.Context, in *QueuePath) (*output[api.Page[api.Shard]], error) {
	list, err := x.engine.Shards(ctx, in.Queue)
	return answeredPage(engine.Page[engine.ShardInfo]{Items: list}, err, apiShard)
}

type listGroupsInput struct {
	QueuePath
	Cursor string `query:"cursor" maxLength:"512" pattern:"^[0-9A-Za-z_-]*$" doc:"Cursor from the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

// A group with no open submission is listed, too: its next submission goes to the same shard.
func (x groups) list(ctx context.Context, in *listGroupsInput) (*output[api.Page[api.Group]], error) {
	page, err := x.engine.Groups(ctx, in.Queue, in.Cursor, in.Limit)
	return answeredPage(page, err, apiGroup)
}

type getGroupInput struct {
	QueuePath
	Group string `path:"group" maxLength:"256" doc:"Name of the group"`
}

func (x groups) get(_ context.Context, in *getGroupInput) (*output[api.Group], error) {
	group, err := x.engine.Group(in.Queue, in.Group)
	return answered(group, err, apiGroup)
}

// The counts of a shard that is offline are 0: no one can know them.
func apiShard(s *engine.ShardInfo) api.Shard {
	return api.Shard{Shard: s.Number, Queue: s.Name, State: s.State, Reason: s.Reason, Groups: uint64(s.Groups),
		Ready: s.Stats.Ready, Reserved: s.Stats.Reserved, SubmissionsOpen: s.Stats.SubmissionsOpen}
}

func apiGroup(g *engine.GroupInfo) api.Group {
	return api.Group{Group: g.Name, Shard: g.Shard, Waiting: g.Waiting, InFlight: g.InFlight,
		Submissions: g.Submissions}
}
