package main

import (
	"math"
	"testing"

	"github.com/quern-queue/quern/sdk/plugin"
)

func rows() *plugin.Rows {
	return plugin.NewBatch(4).At(1_000_000).
		I64("priority", 0, 50, 0, 0).U32("attempts", 0, 0, 0, 0).
		I64("meta_i64:deadline_ms", 1_060_000, 0, 1_000_000, 990_000).Absent("meta_i64:deadline_ms", 1).
		I64("meta_i64:cost_ms", 0, 0, 0, 0).Absent("meta_i64:cost_ms", 0, 1, 2, 3)
}

// The scorer that the server runs in its sandbox runs here natively: half of the weight one horizon ahead, all of it when the time is up.
func TestScore(t *testing.T) {
	for _, c := range []struct {
		config string
		want   [4]float64
		late   float64
	}{
		{`{}`, [4]float64{50, 50, 100, 100}, 0},
		{`{"weight":10,"horizon_ms":20000,"grace_ms":5000}`, [4]float64{2.5, 50, 10, math.NaN()}, 1},
		{`{"grace_ms":0}`, [4]float64{50, 50, 100, math.NaN()}, 2},
	} {
		if err := scorer.Init([]byte(c.config)); err != nil {
			t.Fatal(err)
		}
		got, err := scorer.Score(rows())
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if got[i] != want && !(math.IsNaN(got[i]) && math.IsNaN(want)) {
				t.Errorf("%s: got %v, want %v", c.config, got, c.want)
				break
			}
		}
		if n := scorer.Count(tooLate); n != c.late {
			t.Errorf("%s: counted %v so far, want %v", c.config, n, c.late)
		}
	}
}

// The cost of a chunk is taken off the time that is left.
func TestCostBringsForward(t *testing.T) {
	if err := scorer.Init(nil); err != nil {
		t.Fatal(err)
	}
	got, err := scorer.Score(plugin.NewBatch(2).I64("priority", 0, 0).U32("attempts", 0, 3).
		I64("meta_i64:deadline_ms", 90_000, 60_000).I64("meta_i64:cost_ms", 90_000, 0))
	if err != nil || got[0] != 100 || got[1] != 47 {
		t.Errorf("got %v %v, want 100 and 47", got, err)
	}
}
