package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// previewOptions are the flags of preview and compare.
type previewOptions struct {
	max  int
	seed uint64
}

func (o *previewOptions) flags(c *cobra.Command) {
	c.Flags().IntVarP(&o.max, "max", "n", 10, "look at most so many chunks ahead, 1 to 100")
	c.Flags().Uint64Var(&o.seed, "seed", 0, "what Random draws by, to get the same again (default: any)")
}

// seedOf is the seed if one was given.
func (o *previewOptions) seedOf(c *cobra.Command) *uint64 {
	if !c.Flags().Changed("seed") {
		return nil
	}
	return &o.seed
}

// previewCommand says what a strategy would hand out now.
func (a *app) previewCommand() *cobra.Command {
	var o previewOptions
	c := &cobra.Command{
		Use:   "preview [STRATEGY]",
		Short: "Show what a strategy would hand out now, without reserving anything",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			strategy, err := strategyJSON(firstOf(append(args, "Random")...))
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.Preview(cmd.Context(), a.queueName(), &api.PreviewRequest{Strategy: strategy, Max: o.max, Seed: o.seedOf(cmd)})
			if err != nil {
				return err
			}
			return printList(a, got.Picks, []string{"SUBMISSION", "INDEX", "PRIORITY", "META", "BRANCH"}, pickRow)
		},
	}
	a.queueFlags(c)
	a.formatFlag(c, formatTable, formatJSON, formatJSONL)
	o.flags(c)
	return c
}

func pickRow(p api.PreviewPick) []string {
	return []string{p.Submission, number(p.Index), strconv.FormatInt(p.Priority, 10), metaLine(p.Meta), fmt.Sprintf("%d %s", p.Branch, p.BranchText)}
}

// compareCommand shows how two strategies differ.
func (a *app) compareCommand() *cobra.Command {
	var o previewOptions
	c := &cobra.Command{
		Use:   "compare STRATEGY STRATEGY",
		Short: "Show how evenly two strategies would hand out work now, and what they have in common",
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
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.Compare(cmd.Context(), a.queueName(), &api.CompareRequest{A: one, B: other, Max: o.max, Seed: o.seedOf(cmd)})
			if err != nil {
				return err
			}
			return printOne(a, *got, compareFields)
		},
	}
	a.queueFlags(c)
	a.formatFlag(c, formatTable, formatJSON, formatJSONL)
	o.flags(c)
	return c
}

func compareFields(got api.CompareResponse) [][2]string {
	fields := [][2]string{
		{"chunks", fmt.Sprintf("%d and %d, of them %d in common", got.A.Picks, got.B.Picks, got.Overlap)},
		{"seed", strconv.FormatUint(got.Seed, 10)},
	}
	for i, k := range got.A.Keys { // both have the same keys in the same order
		other := got.B.Keys[min(i, len(got.B.Keys)-1)]
		fields = append(fields, [2]string{k.Key, spreadText(k) + "; " + spreadText(other)})
	}
	return fields
}

func spreadText(k api.KeySpread) string {
	return fmt.Sprintf("%d values, largest %.0f %%, Jain %.3f", k.Distinct, 100*k.MaxShare, k.Jain)
}

// whyCommand says what keeps a chunk from being handed out.
func (a *app) whyCommand() *cobra.Command {
	var strategy string
	c := &cobra.Command{
		Use:   "why ID INDEX",
		Short: "Say what keeps a strategy from handing out a chunk now",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			index, err := strconv.ParseUint(args[1], 10, 32)
			if err != nil {
				return usageError{errors.New("INDEX must be a whole number from 0")}
			}
			return a.withSubmission(args[0], func(c *client.Client, id string) error {
				return a.why(cmd.Context(), c, id, uint32(index), strategy)
			})
		},
	}
	a.clientFlags(c)
	a.formatFlag(c, formatTable, formatJSON, formatJSONL)
	c.Flags().StringVar(&strategy, "strategy", "Random", "the strategy in question")
	return c
}

func (a *app) why(ctx context.Context, c *client.Client, id string, index uint32, text string) error {
	strategy, err := strategyJSON(text)
	if err != nil {
		return err
	}
	got, err := c.Why(ctx, id, index, &api.WhyRequest{Strategy: strategy})
	if err != nil {
		return err
	}
	return printList(a, got.Branches, []string{"BRANCH", "OBSTACLE", "DETAIL"}, func(w api.WhyBranch) []string {
		return []string{fmt.Sprintf("%d %s", w.Branch, w.BranchText), w.Obstacle, w.Detail}
	})
}
