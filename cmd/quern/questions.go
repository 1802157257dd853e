package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// previewOptions are the flags of preview, explain and compare.
type previewOptions struct {
	max  int
	seed uint64
}

func (o *previewOptions) flags(c *cobra.Command) {
	c.Flags().IntVarP(&o.max, "limit", "n", 10, "at most this many chunks, 1 to 100")
	limitWas(c.Flags(), "max")
	c.Flags().Uint64Var(&o.seed, "seed", 0, "seed for Random, to repeat a result (default: any)")
}

// seedOf is the seed if one was given.
func (o *previewOptions) seedOf(c *cobra.Command) *uint64 {
	if !c.Flags().Changed("seed") {
		return nil
	}
	return &o.seed
}

// strategyQuestion is a command that asks one thing about one strategy.
func strategyQuestion(a *app, c *cobra.Command,
	ask func(ctx context.Context, c *client.Client, r *api.PreviewRequest) error) *cobra.Command {
	var o previewOptions
	var about contextFlag
	c.Args = cobra.MaximumNArgs(1)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := strategyArgument(a, append(args, "Random")[0])
		if err != nil {
			return err
		}
		strategy, err := strategyJSON(text)
		if err != nil {
			return err
		}
		context, err := about.read()
		if err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		return ask(cmd.Context(), c, &api.PreviewRequest{Strategy: strategy, Max: o.max, Seed: o.seedOf(cmd), Context: context})
	}
	a.queueFlags(c)
	a.formatFlag(c)
	o.flags(c)
	about.flag(c)
	return c
}

// previewCommand says what a strategy would hand out now.
func previewCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "preview [STRATEGY]",
		Short: "Show what a strategy would hand out now, without reserving anything",
		Long:  "Show what a strategy would hand out now, without reserving anything. \"-\" reads the strategy from standard input.",
	}
	return strategyQuestion(a, c, func(ctx context.Context, c *client.Client, r *api.PreviewRequest) error {
		got, err := c.Preview(ctx, a.queueName(), r)
		return printLaidOut(a, got, err, printPicks)
	})
}

func printPicks(a *app, got *api.PreviewResponse) error {
	printGrace(a, got.RestartGraceUntil)
	printUnscored(a.out, got.Warnings)
	printMissing(a, got.MissingShards)
	return printList(a, got.Picks, []string{"SUBMISSION", "INDEX", "PRIORITY", "META", "PATH"}, func(p api.PreviewPick) []string {
		return []string{p.Submission, number(p.Index), strconv.FormatInt(p.Priority, 10), metaLine(p.Meta), p.Path + inShard(p.Shard)}
	})
}

// printMissing says which shards the answer lacks.
func printMissing(a *app, shards []api.MissingShard) {
	for _, missing := range shards {
		say(a.out, "the chunks of %s are not in this answer: %s\n", missing.Shard, missing.Detail)
	}
}

// inShard names the shard of a queue that has several.
func inShard(number int) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf(" (shard %d)", number)
}

// printGrace says until when the restart grace keeps something back, if one runs.
func printGrace(a *app, until api.Time) {
	if !until.IsZero() {
		say(a.out, "restart grace until %s: what a limit counts is kept back\n", moment(until))
	}
}

// printUnscored says which blocks were gone on without.
func printUnscored(out io.Writer, warnings []api.StrategyWarning) {
	for _, w := range warnings {
		say(out, "warning: the strategy %s\n", w.Detail)
	}
}

// compareCommand shows how two strategies differ.
func compareCommand(a *app) *cobra.Command {
	var o previewOptions
	var about contextFlag
	c := a.queueCommand(&cobra.Command{
		Use:   "compare STRATEGY STRATEGY",
		Short: "Compare how evenly two strategies would hand out work now, and count the chunks that both pick",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			one, err := strategyJSON(args[0])
			if err != nil {
				return err
			}
			other, err := strategyJSON(args[1])
			if err != nil {
				return err
			}
			context, err := about.read()
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.Compare(cmd.Context(), a.queueName(),
				&api.CompareRequest{A: one, B: other, Max: o.max, Seed: o.seedOf(cmd), Context: context})
			return printLaidOut(a, got, err, printComparison)
		},
	})
	o.flags(c)
	about.flag(c)
	return c
}

