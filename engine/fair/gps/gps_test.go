package gps

import (
	"math"
	"testing"
)

// The oracle itself: shares by hand.
func TestShares(t *testing.T) {
	t.Parallel()
	g := New([]int64{1000, 3000, 4000})
	expect := func(step string, want ...float64) {
		t.Helper()
		for i, w := range want {
			if got := g.Lag(i, 0); math.Abs(got-w) > 1e-12 {
				t.Errorf("%s: tenant %d was served %v, want %v", step, i, got, w)
			}
		}
	}
	g.Add(0, 10)
	g.Add(1, 1.5)
	g.Step()
	expect("weights 1 and 3", 0.25, 0.75, 0)
	g.Step() // 1 runs dry after exactly one more
	expect("weights 1 and 3", 0.5, 1.5, 0)
	g.Add(2, 10)
	g.Step()
	expect("1 is dry, 2 is new", 0.7, 1.5, 0.8)
	left := g.Suspend(2)
	g.Step()
	expect("2 is suspended", 1.7, 1.5, 0.8)
	g.Resume(2, left)
	g.SetWeight(2, 1000)
	g.Step()
	g.Step()
	expect("2 is back with weight 1", 2.7, 1.5, 1.8)
	for range 16 {
		g.Step()
	}
	expect("everything is served", 10, 1.5, 10)
	g.Step()
	expect("nothing is left", 10, 1.5, 10)
	g.Add(1, 5)
	g.Step()
	expect("what could not be served is served later", 10, 4, 10)
}
