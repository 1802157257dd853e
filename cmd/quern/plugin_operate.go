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

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// settingsFlags are the settings of a plugin as the command line has them.
type settingsFlags struct {
	api.PluginSettings
	hold, logLevel, ifMatch string
}

// logLevels are the levels of a plugin's lines by name; the index is the number on the wire.
func logLevels() []string { return []string{"debug", "info", "warn", "error"} }

func pluginSettingsCommand(a *app) *cobra.Command {
	var f settingsFlags
	c := a.serverCommand(&cobra.Command{
		Use: "settings NAME", Short: "Show or change an operator's settings for a plugin", Args: cobra.ExactArgs(1),
		Long: "Show or change an operator's settings for a plugin; others keep their value. 0 resets --cpu-share and " +
			"--record-every to the server's\n" +
			"values.",
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := f.change(cmd)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := c.Plugin(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if change == nil {
				return printOne(a, p.Settings, settingsFields)
			}
			// The server replaces all settings at once: what was read may not have been changed by another meanwhile.
			when := client.Condition{ETag: p.ETag}
			if cmd.Flags().Changed("if-match") {
				when.ETag = f.ifMatch
			}
			change(&p.Settings)
			if p, err = c.PutPluginSettings(cmd.Context(), args[0], p.Settings, when); err != nil {
				return err
			}
			return printOne(a, p.Settings, settingsFields)
		},
	})
	c.Flags().StringVar(&f.hold, "hold", "", "open: take it out of use; closed: use it even when it fails; auto: "+
		"let its breaker decide")
	fieldFlags(c.Flags(), queue.PluginSettings(), &f.PluginSettings, false, "hold", "log_level")
	c.Flags().StringVar(&f.logLevel, "log-level", "", "drop lines below it: debug, info, warn, error")
	c.Flags().StringVar(&f.ifMatch, "if-match", "", "change the plugin only if it has this ETag")
	return c
}

// change is what the flags that were given do to settings; nil when there was none. The server checks numbers.
func (f *settingsFlags) change(cmd *cobra.Command) (func(*api.PluginSettings), error) {
	given := cmd.Flags().Changed
	fields := slices.DeleteFunc(queue.PluginSettings(), func(d *queue.Field[api.PluginSettings]) bool { return !given(d.FlagName()) })
	f.LogLevel = slices.Index(logLevels(), f.logLevel)
	if f.Hold = f.hold; f.hold == "auto" {
		f.Hold = ""
	}
	switch {
	case given("hold") && !slices.Contains([]string{"open", "closed", "auto"}, f.hold):
		return nil, usageError{fmt.Errorf("--hold is %q; it must be open, closed or auto", f.hold)}
	case given("log-level") && f.LogLevel < 0:
		return nil, usageError{fmt.Errorf("--log-level is %q; it must be debug, info, warn or error", f.logLevel)}
	case len(fields) == 0 && given("if-match"):
		return nil, usageError{errors.New("--if-match without a setting changes nothing; name one")}
	case len(fields) == 0:
		return nil, nil
	}
	return func(s *api.PluginSettings) {
		for _, d := range fields {
			d.Copy(s, &f.PluginSettings)
		}
	}, nil
}

func settingsFields(s api.PluginSettings) [][2]string {
	share, every, level := "the server's", "the server's", strconv.Itoa(s.LogLevel)
	if s.CPUShare != 0 {
		share = strconv.FormatFloat(s.CPUShare, 'g', -1, 64)
	}
	if s.RecordEvery != 0 {
		every = strconv.Itoa(s.RecordEvery)
	}
	if s.LogLevel >= 0 && s.LogLevel < len(logLevels()) {
		level = logLevels()[s.LogLevel]
	}
	return [][2]string{{"hold", cmp.Or(s.Hold, "auto")}, {"cpu share", share}, {"record every", every}, {"log level", level}}
}

func pluginStatsCommand(a *app) *cobra.Command {
	var node string
	c := a.serverCommand(&cobra.Command{
		Use: "stats NAME", Short: "Show a plugin's numbers since the start of the server", Args: cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			stats, err := c.PluginStats(ctx, args[0], node)
			return printAnswer(a, stats, err, pluginStatsFields)
		}),
	})
	c.Flags().StringVar(&node, "node", "", "only of this node of the cluster (default: of all)")
	return c
}

