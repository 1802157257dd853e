package main

import (
	"errors"
	"io"
	"os"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/cmd/quern/bench"
)

// benchCommand runs the benchmarks that ship with the binary.
func benchCommand(a *app) *cobra.Command {
	var list, asJSON bool
	var dir, profile string
	var turn time.Duration
	c := &cobra.Command{
		Use:   "bench [SUITE]",
		Short: "Measure this machine: the figures of the README",
		Long: "Measure Quern on this machine. Each suite makes its own data below --dir, runs in about a minute on " +
			"two cores, and prints\n" +
			"figures under stable names. Run it on an otherwise idle machine, and compare figures of one run only.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list || len(args) == 0 {
				listSuites(a)
				return nil
			}
			stop, err := startProfile(profile)
			if err != nil {
				return err
			}
			defer stop()
			self, err := os.Executable()
			if err != nil {
				return err
			}
			report, err := bench.Run(cmd.Context(), args[0],
				bench.Options{Dir: dir, Compiler: []string{self, compileCommandName}, Floor: []string{self, floorCommandName}, Turn: turn,
					Progress: func(line string) { say(a.err, "measuring %s\n", line) }})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, report, "  ")
			}
			return printList(a, report.Results, []string{"NAME", "VALUE", "UNIT", "AGAINST"}, benchRow)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the suites and the names of their figures")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	c.Flags().StringVar(&dir, "dir", "", "folder for the data (default: the system's temporary folder); its disk is what is measured")
	c.Flags().DurationVar(&turn, "turn", time.Second, "how long a rate over HTTP is measured at a time; with less the figures vary more")
	c.Flags().StringVar(&profile, "cpuprofile", "", "file to write a CPU profile of the run to, for go tool pprof")
	return c
}

// floorCommandName is how this program is started as the bare server that a suite measures against.
const floorCommandName = "bench-floor"

func benchFloorCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: floorCommandName, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.ServeFloor(cmd.Context(), out) },
	}
}

// startProfile profiles this process until stop is called; nothing without a path.
func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}, nil
}

func listSuites(a *app) {
	for _, s := range bench.Suites() {
		say(a.out, "%s\n", s.Name)
		for _, name := range s.Names {
			say(a.out, "  %s\n", name)
		}
	}
}

func benchRow(r bench.Result) []string {
	against := ""
	if r.Baseline != "" {
		against = strconv.FormatFloat(r.Ratio, 'f', 2, 64) + " x " + r.Baseline
	}
	return []string{r.Name, strconv.FormatFloat(r.Value, 'g', 5, 64), r.Unit, against}
}
