package values

import (
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// Of values that a walk met more than once, the count that was read last stays.
func TestDistinct(t *testing.T) {
	t.Parallel()
	count := func(value int64, inFlight uint64) backlog.ValueCount {
		return backlog.ValueCount{Value: queue.IntValue(value), InFlight: inFlight}
	}
	got := distinct([]backlog.ValueCount{count(1, 1), count(2, 2), count(1, 3), count(3, 4), count(2, 5), count(1, 6)})
	if want := []backlog.ValueCount{count(1, 6), count(2, 5), count(3, 4)}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
