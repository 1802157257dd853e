package main

import (
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// A rate is the difference between two looks, over the time between them. The first line has none, nor has the first one after a
// restart of the server, which begins its totals at 0.
func TestWatchedRates(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := &app{out: &out, format: formatTable}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	looks := []look{{},
		{&api.Stats{DoneTotal: 5000, FailedTotal: 30}, start},
		{&api.Stats{DoneTotal: 6000, FailedTotal: 30}, start.Add(4 * time.Second)},
		{&api.Stats{DoneTotal: 10, FailedTotal: 31}, start.Add(5 * time.Second)}}
	for n := range looks[1:] {
		if err := printQueueLine(a, n, looks[n+1], looks[n]); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for n, want := range []string{"DONE/S FAILED/S", "- -", "250 0", "- 1"} {
		rates := strings.Join(strings.Fields(strings.Replace(lines[n], "OPEN SUBM", "OPEN", 1))[5:7], " ")
		if rates != want {
			t.Errorf("line %d has the rates %q, want %q: %q", n, rates, want, lines[n])
		}
	}
}
