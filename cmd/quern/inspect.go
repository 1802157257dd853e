package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/queue"
)

// errEnough ends a listing that has as many rows as were asked for.
var errEnough = errors.New("enough")

// The values of inspect's flag --show.
const (
	showOps         = "ops"
	showSubmissions = "submissions"
	showExceptions  = "exceptions"
)

// inspecting are the flags of inspect.
type inspecting struct {
	dir, queue, submission, work, show string
	after                              uint64
	states, meta                       []string
	rows                               bool
	limit, shown                       int
}

// inspectCommand looks into what a data directory keeps of a queue.
func inspectCommand(a *app) *cobra.Command {
	o := inspecting{}
	c := &cobra.Command{
		Use: "inspect", Short: "Show the journal and submissions of a queue, from the data directory of a stopped " +
			"server", Args: cobra.NoArgs,
		Long: "Show the contents of a queue in the data directory of a stopped server, and change nothing. This works even if\n" +
			"no server can open the queue. The command marks damaged parts and shows the rest as far as it can read it.\n\n" +
			"--show ops: the operations in the journal since the last checkpoint (inserts, completions, ends and so on), each\n" +
			"with its time and the position of its batch.\n" +
			"--show submissions: open and ended submissions with their counts, as a start of the server would produce them.\n" +
			"With --rows, or if the queue cannot be opened, it shows them as the last checkpoint wrote them, each with its\n" +
			"position in the journal.\n" +
			"--show exceptions: chunks that failed, wait, or are dead, skipped or forwarded.",
		Example: "  quern inspect --data /var/lib/quern --queue default\n" +
			"  quern inspect --data /var/lib/quern --show submissions --state open --meta customer=7\n" +
			"  quern inspect --data /var/lib/quern --show exceptions --submission 7530822246248580517 -o jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.dir == "" {
				return usageError{errors.New("--data is missing: say which data directory to look into")}
			}
			err := o.run(cmd.Context(), a)
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		},
	}
	c.Flags().StringVar(&o.dir, "data", "", "the data directory; no server may use it")
	c.Flags().StringVar(&o.queue, "queue", engine.DefaultQueue, "the queue")
	c.Flags().StringVar(&o.show, "show", showOps, "what to show: ops, submissions or exceptions")
	c.Flags().StringVar(&o.submission, "submission", "", "only entries about this submission")
	c.Flags().Uint64Var(&o.after, "after", 0, "with ops: only those after this position")
	c.Flags().StringArrayVar(&o.states, "state", nil, "only submissions in this state (open, completed, ...); may "+
		"be given several times")
	c.Flags().StringArrayVar(&o.meta, "meta", nil, "only submissions with this meta, KEY=VALUE; may be given several times")
	c.Flags().BoolVar(&o.rows, "rows", false,
		"submissions and exceptions as of the last checkpoint, without the journal since then")
	c.Flags().StringVar(&o.work, "work", "", "folder for a copy of the files (default: that of temporary files)")
	c.Flags().IntVarP(&o.limit, "limit", "n", 0, "at most this many lines (0: all)")
	a.formatFlag(c, formatTable, formatJSONL)
	return c
}

func (o *inspecting) run(ctx context.Context, a *app) error {
	options := check.Options{Work: o.work, Now: time.Now}
	switch o.show {
	case showOps:
		if len(o.states)+len(o.meta) > 0 || o.rows {
			return usageError{errors.New("--state, --meta and --rows are for --show submissions and --show exceptions")}
		}
		return check.Journal(ctx, o.dir, check.JournalOptions{Options: options, Queue: o.queue, Submission: o.submission, After: o.after},
			func(op check.Op) error { return o.print(a, op) })
	case showSubmissions, showExceptions:
		if o.after > 0 {
			return usageError{errors.New("--after is for --show ops")}
		}
		wanted, err := o.wanted()
		if err != nil {
			return err
		}
		wanted.Options = options
		return check.Submissions(ctx, o.dir, wanted, func(item check.Item) error { return o.print(a, item) })
	}
	return usageError{fmt.Errorf("--show is %q: it must be ops, submissions or exceptions", o.show)}
}

// wanted is which submissions the flags ask for.
func (o *inspecting) wanted() (w check.SubmissionOptions, err error) {
	w = check.SubmissionOptions{Queue: o.queue, Submission: o.submission, Rows: o.rows, Exceptions: o.show == showExceptions}
	for _, text := range o.states {
		state, known := queue.ParseSubmissionState(text)
		if !known {
			return w, usageError{fmt.Errorf("--state %q is no state of a submission", text)}
		}
		w.States = append(w.States, state)
	}
	_, err = parsePairs("--meta", o.meta, func(entries []queue.MetaEntry) (meta queue.Meta, err error) {
		w.Meta, err = queue.NewMeta(entries)
		return w.Meta, err
	})
	return w, err
}

func (o *inspecting) print(a *app, line any) error {
	if o.shown++; o.limit > 0 && o.shown > o.limit {
		return errEnough
	}
	if a.format == formatJSONL {
		return printJSON(a.out, line, "")
	}
	return say(a.out, "%s\n", line)
}
