package outbox

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// The outbox has the letters that were added and not removed, in the order of numbers, also when a replay begins before
// either.
func TestOutboxIsWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var o Outbox
		model := map[uint64]queue.Outgoing{}
		last := uint64(0)
		for range rapid.IntRange(0, 3000).Draw(t, "steps") {
			number := 1 + rapid.Uint64Max(4000).Draw(t, "number")
			if rapid.IntRange(0, 3).Draw(t, "add") == 0 {
				o.Remove(number)
				delete(model, number)
				continue
			}
			x := queue.Outgoing{Number: number, Queue: "rejects"}
			o.Add(x)
			model[number], last = x, max(last, number)
		}
		var got []uint64
		for _, x := range o.List {
			if x.Queue != "" {
				got = append(got, x.Number)
			}
		}
		if want := slices.Sorted(maps.Keys(model)); !slices.Equal(got, want) || o.Len() != len(want) || o.Last != last {
			t.Fatalf("%d are on their way, Len %d, Last %d; want %d and %d", len(got), o.Len(), o.Last, len(want), last)
		}
		number := rapid.Uint64Max(4001).Draw(t, "asked")
		if _, is := model[number]; is != (o.Find(number) != nil) {
			t.Fatalf("number %d is found: %v, want %v", number, !is, is)
		}
	})
}

// Removed letters take no memory for long: beyond a bound, the list is at most twice as long as there are letters on
// their way.
func TestOutboxForgets(t *testing.T) {
	t.Parallel()
	var o Outbox
	for number := range uint64(100_000) {
		o.Add(queue.Outgoing{Number: number + 1, Queue: "rejects"})
		if number >= 10 {
			o.Remove(number - 9)
		}
		if len(o.List) > 2*1024+2*o.Len() {
			t.Fatalf("the list has %d places for %d entries", len(o.List), o.Len())
		}
	}
	for o.Len() > 0 {
		o.Remove(o.List[len(o.List)-1].Number - uint64(o.Len()) + 1)
	}
	if len(o.List) != 0 {
		t.Errorf("an empty outbox keeps %d places", len(o.List))
	}
}
