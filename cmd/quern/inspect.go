package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/check"
)

// errEnough ends a listing that has what was asked for.
var errEnough = errors.New("enough")

// inspectCommand looks into the journal of a queue.
func inspectCommand(a *app) *cobra.Command {
	var dir string
	o := check.JournalOptions{Options: check.Options{Now: time.Now}}
	limit := 0
	c := &cobra.Command{
		Use: "inspect", Short: "Show what the journal of a queue has, in the data directory of a stopped server", Args: cobra.NoArgs,
		Long: "Show the operations in the journal of a queue, each with the position of its batch and its time: what was inserted, " +
			"completed,\nreturned and ended since the last checkpoint forgot what was before. The server must be stopped; nothing in the " +
			"directory changes.\nThe queue may be one that a server cannot open: a damaged batch is said to be one, and those behind it " +
			"are shown.",
		Example: "  quern inspect --data /var/lib/quern --queue default\n" +
			"  quern inspect --data /var/lib/quern --submission 7530822246248580517 -o jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usageError{errors.New("--data is missing: say which data directory to look into")}
			}
			n := 0
			err := check.Journal(cmd.Context(), dir, o, func(op check.Op) error {
				if n++; limit > 0 && n > limit {
					return errEnough
				}
				return printOp(a, op)
			})
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		},
	}
	c.Flags().StringVar(&dir, "data", "", "the data directory; no server may use it")
	c.Flags().StringVar(&o.Queue, "queue", engine.DefaultQueue, "the queue")
	c.Flags().StringVar(&o.Submission, "submission", "", "only operations on this submission")
	c.Flags().Uint64Var(&o.After, "after", 0, "only operations behind this position")
	c.Flags().StringVar(&o.Work, "work", "", "the folder for a copy of the journal; by default that of temporary files")
	c.Flags().IntVarP(&limit, "limit", "n", 0, "at most so many operations; 0: all")
	a.formatFlag(c, formatTable, formatJSONL)
	return c
}

func printOp(a *app, op check.Op) error {
	if a.format == formatJSONL {
		return json.NewEncoder(a.out).Encode(op)
	}
	_, err := fmt.Fprintln(a.out, op)
	return err
}
