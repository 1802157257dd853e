package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// figure is one measured number. Baseline and Ratio compare it with another figure of the same run, where one is named.
type figure struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Baseline string  `json:"baseline,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"`
}

// report is the output of a suite.
type report struct {
	Suite   string   `json:"suite"`
	Results []figure `json:"results"`
}

// options say where a suite works, and with which programs.
type options struct {
	dir      string            // for data; a temporary folder in it is made and removed
	progress func(line string) // gets the name of each measurement, and each figure; may be nil
	only     []string          // the figures to measure; none: all of the suite
	server   string            // the program quern, for suites that measure a server in a process of its own
	compiler []string          // program and arguments that end up in wasm/compile.Child; for the suite plugins
	floor    []string          // program and arguments that end up in serveFloor; for suites that measure a rate over HTTP
	turn     time.Duration     // how long a rate over HTTP is measured at a time
}

// suite is a named set of figures.
type suite struct {
	name    string
	figures []string // their names, as promised; a "*" stands for one strategy or case
	run     func(ctx context.Context, r *run) error
}

func suites() []suite {
	return []suite{
		{"engine", engineNames, engineSuite},
		{"http", httpNames, httpSuite},
		{"jobs", singlesNames, singlesSuite},
		{"quiet", quietNames, quietSuite},
		{"strategies", strategyNames, strategySuite},
		{"fair", fairNames, fairSuite},
		{"shards", shardNames, shardSuite},
		{"lifecycle", lifecycleNames, lifecycleSuite},
		{"plugins", pluginNames, pluginSuite},
		{"backup", backupNames, backupSuite},
		{"clients", clientNames, clientSuite},
		{"cluster", clusterNames, clusterSuite},
	}
}

// run is one running suite.
type run struct {
	options
	report *report
}

// measure runs the suite of that name.
func measure(ctx context.Context, name string, o options) (*report, error) {
	at := slices.IndexFunc(suites(), func(s suite) bool { return s.name == name })
	if at < 0 {
		return nil, fmt.Errorf("unknown suite %q; quern-bench --list names them", name)
	}
	for _, only := range o.only {
		if name != "cluster" || !slices.Contains(clusterNames, only) {
			return nil, fmt.Errorf("only: the suite cluster can be asked for some of its figures, and %q is none; --list names them", only)
		}
	}
	dir, err := os.MkdirTemp(o.dir, "quern-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	o.dir = dir
	if o.progress == nil {
		o.progress = func(string) {}
	}
	r := &run{options: o, report: &report{Suite: name}}
	return r.report, suites()[at].run(ctx, r)
}

// wants says whether one of these figures is to be measured.
func (r *run) wants(names ...string) bool {
	return len(r.only) == 0 || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.only, name) })
}

// add adds a figure, and reports it at once: a run that fails or is interrupted later has shown its figures.
func (r *run) add(name string, value float64, unit string) {
	if r.progress != nil {
		r.progress(fmt.Sprintf("measured %s: %.5g %s", name, value, unit))
	}
	r.report.Results = append(r.report.Results, figure{Name: name, Value: value, Unit: unit})
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
