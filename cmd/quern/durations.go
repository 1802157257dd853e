package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
)

func durationsCommand(a *app) *cobra.Command {
	var meta []string
	c := a.queueCommand(&cobra.Command{
		Use:   "durations",
		Short: "Show how long chunks waited and ran in the last half hour",
		Long: "Show how long chunks waited for their first reservation, and how long consumers then held them: the median, the\n" +
			"95th percentile, the longest and a histogram of the last 30 to 60 minutes.",
		Example: "  quern durations --meta company=7",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := parseMeta(meta)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			d, err := c.Durations(cmd.Context(), a.queueName(), m)
			return printLaidOut(a, d, err, printDurations)
		},
	})
	c.Flags().StringArrayVarP(&meta, "meta", "m", nil, "only those of submissions with this value of metadata, `KEY=VALUE`; one at most")
	return c
}

// durationKind is one kind of durations under its name.
type durationKind struct {
	name string
	of   *api.DurationCounts
}

func printDurations(a *app, d *api.Durations) error {
	say(a.out, "since %s\n\n", moment(d.Since))
	kinds := []durationKind{{"wait", &d.Wait}, {"run", &d.Run}}
	text := func(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
	if err := printList(a, kinds, []string{"KIND", "COUNT", "P50", "P95", "LONGEST"}, func(k durationKind) []string {
		return []string{k.name, number(k.of.Count), text(k.of.P50MS), text(k.of.P95MS), text(k.of.MaxMS)}
	}); err != nil {
		return err
	}
	type bar struct {
		kind string
		api.DurationBucket
	}
	var bars []bar
	for _, k := range kinds {
		for _, b := range k.of.Buckets {
			bars = append(bars, bar{k.name, b})
		}
	}
	say(a.out, "\n")
	return printList(a, bars, []string{"KIND", "BELOW", "COUNT"}, func(b bar) []string {
		return []string{b.kind, text(b.BelowMS), number(b.Count)}
	})
}
