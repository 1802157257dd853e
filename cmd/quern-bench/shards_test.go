package main

import (
	"testing"
	"time"
)

// The suite ends on small backlogs, and leaves the promised figures.
func TestShardsOnASmallBacklog(t *testing.T) {
	t.Parallel()
	r := &run{options: options{dir: t.TempDir(), progress: func(line string) { t.Log(line) }}, report: &report{}}
	scale := shardScale{shards: []uint8{1, 2}, rounds: 1, lasting: 50 * time.Millisecond, most: 3, groups: 10, submissions: 100, chunks: 10_000,
		timing: timing{warm: 10, samples: 100, hold: 25}}
	if err := shardFigures(t.Context(), r, scale); err != nil {
		t.Fatal(err)
	}
	for name, value := range promised(t, r, shardNames) {
		if value <= 0 {
			t.Errorf("%s is %v", name, value)
		}
	}
}
