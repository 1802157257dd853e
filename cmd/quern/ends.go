package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// endsCommand follows the ends of a queue's submissions.
func endsCommand(a *app) *cobra.Command {
	var (
		f    client.Ends
		meta []string
	)
	c := &cobra.Command{
		Use:   "ends",
		Short: "Follow the ends of submissions",
		Args:  cobra.NoArgs,
		Long: "Print each submission of a queue when it ends, in the order of the ends, until interrupted. The command " +
			"continues after a lost\n" +
			"connection or a restart of the server, and misses and repeats none. The first column is the place of the end, " +
			"for \"--after\".\n" +
			"\"--after 0\" begins with everything that retention has kept.",
		Example: "  quern ends --meta company=7\n  quern ends --after 1234-56 -o jsonl",
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			var err error
			if f.Meta, err = parseMeta(meta); err != nil {
				return err
			}
			if err := checkStates(f.States); err != nil {
				return err
			}
			if _, ok := queue.ParseEndPlace(f.After); f.After != "" && !ok {
				return usageError{fmt.Errorf("--after %q is not the place of an end, such as 1234-56, or 0", f.After)}
			}
			f.Queue = a.queueName()
			return followEnds(ctx, a, c, f)
		}),
	}
	a.queueFlags(c)
	a.formatFlag(c, formatTable, formatJSONL)
	c.Flags().StringVar(&f.After, "after", "",
		"begin after this place; 0: with everything that retention has kept (default: with the next end)")
	c.Flags().StringSliceVar(&f.States, "state", nil, "only these states: "+strings.Join(queue.SubmissionStateNames(), ", "))
	c.Flags().StringArrayVarP(&meta, "meta", "m", nil, "only submissions with this metadata, `KEY=VALUE`, repeatable")
	c.Flags().StringVar(&f.Schedule, "schedule", "", "only submissions of this schedule")
	return c
}

// endLine is an end as a line of JSON.
type endLine struct {
	Place string       `json:"place,omitempty"`
	Gap   *api.EndsGap `json:"gap,omitempty"`

	Submission *api.Submission `json:"submission,omitempty"`
}

// followEnds prints ends as they come.
func followEnds(ctx context.Context, a *app, c *client.Client, f client.Ends) error {
	for end, err := range f.Follow(ctx, c) {
		if err != nil {
			return err
		}
		line := endLine{Place: end.Place, Gap: end.Gap}
		if end.Gap == nil {
			line.Submission = &end.Submission
		}
		switch {
		case a.format == formatJSONL:
			err = printJSON(a.out, line, "")
		case end.Gap != nil:
			err = say(a.err, "quern: ends between %s and %s are missing: the queue's retention has removed them\n",
				end.Gap.After, end.Gap.Until)
		default:
			err = say(a.out, "%s  %s\n", end.Place, strings.Join(submissionRow(end.Submission), "  "))
		}
		if err != nil {
			return err
		}
	}
	return nil // being interrupted is how following ends
}
