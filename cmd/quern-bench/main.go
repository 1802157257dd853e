// Quern-bench measures Quern on this machine: the figures of docs/FIGURES.md. `quern-bench SUITE` runs one suite, `quern-bench --list`
// names them all. It starts the `quern` that stands beside it, or else the one in the PATH, or else one that it builds.
//
//quern:tests processes
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := command(os.Stdout, os.Stderr)
	if err := c.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "quern-bench:", err)
		os.Exit(1)
	}
}

// floorCommand is the name under which this program starts itself as the bare server that a suite measures against.
const floorCommand = "floor"

// command is the program's only command, and the hidden one that is the floor.
func command(out, progress io.Writer) *cobra.Command {
	var list, asJSON bool
	var profile string
	o := options{progress: func(line string) { fmt.Fprintln(progress, line) }}
	c := &cobra.Command{
		Use:   "quern-bench [SUITE]",
		Short: "Measure Quern on this machine",
		Long: "Measure Quern on this machine. A suite makes its own data below --dir, runs for about a minute on two cores,\n" +
			"and prints figures under stable names. Run it on an idle machine, and compare figures of one run only.",
		Args:         cobra.MaximumNArgs(1),
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if list || len(args) == 0 {
				return listSuites(out)
			}
			stop, err := startProfile(profile)
			if err != nil {
				return err
			}
			defer stop()
			clean, err := o.findPrograms(cmd.Context())
			if err != nil {
				return err
			}
			defer clean()
			measured, err := measure(cmd.Context(), args[0], o)
			if err != nil {
				return err
			}
			return measured.print(out, asJSON)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the suites and the names of their figures")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	c.Flags().StringVar(&o.dir, "dir", "", "folder for the data (default: the system's temporary folder); its disk is measured")
	c.Flags().DurationVar(&o.turn, "turn", time.Second, "how long one measurement of a rate over HTTP lasts; shorter ones vary more")
	c.Flags().StringSliceVar(&o.only, "only", nil, "measure only these figures, and those that come with them (of the suite cluster)")
	c.Flags().StringVar(&profile, "cpuprofile", "", "file for a CPU profile of the run, for go tool pprof")
	c.AddCommand(&cobra.Command{
		Use: floorCommand + " [URL]", Hidden: true, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, to []string) error {
			if len(to) > 0 {
				return serveFloor(cmd.Context(), out, passOn(to[0]))
			}
			return serveFloor(cmd.Context(), out, repeatAnswers())
		},
	})
	return c
}

// findPrograms names the programs that suites start: this program as the floor, and the server beside it or in the PATH. A server that is
// in neither is built, as with `go run`; clean removes it.
func (o *options) findPrograms(ctx context.Context) (clean func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	clean = func() {}
	server, err := exec.LookPath(filepath.Join(filepath.Dir(self), "quern"))
	if err != nil {
		server, err = exec.LookPath("quern")
	}
	if err != nil {
		folder, err := os.MkdirTemp(o.dir, "quern-bench-server-")
		if err != nil {
			return nil, err
		}
		clean = func() { os.RemoveAll(folder) }
		server = filepath.Join(folder, "quern")
		o.progress("building quern")
		build := exec.CommandContext(ctx, "go", "build", "-o", server, "github.com/quern-queue/quern/cmd/quern")
		if said, err := build.CombinedOutput(); err != nil {
			clean()
			return nil, fmt.Errorf("quern stands neither beside %s nor in the PATH, and cannot be built here: %w: %s; "+
				"`make build` builds both", self, err, bytes.TrimSpace(said))
		}
	}
	o.server, o.compiler, o.floor = server, []string{server, "plugin-compile"}, []string{self, floorCommand}
	return clean, nil
}

// startProfile profiles this process until stop is called. It does nothing without a path.
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

func listSuites(out io.Writer) error {
	for _, s := range suites() {
		fmt.Fprintln(out, s.name)
		for _, name := range s.figures {
			fmt.Fprintln(out, "  "+name)
		}
	}
	return nil
}

func (r *report) print(out io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVALUE\tUNIT\tAGAINST")
	for _, f := range r.Results {
		against := ""
		if f.Baseline != "" {
			against = strconv.FormatFloat(f.Ratio, 'f', 2, 64) + " x " + f.Baseline
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.Name, strconv.FormatFloat(f.Value, 'g', 5, 64), f.Unit, against)
	}
	return table.Flush()
}
