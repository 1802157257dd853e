package engine

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// No two values of a meta key are shown as the same text, and none as one with a meaning of its own.
func TestShownValuesDiffer(t *testing.T) {
	t.Parallel()
	texts := []string{"", "acme", "7", "-7", "+7", "007", "_other", "_inline", "s:7", "s:acme", "s:", "s:_other", "\xff", `"\xff"`, `s:"\xff"`, "99999999999999999999"}
	seen := map[string]queue.MetaValue{otherShown: {}}
	check := func(v queue.MetaValue) {
		shown := shownValue(v)
		if other, taken := seen[shown]; taken {
			t.Errorf("%s and %s are both shown as %q", v, other, shown)
		}
		seen[shown] = v
	}
	for _, text := range texts {
		check(queue.StringValue(text))
	}
	for _, n := range []int64{0, 7, -7} {
		check(queue.IntValue(n))
	}
	if got := shownValue(queue.StringValue("acme")); got != "acme" {
		t.Errorf("got %q, want acme as it is", got)
	}
}

// However many names of strategies there are, a bounded number is shown, and every chunk is counted.
func TestStrategyCountsAreBounded(t *testing.T) {
	t.Parallel()
	var c strategyCounts
	for i := range 3 * maxStrategiesShown {
		c.add("s"+strconv.Itoa(i), 2)
	}
	c.add("s0", 1)
	c.add("", 5)
	c.add("never", 0)
	got, sum := map[string]uint64{}, uint64(0)
	c.each(func(name string, n uint64) {
		got[name] += n
		sum += n
	})
	if len(got) != maxStrategiesShown+2 || sum != 6*maxStrategiesShown+6 || got["s0"] != 3 || got[inlineShown] != 5 || got[otherShown] != 4*maxStrategiesShown {
		t.Errorf("got %d names with the sum %d: %s", len(got), sum, fmt.Sprint(got))
	}
}
