package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

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
