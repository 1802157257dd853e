package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// followEvery is how often a submission is asked about while a person looks on.
const followEvery = 500 * time.Millisecond

// watchCommand shows a submission, or a queue, as it moves.
func watchCommand(a *app) *cobra.Command {
	var every time.Duration
	c := &cobra.Command{
		Use:   "watch [ID]",
		Short: "Follow a submission until it ends, or a queue's numbers until interrupted",
		Long: "Show the progress of submission ID until it ends. The exit code is 0 when it completed and 6 otherwise.\n" +
			"Without an ID, print the queue's numbers every --every until interrupted, with rates per second.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < 100*time.Millisecond || every > time.Hour {
				return usageError{fmt.Errorf("--every is %s; it must be from 100ms to 1h", every)}
			}
			if len(args) == 0 {
				return watchQueue(cmd.Context(), a, every)
			}
			return withSubmission(a, args[0], func(c *client.Client, id string) error {
				return watchSubmission(cmd.Context(), a, c, id)
			})
		},
	}
	a.queueFlags(c)
	a.formatFlag(c, formatTable, formatJSONL)
	a.quietFlag(c)
	c.Flags().DurationVar(&every, "every", time.Second, "interval between the queue's numbers, 100ms to 1h")
	return c
}

// watchSubmission shows a bar until the submission ends and prints how it did.
func watchSubmission(ctx context.Context, a *app, c *client.Client, id string) error {
	first, err := c.Get(ctx, id)
	if err != nil {
		return err
	}
	bar := a.goOn("chunks", int64(first.Chunks), int64(first.Done), time.Now)
	s, err := followSubmission(ctx, c, id, func(s api.Submission) { bar.Set(int64(s.Done), submissionNote(s)) })
	bar.End()
	if err != nil {
		return err
	}
	if err := printOne(a, *s, submissionFields); err != nil {
		return err
	}
	return endError(*s)
}

// followSubmission waits until the submission ends. show gets every state seen, the first and the last included.
func followSubmission(ctx context.Context, c *client.Client, id string, show func(api.Submission)) (*api.Submission, error) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		s, err := c.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		show(*s)
		if s.State != api.StateOpen {
			return s, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("submission %s is still open: %w", id, context.Cause(ctx))
		}
	}
}

// endError is the exit code of a submission that was waited for.
func endError(s api.Submission) error {
	if s.State == api.StateCompleted {
		return nil
	}
	text := "submission " + s.ID + " ended as " + s.State
	if s.Failure != "" {
		text += ": " + s.Failure
	}
	return endedError{code: exitNotDone, text: text}
}

// statsCommand prints a queue's numbers once.
func statsCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   "stats",
		Short: "Print the statistics of a queue",
		Args:  cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Stats(ctx, a.queueName())
			return printAnswer(a, s, err, statsFields)
		}),
	})
}

func statsFields(s api.Stats) [][2]string {
	return [][2]string{
		{"ready", number(s.Ready)},
		{"paused", number(s.Paused)},
		{"blocked", number(s.Blocked)},
		{"waiting", number(s.Waiting)},
		{"reserved", number(s.Reserved)},
		{"dead", number(s.Dead)},
		{"open submissions", number(s.SubmissionsOpen)},
		{"consumers waiting", number(s.ConsumersWaiting)},
		{"oldest ready", time.Duration(s.OldestReadySeconds * float64(time.Second)).Round(time.Second).String()},
		{"inserted", number(s.InsertedTotal)},
		{"reservations", number(s.ReservedTotal)},
		{"done", number(s.DoneTotal)},
		{"failed attempts", number(s.FailedTotal)},
		{"expired", number(s.ExpiredTotal)},
		{"released", number(s.ReleasedTotal)},
		{"submissions inserted", number(s.SubmissionsInsertedTotal)},
		{"submissions ended", number(s.SubmissionsEndedTotal)},
		{"commits", number(s.CommitsTotal)},
		{"journal bytes", number(s.JournalBytes)},
		{"store bytes", number(s.StoreBytes)},
	}
}

// watchQueue prints a line every so often: rows under one header for people, objects for scripts.
func watchQueue(ctx context.Context, a *app, every time.Duration) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var before look
	for n := 0; ; n++ {
		s, err := c.Stats(ctx, a.queueName())
		if ctx.Err() != nil {
			return nil // being interrupted is how this command ends
		}
		if err != nil {
			return err
		}
		now := look{s, time.Now()}
		if err := printQueueLine(a, n, now, before); err != nil {
			return err
		}
		before = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look has the numbers of a queue at a time.
type look struct {
	*api.Stats
	at time.Time
}

// headerEvery repeats the header, so that it stays on the screen.
const headerEvery = 20

func printQueueLine(a *app, n int, s, before look) error {
	if a.format == formatJSONL {
		return printJSON(a.out, s.Stats, "")
	}
	const layout = "%12s %10s %10s %8s %10s %10s %10s %9s\n"
	if n%headerEvery == 0 {
		if err := say(a.out, layout, "READY", "WAITING", "RESERVED", "DEAD", "OPEN SUBM", "DONE/S",
			"FAILED/S", "CONSUMERS"); err != nil {
			return err
		}
	}
	err := say(a.out, layout, number(s.Ready), number(s.Waiting), number(s.Reserved), number(s.Dead), number(s.SubmissionsOpen),
		perSecond(s, before, func(s *api.Stats) uint64 { return s.DoneTotal }),
		perSecond(s, before, func(s *api.Stats) uint64 { return s.FailedTotal }), number(s.ConsumersWaiting))
	return err
}

// perSecond is the rate of a total between two looks. It is "-" at the first look, which has none before it, and after a restart of
// the server, which begins its totals at 0.
func perSecond(now, before look, total func(*api.Stats) uint64) string {
	if before.Stats == nil || total(now.Stats) < total(before.Stats) {
		return "-"
	}
	return fmt.Sprintf("%.0f", float64(total(now.Stats)-total(before.Stats))/now.at.Sub(before.at).Seconds())
}
