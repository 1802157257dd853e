package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// pluginScoresCommand shows how versions score live traffic.
func pluginScoresCommand(a *app) *cobra.Command {
	return a.serverCommand(&cobra.Command{
		Use: "scores NAME", Short: "Show how a plugin's versions score live traffic", Args: cobra.ExactArgs(1),
		Long: "Show how a plugin's open versions score live traffic: the last 4,096 candidates of sampled batches by their " +
			"scores, and how many of\n" +
			"them led to a reservation.",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			all, err := collect(c.PluginScores(ctx, args[0]), 0)
			if err != nil {
				return err
			}
			if a.format != formatTable {
				return printList(a, all, nil, nil)
			}
			for i, s := range all {
				if i > 0 {
					say(a.out, "\n")
				}
				if err := printOne(a, s, scoresFields); err != nil {
					return err
				}
			}
			return nil
		}),
	})
}

func scoresFields(s api.PluginScores) [][2]string {
	fields := [][2]string{
		{"version", s.Version}, {"sha256", s.SHA256[:min(8, len(s.SHA256))]}, {"config", string(s.Config)},
		{"in use as", cmp.Or(strings.Join(s.Uses, ", "), "-")},
		{"batches", strconv.FormatUint(s.Batches, 10)}, {"sampled", strconv.FormatUint(s.Windows, 10)},
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Faults)) {
		fields = append(fields, [2]string{"faults for " + kind, strconv.FormatUint(s.Faults[kind], 10)})
	}
	if s.LastFault != "" {
		fields = append(fields, [2]string{"last fault", s.LastFault})
	}
	fields = append(fields, [2]string{"candidates", strconv.Itoa(s.Rows)},
		[2]string{"skipped", strconv.Itoa(s.Skipped)}, [2]string{"taken of", strconv.Itoa(s.Taken)})
	most := 1
	for _, bin := range s.Distribution {
		most = max(most, bin.Count)
	}
	const width = 40
	for _, bin := range s.Distribution {
		long := (bin.Count*width + most - 1) / most
		taken := (bin.Taken*width + most - 1) / most
		bar := times("#", min(taken, long)) + times("-", long-taken)
		fields = append(fields, [2]string{fmt.Sprintf("scores %.6g to %.6g", bin.From, bin.To),
			fmt.Sprintf("%6d, %d taken of  %s", bin.Count, bin.Taken, bar)})
	}
	return fields
}

// pluginDownloadCommand brings a module back from the server.
func pluginDownloadCommand(a *app) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "download NAME VERSION", Short: "Download a version's module with its manifest", Args: cobra.ExactArgs(2),
		Long: "Download a version's module as it was uploaded, with its manifest, to stdout or to --out, which must not exist " +
			"yet.",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			module, err := c.PluginModule(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			if out == "" {
				_, err = a.raw().Write(module)
				return err
			}
			if err := writeNew(out, module); errors.Is(err, os.ErrExist) {
				return usageError{fmt.Errorf("--out %s exists already; name another file", out)}
			} else if err != nil {
				return err
			}
			say(a.err, "%s: %d bytes\n", out, len(module))
			return nil
		}),
	}
	c.Flags().StringVarP(&out, "out", "O", "", "the file to write (default: stdout)")
	a.clientFlags(c)
	return c
}
