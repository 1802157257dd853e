package host

import (
	"math"
	"testing"
)

// A sleep moves both clocks as far as it should have lasted, and nothing overflows.
func TestSleepMovesTheClocks(t *testing.T) {
	t.Parallel()
	var c guestClock
	c.set(7, false)
	c.sleep(5_000_000_000)
	if want := (guestClock{5_007_000_000, 5_007_000_000}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	for range 10 {
		c.sleep(math.MaxUint64)
	}
	if c.real < 0 || c.monotonic < 0 {
		t.Errorf("the clock ran over: %+v", c)
	}
	c.set(math.MaxInt64, true)
	if c.real < 0 || c.monotonic < c.real {
		t.Errorf("the clock ran over: %+v", c)
	}
}

// A pooled instance's monotonic clock never goes back, whatever the times of its batches; others depend on their batch only.
func TestMonotonicClock(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		var c guestClock
		c.set(9, keep)
		c.monotonic += 1000
		was := c.monotonic
		c.set(3, keep)
		if kept := c.monotonic >= was; kept != keep || c.real != 3_000_000 {
			t.Errorf("keep %v: got %+v after %d", keep, c, was)
		}
	}
}
