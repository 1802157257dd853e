package main

import (
	"strings"
	"testing"
	"time"
)

// Every case that both engines know comes to its end on a small backlog, finds something or nothing in both, and leaves a pair of
// figures; only Fair has none.
func TestRatiosOnASmallBacklog(t *testing.T) {
	t.Parallel()
	r := &run{options: options{dir: t.TempDir(), progress: func(line string) { t.Log(line) }}, report: &report{}}
	scale := rowScale{
		strategyScale: strategyScale{
			submissions: 400, chunks: 100, companies: 40, sides: 10, head: 1000,
			timing: timing{warm: 5, samples: 50, hold: 25},
		},
		patience: time.Minute, budget: 10 * time.Millisecond, samples: 30,
	}
	if err := ratioFigures(t.Context(), r, scale); err != nil {
		t.Fatal(err)
	}
	pairs := map[string]int{}
	for _, got := range r.report.Results {
		side, name, _ := strings.Cut(got.Name, "/")
		pairs[name]++
		if got.Value <= 0 || side == "rows_p50" && (got.Baseline != "quern_p50/"+name || got.Ratio <= 0) {
			t.Errorf("%+v: want a value, and of the row engine a ratio to quern_p50/%s", got, name)
		}
	}
	cases := append([]reserveCase(nil), strategyCases...)
	for _, s := range scale.situations() {
		cases = append(cases, s.cases...)
	}
	for _, c := range cases {
		want := 2
		if strings.Contains(c.strategy, "Fair(") {
			want = 0
		}
		if pairs[c.name] != want {
			t.Errorf("%s has %d figures, want %d", c.name, pairs[c.name], want)
		}
	}
}