// printComparison prints a line for each key and strategy, and what they have in common.
func printComparison(a *app, got *api.CompareResponse) error {
	w := newTable(a.out)
	say(w, "A\t%s\nB\t%s\n", got.A.Strategy, got.B.Strategy)
	printGrace(a, got.RestartGraceUntil)
	say(w, "chunks\t%d and %d, %d in common\nseed\t%d\n", got.A.Picks, got.B.Picks, got.Overlap, got.Seed)
	if err := w.Flush(); err != nil {
		return err
	}
	printUnscored(a.out, append(got.A.Warnings, got.B.Warnings...))
	printMissing(a, got.MissingShards)
	if len(got.A.Keys) != len(got.B.Keys) {
		return errors.New("the server counted other keys for A than for B")
	}
	w = newTable(a.out)
	say(w, "\nKEY\tSTRATEGY\tCHUNKS\tVALUES\tLARGEST\tJAIN\n")
	for i := range got.A.Keys { // both have the same keys in the same order
		for _, side := range []struct {
			name   string
			spread api.KeySpread
		}{{"A", got.A.Keys[i]}, {"B", got.B.Keys[i]}} {
			k := side.spread
			say(w, "%s\t%s\t%d\t%d\t%.0f %%\t%.3f\n", k.Key, side.name, k.Picks, k.Distinct, 100*k.MaxShare, k.Jain)
		}
	}
	return w.Flush()
}

// whyCommand says what keeps a chunk from being handed out.
func whyCommand(a *app) *cobra.Command {
	var strategy string
	c := a.serverCommand(&cobra.Command{
		Use:   "why ID/INDEX",
		Short: "Explain why a strategy does not hand out a chunk now, and estimate its place in the order",
		Args:  cobra.RangeArgs(1, 2), // ID INDEX was its form
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			id, index, err := parseChunk(strings.Join(args, "/"))
			if err != nil {
				return err
			}
			question, err := strategyJSON(strategy)
			if err != nil {
				return err
			}
			got, err := c.Why(ctx, id, index, &api.WhyRequest{Strategy: question})
			return printLaidOut(a, got, err, printWhy)
		}),
	})
	c.Flags().StringVar(&strategy, "strategy", "Random", "the strategy in question")
	return c
}

func printWhy(a *app, got *api.WhyResponse) error {
	w := newTable(a.out)
	say(w, "strategy\t%s\nchunk\t%s%s\n", got.Strategy, got.State, inShard(got.Shard))
	if got.Standing != nil {
		say(w, "stands\t%s\n", standingText(got.Standing))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	printGrace(a, got.RestartGraceUntil)
	printUnscored(a.out, got.Warnings)
	say(a.out, "\n")
	return printList(a, got.Branches, []string{"BRANCH", "PATH", "OBSTACLE", "DETAIL"}, func(w api.WhyBranch) []string {
		return []string{number(w.Branch), w.Path, w.Obstacle, w.Detail}
	})
}

// standingText says in words about where a chunk stands.
func standingText(s *api.WhyStanding) string {
	about := "about"
	if s.AtLeast {
		about = "at least"
	}
	text := fmt.Sprintf("chunks before it: %s %d", about, s.Ahead)
	if s.Among > 0 {
		text += fmt.Sprintf(", drawn from %d", s.Among)
	}
	if s.WaitMs != nil {
		wait := time.Duration(*s.WaitMs) * time.Millisecond
		text += fmt.Sprintf(", which take %s at %.1f a second", wait.Round(100*time.Millisecond), s.PerSecond)
	}
	return text
}

// diagnoseCommand says why a value or a submission moves or does not.
func diagnoseCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   "diagnose [ID | KEY VALUE]",
		Short: "Explain why the chunks of a queue, a submission, or a value of a meta key move or not",
		Long: "Explain in one sentence why chunks move or do not move, and count the chunks that wait for each cause. Name a\n" +
			"submission, or a meta key and a value. Without arguments, the answer is about the whole queue. It considers\n" +
			"rules, limits, and the strategies of reserves in the last hour. Write VALUE as for --meta: 123 is the integer,\n" +
			"s:123 the text.",
		Example: "  quern diagnose company 7",
		Args:    cobra.RangeArgs(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return withSubmission(a, args[0], func(c *client.Client, id string) error {
					d, err := c.DiagnoseSubmission(cmd.Context(), id)
					return printLaidOut(a, d, err, printDiagnosis)
				})
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			args = append(args, "", "")
			d, err := c.DiagnoseValue(cmd.Context(), a.queueName(), args[0], parseMetaValue(args[1]))
			return printLaidOut(a, d, err, printDiagnosis)
		},
	})
}

func printDiagnosis(a *app, d *api.Diagnosis) error {
	say(a.out, "%s\n\n", d.Sentence)
	return printList(a, d.Causes, []string{"CAUSE", "CHUNKS", "SUBMISSIONS", "DETAIL"}, func(c api.Cause) []string {
		return []string{c.Kind, number(c.Chunks), number(c.Submissions), c.Detail}
	})
}

