package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/sdk/api"
)

// Two digits are kept.
func TestCoarse(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]uint64{0: 0, 7: 7, 99: 99, 100: 100, 109: 100, 1299: 1200, 98_765_432: 98_000_000, 1<<64 - 1: 18_000_000_000_000_000_000} {
		if got := coarse(n); got != want {
			t.Errorf("coarse(%d) = %d, want %d", n, got, want)
		}
	}
}

// The wait of a chunk is the number of chunks before it divided by the rate of the last minute, if one is known.
func TestWhyWaits(t *testing.T) {
	t.Parallel()
	clock := clockAt(1_700_000_000_000)
	e, err := Open(context.Background(), Options{Dir: t.TempDir(), Now: clock.std, Seed: func() uint64 { return 7 }, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	ctx := context.Background()
	sub, _, err := queueAt(e, DefaultQueue).Insert(ctx, queue.NewSubmission{Chunks: queue.Chunks{Count: 10_000, Prefix: "x/"}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := queueOf(e, sub.ID).Plan([]byte(`"OldestFirst"`))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(index uint32) inspect.Why {
		t.Helper()
		why, err := queueAt(e, DefaultQueue).Questions.Why(ctx, sub.ID, index, plan)
		if err != nil {
			t.Fatal(err)
		}
		return why
	}
	if why := ask(5000); why.Standing.PerSecond != 0 || why.Standing.WaitMs != nil || why.Standing.Ahead != 5000 {
		t.Errorf("without a rate: got %+v %+v", why, why.Standing)
	}
	e.house(ctx)
	if _, err := queueAt(e, DefaultQueue).Reserve(ctx, ReserveRequest{Max: 100, Plan: plan}, nil); err != nil {
		t.Fatal(err)
	}
	clock.pass(10 * time.Second)
	if why := ask(5000); why.Standing.PerSecond != 10 || *why.Standing.WaitMs != 490_000 || why.Standing.Ahead != 4900 {
		t.Errorf("10 a second: got %+v %+v, want 4,900 before it and 490 s", why, why.Standing)
	}
	if why := ask(50); why.Standing != nil {
		t.Errorf("of a reserved chunk: got %+v", why)
	}
}

// A comparison looks at the picks: how many values get something, and how evenly. Values that only the other plan serves count as getting
// nothing.
func TestCompare(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	ctx := context.Background()
	for company := range 4 {
		meta, err := queue.NewMeta(queue.Meta{{Key: "company", Value: queue.IntValue(int64(company))}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := queueAt(e, DefaultQueue).Insert(ctx, queue.NewSubmission{Meta: meta, Chunks: queue.Chunks{Count: 6, Prefix: "x/"}}); err != nil {
			t.Fatal(err)
		}
	}
	compare := func(a, b string) Comparison {
		t.Helper()
		one, err := queueAt(e, DefaultQueue).Plan(fmt.Appendf(nil, "%q", a))
		if err != nil {
			t.Fatal(err)
		}
		other, err := queueAt(e, DefaultQueue).Plan(fmt.Appendf(nil, "%q", b))
		if err != nil {
			t.Fatal(err)
		}
		c, err := queueAt(e, DefaultQueue).Questions.Compare(ctx, CompareRequest{A: one, B: other, Max: 8})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := compare("OldestFirst", `PreferDistinct("company", 2, OldestFirst)`)
	// The first takes 6 of company 0 and 2 of company 1, of four that the second serves alike: Jain 64 / (4 * 40).
	wantA := api.KeySpread{Key: "company", Picks: 8, Distinct: 2, MaxShare: 0.75, Jain: 0.4}
	wantB := api.KeySpread{Key: "company", Picks: 8, Distinct: 4, MaxShare: 0.25, Jain: 1}
	if a, b := c.A.Keys[1], c.B.Keys[1]; c.Overlap != 4 || a != wantA || b != wantB {
		t.Errorf("got %+v", c)
	}
	if c := compare("OldestFirst", "OldestFirst"); c.Overlap != 8 || fmt.Sprint(c.A) != fmt.Sprint(c.B) {
		t.Errorf("of a strategy with itself: got %+v", c)
	}
	if c := compare("NewestFirst", `SelectOnly("company", 9, Random)`); c.Overlap != 0 || c.B.Picks != 0 || len(c.B.Keys) != len(c.A.Keys) || c.B.Keys[1] != (api.KeySpread{Key: "company"}) {
		t.Errorf("with one that offers nothing: got %+v", c)
	}
}
