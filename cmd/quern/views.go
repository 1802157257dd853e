package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// viewsCommand shows what memory strategies take.
func viewsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "views", Short: "List the indexes of strategies with their memory", Args: cobra.NoArgs,
		Long: "List the indexes in memory of a queue's strategies, the largest first: one for each branch in use. Indexes for " +
			"questions only (preview,\n" +
			"explain, why, compare) have a smaller share of the option view-memory of their own.",
		Example: "  quern views\n  quern views --queue encode -o json",
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.Views(ctx, a.queueName())
			return printLaidOut(a, all, err, printViews)
		}),
	}
	a.queueFlags(c)
	a.formatFlag(c, formatTable, formatJSON)
	return c
}

func printViews(a *app, all *api.Views) error {
	say(a.out, "all queues: %s of %s are in use, and by questions %s of %s\n\n", inMiB(all.Bytes),
		inMiB(all.BytesMost), inMiB(all.QuestionBytes), inMiB(all.QuestionBytesMost))
	return printList(a, all.Items, []string{"MEMORY", "OF", "STATE", "BRANCH"}, func(v api.View) []string {
		of, state := "reserves", "built"
		if v.Question {
			of = "questions"
		}
		if !v.Built {
			state = "being built"
		}
		return []string{inMiB(v.Bytes), of, state, v.Branch}
	})
}

func inMiB(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
