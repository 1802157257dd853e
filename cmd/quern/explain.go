package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// explainCommand shows how a strategy stands.
func explainCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [STRATEGY]",
		Short: "Explain a strategy: how many chunks pass each block, and what limits hold back",
		Long: "Explain a strategy: how many chunks pass each block, what limits hold back, and for each chunk that it would pick next,\n" +
			"why earlier branches did not give it. \"-\" reads the strategy from standard input.",
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
			say(w, "%s  ! %s\t\t\t%s\n", indent, refusedText(&v), amountText(v.Refused))
		}
	}
	for i := range got.Ruled {
		r := &got.Ruled[i]
		say(w, "(rule %s: %s of %s)\t\t\t%s\n", r.Rule.ID, r.Rule.Action, matchText(&r.Rule.Match), amountText(r.Refused))
	}
	if got.Withheld.RefusedValues > 0 {
		say(w, "(limits of values)\t\t\t%s\n", amountText(got.Withheld.Refused))
		for _, v := range got.Withheld.Top {
			say(w, "  ! %s=%s\t\t\t%s\n", v.Key, refusedText(&v), amountText(v.Refused))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if got.Examined < got.Submissions {
		say(a.out, "(of %d submissions %d were looked at)\n", got.Submissions, got.Examined)
	}
	printGrace(a, got.RestartGraceUntil)
	printUnscored(a.out, got.Warnings)
	printFair(a.out, got.Branches)
	if len(got.Picks) == 0 {
		return say(a.out, "\nNothing would be handed out.\n")
	}
	w = newTable(a.out)
	say(w, "\nSUBMISSION\tINDEX\tMETA\tPATH\n")
	for i := range got.Picks {
		p := &got.Picks[i]
		say(w, "%s\t%d\t%s\t%s\n", p.Pick.Submission, p.Pick.Index, metaLine(p.Pick.Meta), p.Pick.Path)
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
			say(out, "  %s: %d tenants active, %d owing, %d blocked%s\n", f.Key, f.Active, f.Owing, f.Blocked, in)
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
