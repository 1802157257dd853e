package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// pluginDryRunCommand tries an uploaded version on what a queue holds now.
func pluginDryRunCommand(a *app) *cobra.Command {
	var d api.PluginDryRun
	var f selectFlags
	var about contextFlag
	c := a.serverCommand(&cobra.Command{
		Use:   "dry-run NAME VERSION",
		Short: "Show which candidates of a queue a version would take, without reserving any", Args: cobra.ExactArgs(2),
		Long: "Score the current candidates of a queue with a version, active or not. Show which it would take, which of those " +
			"would not be taken\n" +
			"without the plugin, and which it puts off. A candidate is the next chunk of a submission, and has the " +
			"submission's id.",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := f.selection(args)
			if err != nil {
				return err
			}
			d.Config = s.Config
			if d.Context, err = about.read(); err != nil {
				return err
			}
			tried, err := c.DryRunPlugin(ctx, args[0], args[1], d)
			return printAnswer(a, tried, err, triedFields)
		}, client.WithCallTimeout(longTimeout)),
	})
	c.Flags().StringVar(&d.Queue, "queue", "default", "queue with the candidates")
	c.Flags().StringVar(&d.Strategy, "strategy", "OldestFirst", "strategy that orders the candidates")
	about.flag(c)
	c.Flags().IntVar(&d.Rows, "rows", 0, "number of candidates (0: the version's window)")
	c.Flags().IntVar(&d.Want, "want", 10, "number of candidates to take")
	c.Flags().StringVar(&f.config, "config", "", "configuration as JSON, or @FILE; left out: the one in use, or the defaults")
	return c
}

func triedFields(t api.PluginTried) [][2]string {
	fields := [][2]string{{"ns/candidate", strconv.FormatFloat(t.Report.NsPerCandidate, 'f', 1, 64)}}
	l := t.Live
	if l == nil {
		return fields
	}
	var picks []string
	for _, p := range l.Picks {
		score := "infinite"
		if p.Score != nil {
			score = strconv.FormatFloat(*p.Score, 'g', 6, 64)
		}
		picks = append(picks, fmt.Sprintf("%s (%s)", rowText(l, p.Row), score))
	}
	fields = append(fields, [2]string{"candidates", strconv.Itoa(l.Rows)}, [2]string{"skipped", strconv.Itoa(l.Skipped)},
		[2]string{"taken", strings.Join(picks, ", ")}, [2]string{"gained", rowsText(l, l.Gained)}, [2]string{"lost", rowsText(l, l.Lost)})
	if l.ActiveOverlap != nil {
		fields = append(fields, [2]string{"gained, beside the active version", rowsText(l, l.ActiveGained)},
			[2]string{"lost, beside the active version", rowsText(l, l.ActiveLost)},
			[2]string{"overlap with the active version", fmt.Sprintf("%.0f %%", 100**l.ActiveOverlap)})
	}
	for _, bin := range l.Histogram {
		fields = append(fields, [2]string{fmt.Sprintf("scores %.6g to %.6g", bin.From, bin.To), strconv.Itoa(bin.Count)})
	}
	return fields
}

// rowText names the submission of a row; of a row that the answer does not have, its number.
func rowText(l *api.PluginLive, row int) string {
	if row < 0 || row >= len(l.Submissions) {
		return fmt.Sprintf("row %d", row)
	}
	return l.Submissions[row]
}

// rowsText names the submissions of rows.
func rowsText(l *api.PluginLive, rows []int) string {
	if len(rows) == 0 {
		return "-"
	}
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = rowText(l, row)
	}
	return strings.Join(names, ", ")
}
