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

// repairCommand recovers a damaged data directory into a new one.
func repairCommand(a *app) *cobra.Command {
	var dir, to, work string
	var inPlace bool
	c := &cobra.Command{
		Use: "repair", Short: "Recover a damaged data directory into a new one, and list what is lost", Args: cobra.NoArgs,
		Long: repairLong,
		Example: "  quern repair --data /var/lib/quern --to /var/lib/quern.repaired\n" +
			"  quern repair --data /var/lib/quern --to /var/lib/quern.repaired -o json > lost.json\n" +
			"  quern repair --data /var/lib/quern --in-place --to /var/lib/quern.damaged",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" || to == "" {
				return usageError{errors.New("name the data directory with --data, and the folder for its repaired copy with --to")}
			}
			report, err := runRepair(cmd.Context(), a, dir, to, work, inPlace)
			if err != nil {
				return err
			}
			return printRepair(a, report)
		},
	}
	c.Flags().StringVar(&dir, "data", "", "the data directory; no server may use it until it is copied")
	c.Flags().StringVar(&to, "to", "", "new folder for the repaired copy, or with --in-place for the damaged "+
		"directory; it must not exist yet")
	c.Flags().BoolVar(&inPlace, "in-place", false, "swap the repaired copy and the directory at the end; no server "+
		"may use the directory until then")
	c.Flags().StringVar(&work, "work", "", "folder for another copy, which is checked (default: that of temporary files)")
	a.formatFlag(c, formatTable, formatJSON)
	a.quietFlag(c)
	return c
}

const repairLong = `Recover a data directory with damaged or missing files into a new one. The damaged directory stays as it is: the copy
appears at --to once it is finished and checked. With --in-place the two change places in one step, and --to is the damaged one.

The command keeps every readable row with a matching checksum of a damaged store.db or quern.db. It keeps a journal up to its first
damaged or missing batch, and undoes everything after that. The output lists each loss by submission and chunk: lost submissions,
completed chunks to do again, contents, attachments and outputs. For an unreadable part it names the file, the table and the rows. A
queue without its name becomes recovered-NNNN. A queue that cannot be opened at all is empty afterwards. If access tokens may be lost,
requests need one, and the next start writes one to the file admin-token.

A backup loses less if it is younger than the damage. The command cannot repair files from another time or directory: put the right
ones back.

The exit code is 0 when nothing is lost or damaged any more, else 9.`

func runRepair(ctx context.Context, a *app, dir, to, work string, inPlace bool) (*repair.Report, error) {
	o := check.Options{Work: work, Now: time.Now}
	if !a.quiet {
		o.Doing = func(what string) { say(a.err, "%s\n", what) }
	}
	if inPlace {
		return repair.InPlace(ctx, dir, to, o)
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
	if r.Losses == 0 && len(r.Left) == 0 && r.Check.Whole {
		return nil
	}
	return endedError{code: exitDamaged, text: fmt.Sprintf(
		"losses: %d, places in files that could not be kept: %d, faults that are left: %d", r.Losses, len(r.Left), r.Check.Faults)}
}

func printRepaired(a *app, r *repair.Report) {
	for _, f := range r.Files {
		say(a.out, "%s: %s\n  the new file has everything that could be read from it\n", f.File, f.Reason)
	}
	for i := range r.Left {
		say(a.out, "not kept: %s\n", r.Left[i].String())
	}
	for _, j := range r.Journals {
		say(a.out, "queue %s: %s\n  batches up to %d are kept; unreadable batches after that: %d\n",
			j.Queue, j.Reason, j.Kept, j.Unreadable)
	}
	for i := range r.Lost {
		say(a.out, "%s\n", r.Lost[i].String())
	}
	if more := r.Losses - len(r.Lost); more > 0 {
		say(a.out, "and %d more\n", more)
	}
	for _, f := range r.Check.Findings {
		say(a.out, "not repaired: %s\n", f)
	}
	switch {
	case r.To == "":
		say(a.out, "nothing was repaired, and no copy is left\n")
	case r.Old != "":
		say(a.out, "losses: %d; %s is repaired; the damaged original is in %s\n", r.Losses, r.To, r.Old)
	default:
		say(a.out, "losses: %d; the repaired data directory is %s\n", r.Losses, r.To)
	}
}
