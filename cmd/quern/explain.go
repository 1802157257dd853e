package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
)

// explainCommand shows how a strategy stands.
func (a *app) explainCommand() *cobra.Command {
	var o previewOptions
	c := &cobra.Command{
		Use:   "explain [STRATEGY]",
		Short: "Show how a strategy stands: its branches, its limits, and why it would hand out what",
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
			got, err := c.Explain(cmd.Context(), a.queueName(), &api.PreviewRequest{Strategy: strategy, Max: o.max, Seed: o.seedOf(cmd)})
			if err != nil {
				return err
			}
			return printOne(a, *got, explainFields)
		},
	}
	a.queueFlags(c)
	a.formatFlag(c, formatTable, formatJSON, formatJSONL)
	o.flags(c)
	return c
}

func explainFields(got api.ExplainResponse) [][2]string {
	fields := [][2]string{{"strategy", got.Strategy}}
	for _, b := range got.Branches {
		fields = append(fields, [2]string{fmt.Sprintf("branch %d", b.Branch), b.BranchText},
			[2]string{"", fmt.Sprintf("%d submissions; limits: %d values open, %d at their limit, %d empty", b.Submissions, b.GatesOpen, b.GatesShut, b.GatesEmpty)})
		for _, s := range b.Saturated {
			fields = append(fields, [2]string{"", fmt.Sprintf("%s=%s has %d of %d", s.Key, metaText(s.Value), s.InFlight, s.Max)})
		}
	}
	for i, p := range got.Picks {
		var path []string
		for _, w := range p.Skipped {
			path = append(path, fmt.Sprintf("branch %d: %s", w.Branch, w.Detail))
		}
		path = append(path, fmt.Sprintf("branch %d", p.Pick.Branch))
		fields = append(fields, [2]string{fmt.Sprintf("pick %d", i+1), fmt.Sprintf("%s/%d by %s", p.Pick.Submission, p.Pick.Index, strings.Join(path, " -> "))})
	}
	return fields
}
