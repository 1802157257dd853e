package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/manifest"
)

// tryFlags are those of the commands that look at a module without a server.
type tryFlags struct{ manifest, config string }

func (f *tryFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.manifest, "manifest", "", "file with the manifest, for a module without one")
	c.Flags().StringVar(&f.config, "config", "", "file with a configuration (JSON)")
}

// read reads a module and its configuration.
func (f *tryFlags) read(name string) (module, config []byte, err error) {
	if module, err = readAtMost(name, maxModuleFile); err != nil {
		return nil, nil, err
	}
	if f.manifest != "" {
		text, err := readAtMost(f.manifest, manifest.MaxBytes)
		if err != nil {
			return nil, nil, err
		}
		if module, err = manifest.Pack(module, text); err != nil {
			return nil, nil, err
		}
	}
	if f.config != "" {
		config, err = readAtMost(f.config, abi.MaxConfigBytes)
	}
	return module, config, err
}

func pluginCheckCommand(a *app) *cobra.Command {
	var f tryFlags
	c := &cobra.Command{
		Use:   "check FILE.wasm",
		Short: "Check a module against all rules of a server, and list every problem",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return checkFile(a, args[0], f.manifest, f.config) },
	}
	f.add(c)
	return c
}

func checkFile(a *app, name, manifestFile, configFile string) error {
	f := tryFlags{manifestFile, configFile}
	module, config, err := f.read(name)
	if err != nil {
		return err
	}
	m, report, err := plugins.Examine(module, config, plugins.DefaultLimits())
	if err != nil {
		return refusedFile(a, err)
	}
	say(a.out, "%s: %s %s, %d bytes, %d functions, %d columns: good\n", name, m.Name, m.Version, len(module),
		report.Bodies, len(m.Columns))
	return nil
}

// refusedFile prints the faults of a module as a server would, and ends with the exit code of a refusal by a server.
func refusedFile(a *app, err error) error {
	var known *queue.Error
	if !errors.As(err, &known) {
		return err
	}
	say(a.err, "quern: %s\n", known.Message)
	for _, p := range known.Problems {
		say(a.err, "  %s %s\n", p.Pointer, p.Detail)
	}
	return endedError{code: exitRefused}
}

// openLocal opens a module in this process.
func openLocal(ctx context.Context, a *app, f *tryFlags, name string) (*plugins.Local, error) {
	module, config, err := f.read(name)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	l, err := plugins.OpenLocal(ctx, module, config, plugins.DefaultLimits(), func() time.Duration { return time.Since(began) })
	if err != nil {
		return nil, refusedFile(a, err)
	}
	return l, nil
}

func pluginRunCommand(a *app) *cobra.Command {
	var f tryFlags
	var rows string
	var n int
	var seed uint64
	c := &cobra.Command{
		Use:   "run FILE.wasm",
		Short: "Score a recorded batch, or synthetic candidates, in the sandbox and print the scores",
		Long: "Score a batch in the sandbox and print the scores. The batch is a recording of a server (--rows FILE.qbatch) or\n" +
			"made-up candidates (--synthetic N). For a recording, compare the scores with the recorded ones, bit for bit. The\n" +
			"exit code is 1 if any differ.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLocal(cmd.Context(), a, &f, args[0])
			if err != nil {
				return err
			}
			s, err := runBatch(cmd.Context(), l, rows, n, seed)
			return errors.Join(printScores(a, s, err), l.Close())
		},
	}
	f.add(c)
	c.Flags().StringVar(&rows, "rows", "", "a recorded batch (.qbatch)")
	c.Flags().IntVar(&n, "synthetic", 16, "number of made-up candidates")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of synthetic candidates")
	return c
}

func runBatch(ctx context.Context, l *plugins.Local, rows string, n int, seed uint64) (*plugins.Scored, error) {
	if rows == "" {
		return l.Synthetic(ctx, n, seed)
	}
	file, err := readAtMost(rows, abi.MaxRecordBytes)
	if err != nil {
		return nil, err
	}
	return l.Replay(ctx, file)
}

func printScores(a *app, s *plugins.Scored, failure error) error {
	if s == nil {
		return refusedFile(a, failure)
	}
	for _, line := range s.Logs {
		say(a.err, "log %d %s\n", line.Level, line.Text)
	}
	if failure != nil {
		return failure
	}
	w := newTable(a.out)
	header := []string{"ROW"}
	for _, c := range s.Columns {
		header = append(header, c.Name)
	}
	sayRow(w, append(header, "SCORE"))
	for row := range s.Scores {
		fields := []string{strconv.Itoa(row)}
		for k := range s.Columns {
			fields = append(fields, cellText(s, k, row))
		}
		sayRow(w, append(fields, strconv.FormatFloat(s.Scores[row], 'g', -1, 64)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if s.Recorded == nil {
		return nil
	}
	if n := s.Different(); n > 0 {
		return fmt.Errorf("%d of %d scores differ from the recorded ones", n, len(s.Scores))
	}
	say(a.err, "quern: all %d scores are the recorded bits\n", len(s.Scores))
	return nil
}

// cellText is the value of a column in a row.
func cellText(s *plugins.Scored, column, row int) string {
	c, v := s.Columns[column], &s.Batch.Columns[column]
	if c.Single {
		row = 0
	}
	if v.Valid != nil && !v.Valid[row] || c.Type == abi.Str && v.U32[row] == 0 {
		return "-"
	}
	switch c.Type {
	case abi.Str:
		return strconv.Quote(s.Batch.Dictionary[v.U32[row]-1])
	case abi.U32:
		return strconv.FormatUint(uint64(v.U32[row]), 10)
	case abi.F64:
		return strconv.FormatFloat(v.F64[row], 'g', -1, 64)
	}
	return strconv.FormatInt(v.I64[row], 10)
}

func pluginBenchCommand(a *app) *cobra.Command {
	var f tryFlags
	c := &cobra.Command{
		Use:   "bench FILE.wasm",
		Short: "Run a module as a server does on upload, and print what it costs",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLocal(cmd.Context(), a, &f, args[0])
			if err != nil {
				return err
			}
			r, err := l.DryRun(cmd.Context())
			if err != nil {
				return errors.Join(refusedFile(a, err), l.Close())
			}
			limit := float64(l.Manifest.FuelPerCandidate)
			err = printOne(a, r, func(r api.PluginReport) [][2]string {
				return [][2]string{
					{"ns/candidate", fmt.Sprintf("%.1f, median %.1f, in batches of %d", r.NsPerCandidate, r.NsMedian, r.Rows)},
					{"fuel/candidate", fmt.Sprintf("%.0f of %.0f", r.FuelPerCandidate, limit)},
					{"memory pages", fmt.Sprintf("%d of %d", r.MemoryPages, l.Manifest.Pages)},
					{"skipped", fmt.Sprintf("%.1f %%", 100*r.SkipShare)}, {"deterministic", strconv.FormatBool(r.Deterministic)},
				}
			})
			return errors.Join(err, l.Close())
		},
	}
	f.add(c)
	a.formatFlag(c)
	return c
}
