package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/check"
)

// checkCommand looks for damage in a data directory, or in a backup.
func checkCommand(a *app) *cobra.Command {
	var dir, work string
	c := &cobra.Command{
		Use: "check [FILE|- [INCREMENT...]]", Short: "Look for damage in a data directory or a backup", Args: cobra.ArbitraryArgs,
		Long: "Look for damage in the data directory of a stopped server, or in a backup. The command changes nothing. It opens " +
			"a copy as a server\n" +
			"would, reads every row, content, attachment and output, and compares every checksum and every counter. You can " +
			"start the server again\n" +
			"once the copy is made. The copy takes as much room as the data, in --work, until the check is over. On a file " +
			"system that shares blocks\n" +
			"between files it takes none.\n\n" +
			"The exit code is 0 when all is well, and 9 when something is damaged or missing. The output lists it by " +
			"submission and chunk.",
		Example: "  quern check --data /var/lib/quern\n  quern check /backups/sunday.tar /backups/monday.tar\n" +
			"  quern check --data /var/lib/quern -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (dir == "") == (len(args) == 0) {
				return usageError{errors.New("name either a data directory with --data, or the file of a backup")}
			}
			report, err := runCheck(cmd.Context(), a, dir, work, args)
			if err != nil {
				return err
			}
			return printCheck(a, report)
		},
	}
	c.Flags().StringVar(&dir, "data", "", "the data directory; no server may use it until the copy is made")
	c.Flags().StringVar(&work, "work", "", "folder for the copy (default: that of temporary files)")
	a.formatFlag(c, formatTable, formatJSON)
	a.quietFlag(c)
	return c
}

func runCheck(ctx context.Context, a *app, dir, work string, args []string) (*check.Report, error) {
	o := check.Options{Work: work, Now: time.Now}
	if !a.quiet {
		o.Doing = func(what string) { say(a.err, "reading %s\n", what) }
	}
	if dir != "" {
		o.Copied = copied(a, dir)
		return check.Dir(ctx, dir, o)
	}
	files, _, err := openBackups(a, args)
	if err != nil {
		return nil, err
	}
	defer files.close()
	return check.Backup(ctx, o, files.from...)
}

// copied shows how much is copied, and says when the directory may be used again.
func copied(a *app, dir string) func(done, total int64) {
	var shown *progress
	return func(done, total int64) {
		if shown == nil {
			shown = a.newProgress("bytes", total, time.Now)
		}
		if shown.Set(done, ""); done == total && !a.quiet {
			shown.End()
			say(a.err, "the copy is made: a server may use %s again\n", dir)
		}
	}
}

// printCheck prints a report, and is the error of one that found something.
func printCheck(a *app, r *check.Report) error {
	if a.format == formatJSON {
		if err := printJSON(a.out, r, "  "); err != nil {
			return err
		}
	} else {
		printFindings(a, r)
	}
	if r.Whole {
		return nil
	}
	return endedError{code: exitDamaged, text: "found " + several(r.Faults, "fault")}
}

func printFindings(a *app, r *check.Report) {
	for _, q := range r.Queues {
		if q.Quarantined {
			say(a.out, "queue %s: cannot be opened\n", q.Name)
			continue
		}
		say(a.out, "queue %s: %s, %d of them open; %s, %s and %s of %s; %s\n", q.Name, several(q.Submissions, "submission"), q.Open,
			several(q.Contents, "content"), several(q.Attachments, "attachment"), several(q.Outputs, "output"), several(q.Bytes, "byte"),
			several(q.Counters, "counter"))
	}
	for _, f := range r.Files {
		say(a.out, "%s: %s\n", f.Path, several(f.Rows, "row"))
	}
	for _, f := range r.Findings {
		say(a.out, "%s\n", f)
	}
	if more := r.Faults - len(r.Findings); more > 0 {
		say(a.out, "and %d more\n", more)
	}
	if r.Whole {
		say(a.out, "nothing is damaged or missing\n")
	}
}
