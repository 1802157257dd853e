package backlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Of a view whose limits hold everything back, Saturated names values that are at their limits, each of them once per tenant,
// and stops when it is told to; of a view with something to take it does not name open values.
func TestSaturated(t *testing.T) {
	t.Parallel()
	b := New()
	for i := range 3 * lookedGates {
		meta := queue.Meta{{Key: "a", Value: queue.IntValue(int64(i))}, {Key: "b", Value: queue.StringValue("all")}}
		b.Show(b.Insert(Spec{ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 3, Key: OrderKey(3, 1), Meta: meta}))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	one := finished(b, limited(strategy.NewestFirst, strategy.Limit{Key: "a", Max: 2}))
	for range 4 {
		if _, _, ok := b.Take(one, rnd); !ok {
			t.Fatal("nothing to take")
		}
	}
	// A view is built from the newest submission on, so the gates of those that are taken first here are looked at first.
	named := func(v *View, most int) (list []string) {
		v.Saturated(func(s queue.Saturated) bool {
			list = append(list, fmt.Sprintf("%s=%s %d/%d", s.Key, s.Value.Quoted(), s.InFlight, s.Limit))
			return len(list) < most
		})
		slices.Sort(list)
		return list
	}
	if got, want := named(one, 10), []string{"a=766 2/2", "a=767 2/2"}; !slices.Equal(got, want) {
		t.Errorf("two of the values are at their limit: got %q, want %q", got, want)
	}
	for {
		if _, _, ok := b.Take(one, rnd); !ok {
			break
		}
	}
	if got := named(one, 10); len(got) != 10 {
		t.Errorf("all values are at their limit: got %d of them, want the 10 that were asked for", len(got))
	}
	if got := named(one, 1<<30); len(got) == 0 || len(got) > lookedGates {
		t.Errorf("got %d values, want some, and no more than the %d that may be looked at", len(got), lookedGates)
	}
	both := finished(b, limited(strategy.Random, strategy.Limit{Key: "b", Max: 5}))
	if got, want := named(both, 10), []string{"b=\"all\" 1536/5"}; !slices.Equal(got, want) {
		t.Errorf("far over the limit: got %q, want %q", got, want)
	}
	if got := named(finished(b, filtered(strategy.Random)), 10); got != nil {
		t.Errorf("without limits: got %q", got)
	}
}

// Value and Keys agree with Values, and have nothing of submissions that are gone.
func TestValueAndKeys(t *testing.T) {
	t.Parallel()
	b := New()
	s := b.Insert(Spec{ID: 1, Seq: 1, Chunks: 9, Key: OrderKey(9, 1), Meta: queue.Meta{{Key: "a", Value: queue.IntValue(7)}, {Key: "b", Value: queue.StringValue("7")}}})
	b.Show(s)
	v := finished(b, filtered(strategy.OldestFirst))
	if _, _, ok := b.Take(v, nil); !ok {
		t.Fatal("nothing to take")
	}
	keys := func() (list []string) {
		b.Values.Keys(func(key queue.MetaKey) { list = append(list, key) })
		slices.Sort(list)
		return list
	}
	if got, want := keys(), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("keys: got %q, want %q", got, want)
	}
	b.Values.Each("a", func(want ValueCount) bool {
		if got := b.Values.Of("a", queue.IntValue(7)); got != want || got.InFlight != 1 || got.Available != 8 {
			t.Errorf("got %+v, want %+v: 1 in flight, 8 available", got, want)
		}
		return true
	})
	for _, other := range []queue.MetaEntry{{Key: "a", Value: queue.StringValue("7")}, {Key: "c", Value: queue.IntValue(7)}} {
		if got, want := b.Values.Of(other.Key, other.Value), (ValueCount{Value: other.Value}); got != want {
			t.Errorf("%v: got %+v, want no counts", other, got)
		}
	}
	b.Remove(s)
	if got := keys(); got != nil {
		t.Errorf("after the last submission: got the keys %q", got)
	}
}
