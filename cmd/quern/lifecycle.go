package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// lifecycleCommand shows the life-cycle worker and has it try parked actions again.
func lifecycleCommand(a *app) *cobra.Command {
	c := a.queueCommand(&cobra.Command{
		Use: "lifecycle", Short: "Show the state of the life-cycle worker, by kind of action", Args: cobra.NoArgs,
		Long: "Show the state of the queue's life-cycle worker, by kind of action. The worker parks an action that fails\n" +
			"repeatedly. 'quern lifecycle parked' lists parked actions, and 'quern lifecycle retry' runs them again once you\n" +
			"have fixed the cause.",
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.Lifecycle(ctx, a.queueName())
			return printLaidOut(a, got, err, printLifecycle)
		}),
	})
	c.AddCommand(lifecycleParkedCommand(a), lifecycleRetryCommand(a))
	return c
}

func printLifecycle(a *app, got *api.Lifecycle) error {
	state := "serving"
	if got.Degraded {
		state = "degraded: inserts are refused"
	}
	say(a.out, "%s, %.1f s behind; suspects: %d shelved, %d lent of %d (%.0f slots)\n", state,
		got.LagSeconds, got.Suspects.Shelved, got.Suspects.Lent, got.Suspects.Quota, got.Suspects.Slots)
	say(a.out, "counters recounted: %s\n\n", recountLine(&got.Recount))
	header := []string{"KIND", "PENDING", "LAG", "DONE", "STALE", "PARKED", "FAILURES", "ERROR"}
	return printList(a, got.Kinds, header, func(k api.LifecycleKind) []string {
		return []string{k.Kind, number(k.Pending), strconv.FormatFloat(k.LagSeconds, 'f', 1, 64) + " s", number(k.Done),
			number(k.Stale), number(k.Parked), number(k.Failed), k.Error}
	})
}

// recountLine is how far the recounts of counters have come, in a line.
func recountLine(r *api.Recount) string {
	last := "no round is over yet"
	if r.LastRoundAt != nil {
		last = fmt.Sprintf("last round at %s, %s and %s checked so far", moment(*r.LastRoundAt),
			several(r.Submissions, "submission"), several(r.Values, "value"))
	}
	line := last + ", " + several(r.Drifts, "drift")
	if d := r.Newest; d != nil {
		of := d.Scope
		switch {
		case d.Submission != "":
			of += " " + d.Submission
		case d.Value != nil:
			of += fmt.Sprintf(" %s=%s", d.Key, d.Value)
		}
		line += fmt.Sprintf("; the newest at %s: %s of %s was %d, is %d", moment(d.At), d.Counter, of, d.Kept, d.Recounted)
	}
	if r.Stopped {
		line += "; stopped, as one broke off: see the server's log"
	}
	return line
}

func lifecycleParkedCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use: "parked", Short: "List parked actions with their errors, the oldest first", Args: cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.Lifecycle(ctx, a.queueName())
			if err != nil {
				return err
			}
			return printList(a, got.Parked, []string{"KIND", "ABOUT", "INDEX", "SINCE", "ERROR"}, func(p api.ParkedAction) []string {
				return []string{p.Kind, p.Submission + p.Rule + p.Schedule, ifAny(p.Index, number), moment(p.Since), p.Error}
			})
		}),
	})
}

func lifecycleRetryCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "retry", Short: "Retry all parked actions", Args: cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			n, err := c.RetryParked(ctx, a.queueName())
			if err != nil {
				return err
			}
			say(a.out, "tried again: %s\n", several(n, "action"))
			return nil
		}),
	}
	a.queueFlags(c)
	return c
}

func durationsCommand(a *app) *cobra.Command {
	var meta []string
	c := a.queueCommand(&cobra.Command{
		Use:   "durations",
		Short: "Show how long chunks waited and ran in the last half hour",
		Long: "Show how long chunks waited for their first reservation, and how long consumers then held them: the median, the\n" +
			"95th percentile, the longest and a histogram of the last 30 to 60 minutes.",
		Example: "  quern durations --meta company=7",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := parseMeta(meta)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			d, err := c.Durations(cmd.Context(), a.queueName(), m)
			return printLaidOut(a, d, err, printDurations)
		},
	})
	c.Flags().StringArrayVarP(&meta, "meta", "m", nil, "only those of submissions with this value of metadata, `KEY=VALUE`; one at most")
	return c
}

// durationKind is one kind of durations under its name.
type durationKind struct {
	name string
	of   *api.DurationCounts
}

func printDurations(a *app, d *api.Durations) error {
	say(a.out, "since %s\n\n", moment(d.Since))
	kinds := []durationKind{{"wait", &d.Wait}, {"run", &d.Run}}
	text := func(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
	if err := printList(a, kinds, []string{"KIND", "COUNT", "P50", "P95", "LONGEST"}, func(k durationKind) []string {
		return []string{k.name, number(k.of.Count), text(k.of.P50MS), text(k.of.P95MS), text(k.of.MaxMS)}
	}); err != nil {
		return err
	}
	type bar struct {
		kind string
		api.DurationBucket
	}
	var bars []bar
	for _, k := range kinds {
		for _, b := range k.of.Buckets {
			bars = append(bars, bar{k.name, b})
		}
	}
	say(a.out, "\n")
	return printList(a, bars, []string{"KIND", "BELOW", "COUNT"}, func(b bar) []string {
		return []string{b.kind, text(b.BelowMS), number(b.Count)}
	})
}
