package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// groupsCommand is the parent of the commands on groups of submissions.
func groupsCommand(a *app) *cobra.Command {
	var (
		limit limited
		set   groupFlags
		move  groupMove
	)
	groups := resource[api.Group]{
		parent: "groups", word: "GROUP", ofQueue: true, limit: &limit,
		header: []string{"GROUP", "SHARD", "SUBMISSIONS", "AT MOST", "WAITING", "AT MOST", "IN FLIGHT"},
		row: func(g api.Group) []string {
			return []string{g.Group, shardOf(g), number(g.Submissions), ifAny(g.Limits.Submissions, number), number(g.Waiting),
				ifAny(g.Limits.Waiting, number), number(g.InFlight)}
		},
		list: does("list", "List the groups of a queue, and the shard that has each",
			func(ctx context.Context, c call) (all[api.Group], error) { return c.Groups(ctx, c.queue), nil }).with(func(c *cobra.Command) {
			limit.flags(c, 100, "groups")
		}),
		fields: func(g api.Group) [][2]string {
			return [][2]string{{"group", g.Group}, {"shard", shardOf(g)}, {"submissions", number(g.Submissions)},
				{"most submissions", ifAny(g.Limits.Submissions, number)}, {"waiting", number(g.Waiting)},
				{"most waiting", ifAny(g.Limits.Waiting, number)}, {"most bytes", ifAny(g.Limits.Bytes, number)},
				{"in flight", number(g.InFlight)}, {"description", g.Description},
				{"changed", moment(g.ChangedAt)}}
		},
		offer: func(g api.Group) (word, note string) { return g.Group, number(g.Waiting) + " waiting" },
		one: []action[*api.Group]{
			does("get GROUP", "Show one group",
				func(ctx context.Context, c call) (*api.Group, error) { return c.Group(ctx, c.queue, c.args[0]) }),
			does("set GROUP", "Create a group, or change its limits and description; others stay", set.ask).with(set.flags),
			does("move GROUP", "Move a group to another shard, as soon as it has no open submissions", move.ask).with(move.flags),
		},
		remove: does("delete GROUP", "Delete a group that has no open submissions", func(ctx context.Context, c call) (none, error) {
			return none{}, client.DeleteGroup(ctx, c.Client, c.queue, c.args[0], client.Condition{})
		}),
	}
	return parent(&cobra.Command{Use: "groups", Short: "Show the groups of submissions, and set their limits",
		Long: "List the groups of a queue, and set their limits. A submission names its group with --group, or with the metadata\n" +
			"group=NAME. In a queue with several shards, all submissions of a group are in one shard."}, groups.commands(a)...)
}

// shardOf is the shard of a group, and where it moves to when it is empty.
func shardOf(g api.Group) string {
	if g.MovingTo == 0 {
		return number(g.Shard)
	}
	return fmt.Sprintf("%d, then %d", g.Shard, g.MovingTo)
}

// groupMove says where a group is to go.
type groupMove struct{ shard uint8 }

func (m *groupMove) flags(c *cobra.Command) {
	c.Flags().Uint8Var(&m.shard, "shard", 0, fmt.Sprintf("the `NUMBER` of the new shard, 1 to %d", queue.MaxQueueShards))
	c.Long = "Move a group to another shard of its queue. It moves as soon as it has no open submissions. Until then, its work goes\n" +
		"on where it is, and 'quern groups get' shows the new shard. To give a move up, name the shard that has the group."
	c.Example = "  quern groups move acme -Q orders --shard 3"
	_ = c.MarkFlagRequired("shard")
}

func (m *groupMove) ask(ctx context.Context, c call) (*api.Group, error) {
	return client.MoveGroup(ctx, c.Client, c.queue, c.args[0], m.shard)
}

// groupFlags are the settings of a group.
type groupFlags struct {
	quotaFlags
	description string
}

// quotaFlags say how much may be open of a group, or of a value of a meta key.
type quotaFlags struct {
	waiting, submissions, bytes string
	given                       func(name string) bool
}

func (f *quotaFlags) flags(c *cobra.Command) {
	f.given = c.Flags().Changed
	c.Flags().StringVar(&f.waiting, "most-waiting", "", "most chunks that may wait for a consumer: `N` from 1, or none")
	c.Flags().StringVar(&f.bytes, "most-bytes", "", "most bytes of contents and attachments of open submissions: `N` from 1, or none")
	c.Flags().StringVar(&f.submissions, "most-submissions", "", "most submissions that may be open: `N` from 1, or none")
}

