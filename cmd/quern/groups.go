package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
)

// groupsCommand is the parent of the commands on groups of submissions.
func groupsCommand(a *app) *cobra.Command {
	var limit limited
	groups := resource[api.Group]{
		parent: "groups", word: "GROUP", ofQueue: true, limit: &limit,
		header: []string{"GROUP", "SHARD", "SUBMISSIONS", "WAITING", "IN FLIGHT"},
		row: func(g api.Group) []string {
			return []string{g.Group, number(g.Shard), number(g.Submissions), number(g.Waiting), number(g.InFlight)}
		},
		list: does("list", "List the groups of a queue, and the shard that has each",
			func(ctx context.Context, c call) (all[api.Group], error) { return c.Groups(ctx, c.queue), nil }).with(func(c *cobra.Command) {
			limit.flags(c, 100, "groups")
		}),
		fields: func(g api.Group) [][2]string {
			return [][2]string{{"group", g.Group}, {"shard", number(g.Shard)}, {"submissions", number(g.Submissions)},
				{"waiting", number(g.Waiting)}, {"in flight", number(g.InFlight)}}
		},
		offer: func(g api.Group) (word, note string) { return g.Group, number(g.Waiting) + " waiting" },
		one: []action[*api.Group]{does("get GROUP", "Show one group",
			func(ctx context.Context, c call) (*api.Group, error) { return c.Group(ctx, c.queue, c.args[0]) })},
	}
	return parent(&cobra.Command{Use: "groups", Short: "Show the groups of submissions",
		Long: "List the groups of a queue. A submission names its group with --group, or with the metadata group=NAME. In a\n" +
			"queue with several shards, all submissions of a group are in one shard."}, groups.commands(a)...)
}

// shardsCommand lists the shards of a queue.
func shardsCommand(a *app) *cobra.Command {
	list := resource[api.Shard]{
		ofQueue: true, header: []string{"SHARD", "ASK AS", "STATE", "GROUPS", "SUBMISSIONS", "READY", "RESERVED", "REASON"},
		row: func(s api.Shard) []string {
			return []string{number(s.Shard), s.Queue, s.State, number(s.Groups), number(s.SubmissionsOpen), number(s.Ready),
				number(s.Reserved), s.Reason}
		},
		list: does("shards", "List the shards of a queue", func(ctx context.Context, c call) (all[api.Shard], error) {
			list, err := c.Shards(ctx, c.queue)
			return listed(list), err
		}).with(func(c *cobra.Command) {
			c.Long = "List the shards of a queue. 'quern queue set orders --shards 4' sets their number.\n" +
				"ASK AS is the name of one shard alone. Use it in the place of a queue's name."
		}),
	}
	return list.commands(a)[0]
}
