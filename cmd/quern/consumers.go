package main

import (
	"cmp"
	"context"
	"math"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// consumersCommand is the parent of the commands on consumers.
func consumersCommand(a *app) *cobra.Command {
	var limit limited
	consumers := resource[api.Consumer]{
		parent: "consumers", word: "CONSUMER", ofQueue: true, fields: consumerFields, limit: &limit,
		offer:  func(x api.Consumer) (string, string) { return x.Consumer, x.State },
		header: []string{"CONSUMER", "STATE", "ORDER", "RESERVED", "OVERDUE", "OLDEST", "SINCE", "SEEN"},
		row: func(x api.Consumer) []string {
			return []string{x.Consumer, x.State, orderOf(&x), number(x.Reserved), number(x.Overdue),
				moment(x.OldestReservedAt), moment(x.AttachedSince), moment(x.LastSeenAt)}
		},
		list: does("list", "List consumers that are attached, hold chunks or have an order",
			func(ctx context.Context, c call) (all[api.Consumer], error) { return c.Consumers(ctx, c.queue), nil },
		).with(func(c *cobra.Command) { limit.flags(c, 1000, "consumers") }),
		one: []action[*api.Consumer]{
			does("drain CONSUMER...", "Tell a consumer to finish its chunks and leave",
				func(ctx context.Context, c call) (*api.Consumer, error) {
					return c.DrainConsumer(ctx, c.queue, c.args[0])
				}),
			does("quiet CONSUMER...", "Give a consumer no new work; it stays attached",
				func(ctx context.Context, c call) (*api.Consumer, error) {
					return c.QuietConsumer(ctx, c.queue, c.args[0])
				}),
			does("resume CONSUMER...", "Let a consumer work again after drain or quiet",
				func(ctx context.Context, c call) (*api.Consumer, error) {
					return c.ResumeConsumer(ctx, c.queue, c.args[0])
				}),
		},
	}
	return parent(&cobra.Command{Use: "consumers", Short: "List consumers and their chunks, drain consumers, take " +
		"their chunks back"},
		append(consumers.commands(a), consumersShowCommand(a), consumersReleaseCommand(a))...)
}

// orderOf is the order that a consumer has, in a word.
func orderOf(x *api.Consumer) string {
	switch {
	case x.Draining:
		return "drain"
	case x.Quiet:
		return "quiet"
	}
	return ""
}

func consumersShowCommand(a *app) *cobra.Command {
	var limit limited
	c := a.queueCommand(&cobra.Command{
		Use: "show CONSUMER", Short: "Show a consumer and its chunks, the oldest reservation first", Args: cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := readConsumer(ctx, c, a.queueName(), args[0], limit.most)
			if err := printLaidOut(a, d, err, printConsumer); err != nil || d.Next == "" {
				return err
			}
			limit.total = func() uint64 { return d.Reserved }
			return limit.sayMore(a)
		}),
	})
	limit.flags(c, 100, "chunks")
	return c
}

func printConsumer(a *app, d *api.ConsumerDetail) error {
	if err := printOne(a, d.Consumer, consumerFields); err != nil {
		return err
	}
	say(a.out, "\n")
	return printList(a, d.Items, []string{"CHUNK", "ATTEMPT", "SINCE", "DEADLINE", "META"}, func(h api.HeldChunk) []string {
		return []string{h.Submission + "/" + number(h.Index), number(h.Attempt), moment(h.ReservedAt),
			moment(h.Deadline), metaLine(h.Meta)}
	})
}

// readConsumer reads a consumer and at most `most` of the chunks that it holds. 0 means all.
func readConsumer(ctx context.Context, c *client.Client, queue, name string, most int) (*api.ConsumerDetail, error) {
	const page = 1000
	limit := cmp.Or(most, math.MaxInt)
	d, err := c.Consumer(ctx, queue, name, "", min(limit, page))
	for err == nil && d.Next != "" && len(d.Items) < limit {
		var more *api.ConsumerDetail
		if more, err = c.Consumer(ctx, queue, name, d.Next, min(limit-len(d.Items), page)); err == nil {
			d.Items, d.Next = append(d.Items, more.Items...), more.Next
		}
	}
	return d, err
}

func consumerFields(x api.Consumer) [][2]string {
	return present([][2]string{
		{"consumer", x.Consumer}, {"state", x.State},
		{"order", orderOf(&x)}, {"attached since", moment(x.AttachedSince)}, {"away since", moment(x.AwaySince)},
		{"lost at", moment(x.LostAt)}, {"last seen", moment(x.LastSeenAt)}, {"oldest reservation", moment(x.OldestReservedAt)},
		{"reserved", number(x.Reserved)}, {"overdue", number(x.Overdue)},
	})
}

func consumersReleaseCommand(a *app) *cobra.Command {
	var actor, reason string
	c := &cobra.Command{
		Use: "release CONSUMER...", Short: "Take back all chunks of a consumer without counting an attempt; it may " +
			"get others", Args: cobra.MinimumNArgs(1),
		RunE: a.each(func(ctx context.Context, c *client.Client, name string) error {
			n, err := c.ReleaseConsumer(ctx, a.queueName(), name, a.actor(actor), reason)
			if err != nil {
				return err
			}
			err = say(a.out, "%s: %s released\n", name, several(n, "chunk"))
			return err
		}),
	}
	a.queueFlags(c)
	c.Flags().StringVar(&actor, "actor", "", "name of the person who takes it back, for the audit log (default: "+
		"the user's name)")
	c.Flags().StringVar(&reason, "reason", "", "reason, for the audit log")
	return c
}
