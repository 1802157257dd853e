package main

import (
	"context"
	"fmt"
	"strconv"

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
		last = fmt.Sprintf("last round at %s, %d submissions and %d values checked so "+
			"far", moment(*r.LastRoundAt), r.Submissions, r.Values)
	}
	line := fmt.Sprintf("%s, %d drifts", last, r.Drifts)
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