// explainCommand shows how a strategy stands.
func explainCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [STRATEGY]",
		Short: "Explain a strategy: how many chunks pass each block, and what limits hold back",
		Long: "Explain a strategy: how many chunks pass each block, and how many its limits hold back. For each chunk that the\n" +
			"strategy would pick next, show why earlier branches did not hand it out. \"-\" reads the strategy from standard\n" +
			"input.",
	}
	return strategyQuestion(a, c, func(ctx context.Context, c *client.Client, r *api.PreviewRequest) error {
		got, err := c.Explain(ctx, a.queueName(), r)
		return printLaidOut(a, got, err, printExplanation)
	})
}

// printExplanation prints the tree, the tenants of fair branches, and the picks.
func printExplanation(a *app, got *api.ExplainResponse) error {
	w := newTable(a.out)
	say(w, "BLOCK\tENTERED\tPASSED\tREFUSED\n")
	for i := range got.Tree {
		b := &got.Tree[i]
		indent := times("  ", b.Depth)
		say(w, "%s%s\t%s\t%s\t%s\n", indent, b.Text, amountText(b.Entered), amountText(b.Passed), amountText(b.Refused))
		for _, v := range b.Top {
			say(w, "%s  ! %s%s\t\t\t%s\n", indent, refusedText(&v), inShard(v.Shard), amountText(v.Refused))
		}
	}
	for i := range got.Ruled {
		r := &got.Ruled[i]
		say(w, "(rule %s: %s of %s)\t\t\t%s\n", r.Rule.ID, r.Rule.Action, matchText(&r.Rule.Match), amountText(r.Refused))
	}
	if got.Withheld.RefusedValues > 0 {
		say(w, "(limits of values)\t\t\t%s\n", amountText(got.Withheld.Refused))
		for _, v := range got.Withheld.Top {
			say(w, "  ! %s=%s%s\t\t\t%s\n", v.Key, refusedText(&v), inShard(v.Shard), amountText(v.Refused))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if got.Examined < got.Submissions {
		say(a.out, "(%d of %s examined)\n", got.Examined, several(got.Submissions, "submission"))
	}
	printGrace(a, got.RestartGraceUntil)
	printUnscored(a.out, got.Warnings)
	printMissing(a, got.MissingShards)
	printFair(a.out, got.Branches)
	if len(got.Picks) == 0 {
		return say(a.out, "\nNothing would be handed out.\n")
	}
	w = newTable(a.out)
	say(w, "\nSUBMISSION\tINDEX\tMETA\tPATH\n")
	for i := range got.Picks {
		p := &got.Picks[i]
		say(w, "%s\t%d\t%s\t%s%s\n", p.Pick.Submission, p.Pick.Index, metaLine(p.Pick.Meta), p.Pick.Path, inShard(p.Pick.Shard))
		for _, skipped := range p.Skipped {
			say(w, "\t\t\tnot %s: %s\n", skipped.Path, skipped.Detail)
		}
		for _, tenant := range p.Tenants {
			say(w, "\t\t\ttenant %s\n", tenantText(&tenant))
		}
	}
	return w.Flush()
}

// printFair prints how the tenants of Fair blocks stand.
func printFair(out io.Writer, branches []api.ExplainBranch) {
	for _, b := range branches {
		if len(b.Fair) == 0 {
			continue
		}
		say(out, "\n%s\n", b.Path)
		for _, f := range b.Fair {
			in := ""
			if f.Ledgers > 1 {
				in = fmt.Sprintf(", in %d ledgers", f.Ledgers)
			}
			say(out, "  %s: %s active, %d owing, %d blocked%s\n", f.Key, several(f.Active, "tenant"), f.Owing, f.Blocked, in)
			if f.Next != nil {
				say(out, "    next %s\n", tenantText(f.Next))
			}
		}
	}
}

func amountText(a api.Amount) string {
	if a.Submissions == 0 {
		return "-"
	}
	return fmt.Sprintf("%d in %d", a.Chunks, a.Submissions)
}

func refusedText(v *api.RefusedValue) string {
	text := valueText(v.Value)
	if v.Max != nil {
		text += fmt.Sprintf(" has %d/%d", v.InFlight, *v.Max)
	}
	return text
}

func tenantText(t *api.Tenant) string {
	return fmt.Sprintf("%s=%s: %s, weight %g, share %.1f %%, lag %+.2f", t.Key, valueText(t.Value), t.State, t.Weight, 100*t.Share, t.Lag)
}

func valueText(v *api.MetaValue) string {
	if v == nil {
		return "(no value)"
	}
	return metaText(*v)
}