// change changes a quota as the flags say.
func (f *quotaFlags) change(quota *api.GroupLimits) (err error) {
	if f.given("most-waiting") {
		if quota.Waiting, err = groupLimit("--most-waiting", f.waiting); err != nil {
			return err
		}
	}
	if f.given("most-submissions") {
		if quota.Submissions, err = groupLimit("--most-submissions", f.submissions); err != nil {
			return err
		}
	}
	if f.given("most-bytes") {
		quota.Bytes, err = groupLimit("--most-bytes", f.bytes)
	}
	return err
}

func (f *groupFlags) flags(c *cobra.Command) {
	f.quotaFlags.flags(c)
	c.Long = "Create a group, or change its limits and description. Those that you do not name stay. The server refuses an insert\n" +
		"that would exceed a limit. Existing work stays."
	c.Example = "  quern groups set acme --most-waiting 10000\n" +
		"  quern groups set acme --most-submissions none --description 'the first customer'"
	c.Flags().StringVar(&f.description, "description", "", "a `TEXT` for people")
}

// change changes settings as the flags say.
func (f *groupFlags) change(s *api.PutGroupRequest) (err error) {
	if f.given("description") {
		s.Description = f.description
	}
	return f.quotaFlags.change(&s.Limits)
}

func groupLimit(flag, text string) (*uint64, error) {
	if text == noSetting {
		return nil, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 || n > queue.MaxQuota {
		return nil, usageError{fmt.Errorf("%s %q is neither a whole number from 1 to %d nor none", flag, text, uint64(queue.MaxQuota))}
	}
	return &n, nil
}

// ask changes what is set, on the condition that no other client does meanwhile.
func (f *groupFlags) ask(ctx context.Context, c call) (*api.Group, error) {
	if err := f.change(new(api.PutGroupRequest)); err != nil { // says what is wrong before anything is asked
		return nil, err
	}
	now, err := c.Group(ctx, c.queue, c.args[0])
	switch {
	case client.CodeOf(err) == api.CodeUnknownGroup:
		now = new(api.Group)
	case err != nil:
		return nil, err
	}
	settings := api.PutGroupRequest{Description: now.Description, Limits: now.Limits}
	if err := f.change(&settings); err != nil {
		return nil, err
	}
	return client.PutGroup(ctx, c.Client, c.queue, c.args[0], settings, client.Condition{ETag: now.ETag, Absent: now.ETag == ""})
}

func shardRow(s api.Shard) []string {
	return []string{number(s.Shard), s.Queue, s.State, number(s.Groups), number(s.SubmissionsOpen), number(s.Ready),
		number(s.Reserved), s.Owner, inCommands.Replace(s.Reason)}
}

// shardsCommand lists the shards of a queue.
func shardsCommand(a *app) *cobra.Command {
	list := resource[api.Shard]{
		ofQueue: true, header: []string{"SHARD", "ASK AS", "STATE", "GROUPS", "SUBMISSIONS", "READY", "RESERVED", "NODE", "REASON"},
		row: shardRow,
		list: does("shards", "List the shards of a queue", func(ctx context.Context, c call) (all[api.Shard], error) {
			list, err := c.Shards(ctx, c.queue)
			return listed(list), err
		}).with(func(c *cobra.Command) {
			c.Long = "List the shards of a queue. 'quern queue set orders --shards 4' sets their number.\n" +
				"ASK AS is the name of one shard alone. Use it in the place of a queue's name. NODE is the node of a\n" +
				"cluster that serves the shard. A full shard has --groups-per-shard groups: new groups go to others."
		}),
	}
	shards := list.commands(a)[0]
	for _, x := range []action[none]{
		does("drain NUMBER...", "Give shards no new groups, and move their groups to other shards", drains(client.DrainShard)),
		does("reopen NUMBER...", "Give shards that drain new groups again", drains(client.ReopenShard)),
	} {
		shards.AddCommand((&resource[api.Shard]{parent: "shards", word: "NUMBER", ofQueue: true, remove: x}).commands(a)...)
	}
	return shards
}

// drains is the call that has a shard drain, or no longer.
func drains(ask func(context.Context, *client.Client, string, int) error) func(context.Context, call) (none, error) {
	return func(ctx context.Context, c call) (none, error) {
		shard, err := strconv.Atoi(c.args[0])
		if err != nil || shard < 1 || shard > queue.MaxQueueShards {
			return none{}, usageError{fmt.Errorf("%q is no number of a shard, 1 to %d", c.args[0], queue.MaxQueueShards)}
		}
		return none{}, ask(ctx, c.Client, c.queue, shard)
	}
}
