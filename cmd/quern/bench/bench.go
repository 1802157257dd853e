// Package bench holds the benchmarks that ship with the binary: `quern bench SUITE`. Each suite makes its own data in a
// temporary folder, runs in about a minute on two cores, and prints figures under stable names, so that a user can see
// on his own machine what the README claims.
package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// Result is one figure. Baseline and Ratio hold the figure against another one of the same run, where there is one.
type Result struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Baseline string  `json:"baseline,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"`
}

// Report is what a suite prints.
type Report struct {
	Suite   string   `json:"suite"`
	Results []Result `json:"results"`
}

// Options say where a suite works and whom it tells.
type Options struct {
	Dir      string            // for data; a temporary folder in it is made and removed
	Progress func(line string) // told what is being measured
	Compiler []string          // program and arguments that end up in wasm/compile.Child; for the suite plugins
	Floor    []string          // program and arguments that end up in ServeFloor; for the suites http and singles
	Turn     time.Duration     // how long a rate over HTTP is measured at a time
}

// Suite is a named set of figures.
type Suite struct {
	Name  string
	Names []string // of its results, as promised; a "*" stands for one strategy or case
	run   func(ctx context.Context, r *run) error
}

// Suites lists what can be run.
func Suites() []Suite {
	return []Suite{
		{Name: "engine", Names: engineNames, run: engineSuite},
		{Name: "http", Names: httpNames, run: httpSuite},
		{Name: "jobs", Names: singlesNames, run: singlesSuite},
		{Name: "strategies", Names: strategyNames, run: strategySuite},
		{Name: "ratios", Names: ratioNames, run: ratioSuite},
		{Name: "fair", Names: fairNames, run: fairSuite},
		{Name: "lifecycle", Names: lifecycleNames, run: lifecycleSuite},
		{Name: "plugins", Names: pluginNames, run: pluginSuite},
		{Name: "backup", Names: backupNames, run: backupSuite},
		{Name: "clients", Names: clientNames, run: clientSuite},
	}
}

// run is one running suite.
type run struct {
	dir      string
	compiler []string
	floor    []string
	turn     time.Duration
	progress func(string)
	report   *Report
}

// Run runs a suite by name.
func Run(ctx context.Context, name string, o Options) (*Report, error) {
	at := slices.IndexFunc(Suites(), func(s Suite) bool { return s.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no suite %q; `quern bench --list` lists them", name)
	}
	dir, err := os.MkdirTemp(o.Dir, "quern-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &run{dir: dir, compiler: o.Compiler, floor: o.Floor, turn: o.Turn, progress: o.Progress, report: &Report{Suite: name}}
	if r.progress == nil {
		r.progress = func(string) {}
	}
	return r.report, Suites()[at].run(ctx, r)
}

func (r *run) add(name string, value float64, unit string) {
	r.report.Results = append(r.report.Results, Result{Name: name, Value: value, Unit: unit})
}

// over holds the last figure against another one of this run.
func (r *run) over(baseline string) {
	last := &r.report.Results[len(r.report.Results)-1]
	for _, other := range r.report.Results {
		if other.Name == baseline && other.Value != 0 {
			last.Baseline, last.Ratio = baseline, last.Value/other.Value
		}
	}
}

// quantile is the value below which a share q of the sorted durations falls.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func milli(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
