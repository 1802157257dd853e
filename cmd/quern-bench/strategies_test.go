package main

import (
	"path"
	"strings"
	"testing"
)

// Every case of the suite ends on a small backlog, finds something or nothing as it says, and leaves the
// promised figures.
func TestStrategiesOnASmallBacklog(t *testing.T) {
	t.Parallel()
	r := &run{options: options{dir: t.TempDir(), progress: func(line string) { t.Log(line) }}, report: &report{}}
	scale := strategyScale{
		submissions: 400, chunks: 100, companies: 40, sides: 10, head: 1000,
		timing: timing{warm: 10, samples: 300, hold: 25},
	}
	if err := strategyFigures(t.Context(), r, scale); err != nil {
		t.Fatal(err)
	}
	figures := promised(t, r, strategyNames)
	// Each pick looks at one submission at least. With both limits saturated it may meet a part of the view, but a mean
	// as large as the backlog would be a scan.
	if got := figures["examined_per_chunk_max"]; got < 1 || got >= float64(scale.submissions) {
		t.Errorf("%v submissions examined per chunk, want 1 to %d", got, scale.submissions-1)
	}
}

// promised are the figures of a run, which has one of each promised name and none twice.
func promised(t *testing.T, r *run, names []string) map[string]float64 {
	t.Helper()
	figures := map[string]float64{}
	for _, got := range r.report.Results {
		if _, twice := figures[got.Name]; twice {
			t.Errorf("%s is there twice", got.Name)
		}
		figures[got.Name] = got.Value
	}
	for _, pattern := range names {
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
	return figures
}

// Each block of the language is measured.
func TestStrategiesCoverEveryBlock(t *testing.T) {
	t.Parallel()
	for _, block := range []string{"Random", "OldestFirst", "NewestFirst", "CustomPriority", "SelectOnly(", "SelectAny(", "Except(", "OrElse(", "PreferDistinct(", "MaxSimultaneous(", "MaxRate(", "Fair("} {
		found := false
		for _, c := range strategyCases {
			found = found || strings.HasPrefix(c.strategy, block)
		}
		if !found {
			t.Errorf("no case begins with %s", block)
		}
	}
}
