package main

import (
	"context"
	"errors"
	"io"
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
		Long: "Print each submission of a queue when it ends, in the order of the ends, until interrupted. The command\n" +
			"continues after a lost connection or a restart of the server, and prints each end once. The first column is the\n" +
			"place of the end, for \"--after\". \"--after 0\" begins with everything that retention has kept.",
		Example: "  quern ends --meta company=7\n  quern ends --after 1-3-1234-56 -o jsonl",
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			var err error
			if f.Meta, err = parseMeta(meta); err != nil {
				return err
			}
			if err := checkStates(f.States); err != nil {
				return err
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
			err = say(a.err, "quern: ends between %s and %s are missing: the queue's retention has removed them, or a restore has lost "+
				"them\n", end.Gap.After, end.Gap.Until)
		default:
			err = say(a.out, "%s  %s\n", end.Place, strings.Join(submissionRow(end.Submission), "  "))
		}
		if err != nil {
			return err
		}
	}
	return nil // being interrupted is how following ends
}

// waitCommand waits for the end of many submissions.
func waitCommand(a *app) *cobra.Command {
	var first bool
	c := a.serverCommand(&cobra.Command{
		Use:   "wait [ID...]",
		Short: "Wait until submissions have ended",
		Long: "Wait until all submissions have ended, or with --any the first of them, and show their states. They may be in " +
			"several queues. Without\n" +
			"IDs, read them from stdin, one per line, as submit prints them. With \"-o jsonl\", print each when it ends.\n" +
			"The exit code is 0 when all printed submissions completed, and 6 otherwise.",
		Example: "  quern submit < lines.txt | quern wait\n  quern wait --any -o jsonl 7529572615950696448 7529572616001028096",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			ids, err := waitIDs(a, args)
			if err != nil {
				return err
			}
			if err := answers(ctx, c); err != nil {
				return err
			}
			return showEnds(ctx, a, c, ids, first)
		}),
	})
	c.Flags().BoolVar(&first, "any", false, "return when the first has ended")
	return c
}

// waitIDs are those of the command line, or the lines of stdin.
func waitIDs(a *app, ids []string) ([]string, error) {
	if len(ids) == 0 {
		if isTerminal(a.in) {
			return nil, usageError{errors.New("nothing to wait for: give IDs, or lines on stdin")}
		}
		for lines := newLineReader(a.in, '\n'); ; {
			line, err := lines.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			ids = append(ids, string(line))
		}
	}
	for _, id := range ids {
		if _, err := queue.ParseSubmissionID(id); err != nil {
			return nil, usageError{err}
		}
	}
	return ids, nil
}

// showEnds shows how the submissions end. The first that is unknown, or did not complete, makes the exit code, after all the others.
func showEnds(ctx context.Context, a *app, c *client.Client, ids []string, first bool) error {
	var ended []api.Submission
	var bad error
	for s, err := range c.WaitMany(ctx, ids) {
		switch unknown := client.CodeOf(err) == api.CodeUnknownSubmission; {
		case err != nil && !unknown:
			return err
		case unknown:
			if bad == nil {
				bad = err
			}
			continue
		}
		if bad == nil {
			bad = endError(s)
		}
		if a.format == formatJSONL {
			if err := printJSON(a.out, s, ""); err != nil {
				return err
			}
		} else {
			ended = append(ended, s)
		}
		if first {
			break
		}
	}
	if a.format != formatJSONL {
		if err := printList(a, ended, submissionHeader(), submissionRow); err != nil {
			return err
		}
	}
	return bad
}
