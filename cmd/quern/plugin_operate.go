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
		Long: "Show or change the settings of a plugin. Settings that you do not name keep their values. 0 resets --cpu-share\n" +
			"and --record-every to the server's values.",
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
			// The server replaces all settings at once, so no one may have changed them since they were read.
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

// change returns a function that applies the given flags to settings, or nil if none was given. The server checks
// numbers.
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
		Long: "List the recorded batches of a plugin, the newest first, or download one to --out or stdout. Replay the file\n" +
			"with 'quern plugin run FILE.wasm --rows FILE.qbatch'.",
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
		Long: "Score a recorded batch again with a version, and compare the scores with the recorded ones, bit for bit. The\n" +
			"exit code is 1 if any differ.",
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

// pluginScoresCommand shows how versions score live traffic.
func pluginScoresCommand(a *app) *cobra.Command {
	return a.serverCommand(&cobra.Command{
		Use: "scores NAME", Short: "Show how a plugin's versions score live traffic", Args: cobra.ExactArgs(1),
		Long: "Show how the open versions of a plugin score live traffic: how the scores of the last 4,096 candidates of\n" +
			"sampled batches are spread, and how many of these candidates were reserved.",
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

// pluginDryRunCommand tries an uploaded version on the queue's present chunks.
func pluginDryRunCommand(a *app) *cobra.Command {
	var d api.PluginDryRun
	var f selectFlags
	var about contextFlag
	c := a.serverCommand(&cobra.Command{
		Use:   "dry-run NAME VERSION",
		Short: "Show which candidates of a queue a version would take, without reserving any", Args: cobra.ExactArgs(2),
		Long: "Score the current candidates of a queue with a version, active or not. Show the candidates that it would take,\n" +
			"those among them that would not be taken without the plugin, and those that it delays. A candidate is the next\n" +
			"chunk of a submission, and has the submission's id.",
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
