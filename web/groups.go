package web

// Groups and shards. A queue of several shards keeps each group in one of them. A group cannot be
// split, so its shard counts everything about it exactly.
//
// One shard can be asked by itself wherever a path names a queue: orders~2 is the second shard of
// orders. Calls that only one shard can answer are refused for the queue as a whole, and the refusal
// names a shard. These three lists are of the whole queue.

import (
	"context"
	"net/url"
	"reflect"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// groups are the handlers of groups and shards.
type groups struct {
	engine *engine.Engine
	nodes  *forwarding
}

func (x groups) routes(r *router) {
	register(r, operation{id: "list-shards", shards: shardsOfQueue,
		method: "GET", path: "/v1/queues/{queue}/shards", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues, summary: "List the shards of a queue",
		about: "A queue has one shard, or as many as its setting `shards` says. `queue` is the name with which " +
			"you ask one shard alone."}, x.shards)
	register(r, operation{id: "list-groups", shards: joinedList(groupsOverShards),
		method: "GET", path: "/v1/queues/{queue}/groups", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues, compress: true, summary: "List the groups of a queue",
		about: "A submission names its group with `group`, or with the meta key `group`. All submissions of a " +
			"group are in one shard of the queue. The list is in the order of the names."}, x.list)
	register(r, operation{id: "get-group", method: "GET", path: "/v1/queues/{queue}/groups/{group}", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues, summary: "Read a group"}, x.get)
	register(r, operation{id: "put-group", act: act{"group.set", "{group}"}, brings: true, method: "PUT",
		path: "/v1/queues/{queue}/groups/{group}", scope: scopeOperate, narrow: inQueue | noTenants, tag: tagQueues,
		creates: reflect.TypeFor[api.Group](), summary: "Create a group, or change its limits and description",
		about: putGroupAbout}, x.put)
	register(r, operation{id: "delete-group", act: act{"group.delete", "{group}"}, method: "DELETE",
		path: "/v1/queues/{queue}/groups/{group}", scope: scopeOperate, narrow: inQueue | noTenants, tag: tagQueues,
		summary: "Delete an empty group",
		about: "The server forgets its limits and description. If the group has open submissions, the answer is 409. " +
			"If-Match works as for PUT."}, x.delete)
	register(r, operation{id: "move-group", act: act{"group.move", "{group}"}, brings: true, method: "POST",
		path: "/v1/queues/{queue}/groups/{group}/move", scope: scopeOperate, narrow: inQueue | noTenants,
		tag: tagQueues, summary: "Move a group to another shard", about: moveGroupAbout}, x.move)
	register(r, operation{id: "drain-shard", act: act{"queue.change", ""}, brings: true, method: "POST",
		path: "/v1/queues/{queue}/shards/{shard}/drain", scope: scopeAdmin, tag: tagQueues,
		summary: "Drain a shard", about: "The shard gets no new groups, and its groups move to other " +
			"shards as soon as they have no open submissions. This changes the setting `draining_shards`."}, x.drain)
	register(r, operation{id: "reopen-shard", act: act{"queue.change", ""}, brings: true, method: "DELETE",
		path: "/v1/queues/{queue}/shards/{shard}/drain", scope: scopeAdmin, tag: tagQueues,
		summary: "Stop draining a shard", about: "The shard gets new groups again."}, x.reopen)
}

// shardInput names a shard by its number.
type shardInput struct {
	QueuePath
	Shard int `path:"shard" minimum:"1" maximum:"16" doc:"Number of the shard"`
}

// drain answers without a body: it only changes a setting, and the groups move later. The list of shards shows how
// many groups are left.
func (x groups) drain(ctx context.Context, in *shardInput) (*struct{}, error) {
	return nil, x.engine.DrainShard(ctx, in.Queue, in.Shard, true)
}

func (x groups) reopen(ctx context.Context, in *shardInput) (*struct{}, error) {
	return nil, x.engine.DrainShard(ctx, in.Queue, in.Shard, false)
}

const moveGroupAbout = "The group moves as soon as it has no open submissions; until then it stays, and `moving_to` " +
	"names the new shard. No work is held back meanwhile. New submissions of the group then go to the new shard, " +
	"with the limits of the group. To give a move up, send the number of the shard that has the group. The answer is " +
	"409 while a schedule inserts into the group. For 24 hours after a move, a group can only move back."

// A move is asked of the node that serves the group now. That node moves the group, perhaps much later, and asks the
// node of the new shard to take over the limits. The answer says where the group is when it is sent: an empty group
// has moved by then, and so a client that knows that its group is empty need not ask again.
type moveGroupInput struct {
	GroupPath
	Body decoded[api.MoveGroupRequest]
}

// move needs no condition such as If-Match: it overwrites nothing that a person wrote, and may be sent again.
func (x groups) move(ctx context.Context, in *moveGroupInput) (*tagged[api.Group], error) {
	group, err := x.engine.MoveGroup(ctx, in.Queue, in.Group, int(in.Body.value.Shard))
	return answeredTagged(apiGroup(&group), group.Settings.ETag, err)
}

// Shards are few, 16 at most, so their list has one page (shardsOfQueue). This is the list of one shard alone, or of a
// queue that has only one.
func (x groups) shards(ctx context.Context, in *QueuePath) (*output[api.Page[api.Shard]], error) {
	info, err := x.engine.Shard(ctx, in.Queue)
	return answeredPage(engine.Page[engine.ShardInfo]{Items: []engine.ShardInfo{info}}, err, x.apiShard)
}

type listGroupsInput struct {
	QueuePath
	Cursor string `query:"cursor" maxLength:"512" pattern:"^[0-9A-Za-z_-]*$" doc:"Cursor from the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

// A group with no open submission is listed, too: its next submission goes to the same shard.
func (x groups) list(_ context.Context, in *listGroupsInput) (*output[api.Page[api.Group]], error) {
	page, err := x.engine.Groups(in.Queue, in.Cursor, in.Limit)
	return answeredPage(page, err, apiGroup)
}

const putGroupAbout = "The body replaces the limits and the description. `limits.waiting` counts the chunks that no " +
	"consumer has, without those that wait for a retry; `limits.submissions` counts open submissions. The server " +
	"refuses an insert that would exceed a limit, with `limit_reached`, and names the present count (`current`) and " +
	"the limit (`max`). A limit below the present count takes no work away. Submissions of schedules and redriven " +
	"chunks count, but the server does not refuse them."

// GroupPath names a group. It is exported because huma only looks into exported fields.
type GroupPath struct {
	QueuePath
	Group string `path:"group" maxLength:"768" doc:"Name of the group"`
}

func (x groups) get(_ context.Context, in *GroupPath) (*tagged[api.Group], error) {
	group, err := x.engine.Group(in.Queue, in.Group)
	return answeredTagged(apiGroup(&group), group.Settings.ETag, err)
}

type putGroupInput struct {
	GroupPath
	Conditions
	Body decoded[api.PutGroupRequest]
}

func (x groups) put(ctx context.Context, in *putGroupInput) (*taggedCreation[api.Group], error) {
	body := &in.Body.value
	limits, err := quotaOf("/limits", &body.Limits)
	if err != nil {
		return nil, err
	}
	group, created, err := x.engine.PutGroup(ctx, in.Queue, in.Group, body.Description, limits, in.groupGuard)
	return answeredTaggedCreation(apiGroup(&group), group.Settings.ETag, created,
		"/v1/queues/"+in.Queue+"/groups/"+url.PathEscape(in.Group), err)
}

// quotaOf is a quota as the engine has it, which reads 0 as none.
func quotaOf(pointer string, in *api.GroupLimits) (q queue.Quota, err error) {
	for _, of := range []struct {
		name string
		in   *uint64
		to   *uint64
	}{{"/waiting", in.Waiting, &q.Waiting}, {"/submissions", in.Submissions, &q.Submissions},
		{"/bytes", in.Bytes, &q.Bytes}} {
		if of.in == nil {
			continue
		}
		if *of.in == 0 {
			return q, queue.Invalid(pointer+of.name, "is 0; 1 to %d are allowed, or null for none. To refuse "+
				"all, block it with a rule", uint64(queue.MaxQuota))
		}
		*of.to = *of.in
	}
	return q, nil
}

type deleteGroupInput struct {
	GroupPath
	Conditions
}

func (x groups) delete(ctx context.Context, in *deleteGroupInput) (*struct{}, error) {
	return nil, x.engine.DeleteGroup(ctx, in.Queue, in.Group, in.groupGuard)
}

// groupGuard is the engine's question before it changes the settings of a group.
func (c *Conditions) groupGuard(now engine.GroupSettings) error {
	return c.hold("setting for this group", now.Version, now.ETag)
}

// The counts of a shard that is offline are 0: no one can know them.
func (x groups) apiShard(s *engine.ShardInfo) api.Shard {
	return api.Shard{Owner: x.nodes.name(), Shard: s.Number, Queue: s.Name, State: s.State, Reason: s.Reason,
		Groups: uint64(s.Groups), Ready: s.Stats.Ready, Reserved: s.Stats.Reserved,
		SubmissionsOpen: s.Stats.SubmissionsOpen}
}

func apiGroup(g *engine.GroupInfo) api.Group {
	return api.Group{Group: g.Name, Shard: g.Shard, MovingTo: g.MovingTo, Waiting: g.Waiting, InFlight: g.InFlight,
		Submissions: g.Submissions, Description: g.Settings.Description, ETag: g.Settings.ETag,
		ChangedAt: g.Settings.Changed.API(), Limits: g.Settings.Limits.API()}
}