func pluginStatsFields(s api.PluginStats) [][2]string {
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	fields := [][2]string{
		{"batches", count(s.Batches)}, {"candidates", count(s.Candidates)}, {"skipped", count(s.Skipped)},
		{"unwritten", count(s.Unwritten)},
		{"fallbacks", count(s.Fallbacks)}, {"ns/candidate", fmt.Sprintf("%.1f", s.NsPerCandidate)},
		{"fuel/candidate", fmt.Sprintf("%.0f", s.FuelPerCandidate)},
		{"share of a core", fmt.Sprintf("%.1f %%", 100*s.CPUShare)}, {"memory pages", strconv.FormatUint(uint64(s.MemoryPages), 10)},
		{"sandboxes", strconv.Itoa(s.Instances)}, {"log lines dropped", count(s.LogsDropped)}, {"breaker", s.Breaker.State},
	}
	if s.Breaker.Reason != "" {
		fields = append(fields, [2]string{"reason", s.Breaker.Reason})
	}
	if s.Breaker.State != "closed" && !s.Breaker.Until.IsZero() {
		fields = append(fields, [2]string{"until", s.Breaker.Until.String()})
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Faults)) {
		fields = append(fields, [2]string{"faults for " + kind, count(s.Faults[kind])})
	}
	if len(s.Missing) > 0 {
		fields = append(fields, [2]string{"without nodes", strings.Join(s.Missing, ", ")})
	}
	if s.LastFault != "" {
		fields = append(fields, [2]string{"last fault", s.LastFault})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Counters)) {
		fields = append(fields, [2]string{"counter " + name, strconv.FormatFloat(s.Counters[name], 'g', -1, 64)})
	}
	if sh := s.Shadow; sh != nil {
		fields = append(fields, [2]string{"shadow", shortSum(sh.SHA256)}, [2]string{"shadow's batches", count(sh.Batches)},
			[2]string{"shadow's dropped", count(sh.Dropped)},
			[2]string{"shadow's overlap", fmt.Sprintf("%.0f %%", 100*sh.Overlap)}, [2]string{"shadow's tau", fmt.Sprintf("%.2f", sh.Tau)})
	}
	return fields
}

func pluginRecordingsCommand(a *app) *cobra.Command {
	var out string
	c := a.serverCommand(&cobra.Command{
		Use: "recordings NAME [ID]", Short: "List recorded batches, or download one", Args: cobra.RangeArgs(1, 2),
		Long: "List the recorded batches of a plugin, the newest first, or download one to --out or stdout. Replay the file " +
			"with\n" +
			"quern plugin run FILE.wasm --rows FILE.qbatch.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && out != "" {
				return usageError{errors.New("--out is for one recording; name its ID")}
			}
			var id uint64
			if len(args) == 2 {
				var err error
				if id, err = recordingID(args[1]); err != nil {
					return err
				}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return listRecordings(a, cmd, c, args[0])
			}
			file, err := c.PluginRecording(cmd.Context(), args[0], id)
			if err != nil {
				return err
			}
			if out != "" {
				return os.WriteFile(out, file, 0o644)
			}
			_, err = a.raw().Write(file)
			return err
		},
	})
	c.Flags().StringVarP(&out, "out", "O", "", "the file to write (default: stdout)")
	return c
}

func recordingID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 {
		return 0, usageError{fmt.Errorf("ID is %q; it must be the number of a recording", text)}
	}
	return id, nil
}

func listRecordings(a *app, cmd *cobra.Command, c *client.Client, name string) error {
	header := []string{"ID", "TIME", "VERSION", "SHA256", "ROWS", "BYTES", "FAULT"}
	return printAll(a, c.PluginRecordings(cmd.Context(), name), header, func(r api.PluginRecording) []string {
		return []string{strconv.FormatUint(r.ID, 10), r.Time.String(), r.Version, shortSum(r.SHA256), strconv.Itoa(r.Rows),
			strconv.Itoa(r.Size), cmp.Or(r.Fault, "-")}
	})
}

func pluginReplayCommand(a *app) *cobra.Command {
	return a.serverCommand(&cobra.Command{
		Use: "replay NAME VERSION ID", Short: "Score a recorded batch again with a version", Args: cobra.ExactArgs(3),
		Long: "Score a recorded batch again with a version, and compare the scores with the recorded ones, bit for bit. The " +
			"exit code is 1 if some\n" +
			"differ.",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := recordingID(args[2])
			if err != nil {
				return err
			}
			tried, err := c.DryRunPlugin(ctx, args[0], args[1], api.PluginDryRun{Recording: id})
			if err != nil {
				return err
			}
			if tried.Replay == nil {
				return errors.New("the server did not replay the recording")
			}
			if err := printOne(a, *tried.Replay, replayFields); err != nil {
				return err
			}
			if tried.Replay.Different > 0 {
				return fmt.Errorf("%d of %d scores differ from the recorded ones", tried.Replay.Different, tried.Replay.Rows)
			}
			return nil
		}),
	})
}

func replayFields(r api.PluginReplay) [][2]string {
	fields := [][2]string{{"rows", strconv.Itoa(r.Rows)}}
	if !r.Scored {
		return append(fields, [2]string{"recorded scores", "none: the batch failed"})
	}
	return append(fields, [2]string{"identical", strconv.FormatBool(r.Identical)}, [2]string{"different", strconv.Itoa(r.Different)})
}
