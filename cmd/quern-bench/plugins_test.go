package main

import (
	"os"
	"path"
	"testing"

	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// This binary is the compiling child of the plugins' suite.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "plugin-compile" {
		os.Exit(compile.Child(os.Args[2:], os.Stdin, os.Stderr))
	}
	os.Exit(m.Run())
}

// Every step of the suite ends on a small backlog and leaves the promised figures: formulas give the scores of native Go, no
// reserve falls through a plugin that works, and each hostile one fails in every batch.
func TestPluginsOnASmallBacklog(t *testing.T) {
	t.Parallel()
	r := &run{options: options{dir: t.TempDir(), compiler: wasmtest.Child("plugin-compile"), progress: func(line string) { t.Log(line) }}, report: &report{}}
	scale := pluginScale{submissions: 400, chunks: 100, timing: timing{warm: 10, samples: 100, hold: 25}, blocks: 2, hostile: 3, beside: timing{warm: 10, samples: 100, hold: 25}, activations: 4, restarts: 2}
	if err := pluginFigures(t.Context(), r, scale); err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for _, got := range r.report.Results {
		if _, twice := figures[got.Name]; twice || !(got.Value > 0) {
			t.Errorf("%s is %v, or there twice", got.Name, got.Value)
		}
		figures[got.Name] = got.Value
	}
	for _, pattern := range pluginNames {
		found := 0
		for name := range figures {
			if matched, err := path.Match(pattern, name); err != nil {
				t.Fatal(err)
			} else if matched {
				found++
			}
		}
		if found == 0 {
			t.Errorf("no figure is named %s; there are %v", pattern, figures)
		}
	}
}
