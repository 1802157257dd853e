package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/repair"
)

// repairCommand makes a data directory that opens out of one with damaged journals.
func repairCommand(a *app) *cobra.Command {
	var dir, to, work string
	c := &cobra.Command{
		Use: "repair", Short: "Cut damaged journals off where their damage begins, in a copy, and say what is lost", Args: cobra.NoArgs,
		Long: "Make a data directory that a server opens out of one with damaged or missing journals. The directory itself stays as it " +
			"is: the copy\nappears at --to once it is finished and checked. A journal is kept up to its first batch that is damaged or " +
			"missing; what the store\nholds is kept anyway. Everything that was written behind that batch is undone, and listed by " +
			"submission and chunk: submissions that\nare gone, and completed chunks that are to be done again. Of a batch that cannot be " +
			"read only its place is known.\n\nA backup loses less if it is younger than the damage. Damage in store.db and quern.db is " +
			"not repaired: restore a backup.\n\nThe exit code is 0 when nothing is lost and nothing is damaged any more, else 9.",
		Example: "  quern repair --data /var/lib/quern --to /var/lib/quern.repaired\n" +
			"  quern repair --data /var/lib/quern --to /var/lib/quern.repaired -o json > lost.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" || to == "" {
				return usageError{errors.New("name the data directory with --data, and the folder for its repaired copy with --to")}
			}
			report, err := runRepair(cmd.Context(), a, dir, to, work)
			if err != nil {
				return err
			}
			return printRepair(a, report)
		},
	}
	c.Flags().StringVar(&dir, "data", "", "the data directory; no server may use it until it is copied")
	c.Flags().StringVar(&to, "to", "", "the folder that the repaired copy becomes; it must not be there yet")
	c.Flags().StringVar(&work, "work", "", "the folder for another copy, which is checked; by default that of temporary files")
	a.formatFlag(c, formatTable, formatJSON)
	a.quietFlag(c)
	return c
}

func runRepair(ctx context.Context, a *app, dir, to, work string) (*repair.Report, error) {
	o := check.Options{Work: work, Now: time.Now}
	if !a.quiet {
		o.Doing = func(what string) { fmt.Fprintln(a.err, what) }
	}
	return repair.Dir(ctx, dir, to, o)
}

// printRepair prints a report, and is the error of one with losses or damage that is left.
func printRepair(a *app, r *repair.Report) error {
	if a.format == formatJSON {
		if err := printJSON(a.out, r, "  "); err != nil {
			return err
		}
	} else {
		printRepaired(a, r)
	}
	if r.Losses == 0 && r.Check.Whole {
		return nil
	}
	return endedError{code: exitDamaged, text: fmt.Sprintf("%d losses, %d faults that are left", r.Losses, r.Check.Faults)}
}

func printRepaired(a *app, r *repair.Report) {
	for _, j := range r.Journals {
		fmt.Fprintf(a.out, "queue %s: %s\n  everything up to batch %d is kept; %d batches behind it could not be read\n",
			j.Queue, j.Reason, j.Kept, j.Unreadable)
	}
	for i := range r.Lost {
		fmt.Fprintln(a.out, r.Lost[i].String())
	}
	if more := r.Losses - len(r.Lost); more > 0 {
		fmt.Fprintf(a.out, "and %d more\n", more)
	}
	for _, f := range r.Check.Findings {
		fmt.Fprintln(a.out, "not repaired:", f)
	}
	if r.To == "" {
		fmt.Fprintln(a.out, "no journal was repaired, and no copy is left")
	} else {
		fmt.Fprintf(a.out, "%d losses; the repaired data directory is %s\n", r.Losses, r.To)
	}
}
