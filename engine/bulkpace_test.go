package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// An operation whose filter means nearly nothing still shows durably how far it got, and gives its turn up before it has walked over
// everything. Everything is counted once, wherever its pages break off.
//
//quern:sequential
func TestBulkBreaksOffWhenItFindsLittle(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const submissions, letters = 2500, 10_000 // 4 dead letters each
	e, _ := bulkEngine(t, submissions)
	none := queue.DeadFilter{Fingerprint: strings.Repeat("0", 16)}
	q, err := e.Queue(DefaultQueue)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what  string
		r     queue.BulkRequest
		pages []uint64 // examined after each
	}{
		{"letters, each looked at", queue.BulkRequest{Filter: queue.BulkFilter{Dead: none}}, []uint64{4096, 8192, letters}},
		{"letters of submissions that are passed over", queue.BulkRequest{Filter: queue.BulkFilter{Meta: queue.Meta{{Key: "no", Value: queue.IntValue(1)}}}}, []uint64{letters}},
	} {
		b, err := q.shard.Bulks.Start(test.r)
		if err != nil || b.Walk.ToExamine != letters {
			t.Fatalf("%s: start: got %+v %v, want %d to walk over", test.what, b.Walk, err, letters)
		}
		for i, want := range test.pages {
			n, more, err := q.shard.Bulks.Step(ctx, b.ID, 256)
			got, _ := q.shard.Bulks.Get(b.ID)
			if err != nil || n != 0 || more != (i < len(test.pages)-1) || got.Walk.Examined != want || got.Walk.ToExamine != letters {
				t.Fatalf("%s: page %d: got %d met, more %v, %v, %+v; want none met and %d of %d", test.what, i, n, more, err, got.Walk, want, letters)
			}
		}
		if got, _ := q.shard.Bulks.Get(b.ID); got.State != queue.BulkCompleted || got.Walk.Percent(got.State) != 100 {
			t.Errorf("%s: at the end: got %s at %d %%, want it completed at 100", test.what, got.State, got.Walk.Percent(got.State))
		}
	}
}

// An operation that breaks off within a page of its finds counts nothing twice: the marks of pages of any size add up to the whole.
func TestBulkCountsOnceWhateverThePages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e, _ := bulkEngine(t, 40)
	q, err := e.Queue(DefaultQueue)
	if err != nil {
		t.Fatal(err)
	}
	one := queue.DeadFilter{Fingerprint: queue.Fingerprint("kind b no 7")} // every second one
	for _, most := range []int{1, 2, 3, 7, 256} {
		b, err := q.shard.Bulks.Start(queue.BulkRequest{Filter: queue.BulkFilter{Dead: one}, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		more := true
		for met := uint64(0); more; {
			var n int
			if n, more, err = q.shard.Bulks.Step(ctx, b.ID, most); err != nil {
				t.Fatal(err)
			}
			met += uint64(n)
			got, _ := q.shard.Bulks.Get(b.ID)
			// Chunks 1 to 4 of each are dead, and 1 and 3 of kind b: the m-th that is met is the (2m-1)-th that is looked at.
			if more && got.Walk.Examined != 2*met-1 {
				t.Fatalf("pages of %d: %d met, %d examined, want %d", most, met, got.Walk.Examined, 2*met-1)
			}
		}
		if got, _ := q.shard.Bulks.Get(b.ID); got.Walk.Examined != 160 || got.Walk.ToExamine != 160 || got.Counts.Matched != 80 {
			t.Errorf("pages of %d: got %+v, %d met; want 160 of 160 and 80", most, got.Walk, got.Counts.Matched)
		}
	}
}

// The forecast of an operation uses the pace of the last minute, not an earlier pace, and not a clock that was set back.
func TestBulkForeseesByItsRecentPace(t *testing.T) {
	t.Parallel()
	e, clock := bulkEngine(t, 1)
	b := queue.Bulk{ID: 5, Walk: queue.BulkWalk{ToExamine: 10_000}}
	want := func(when string, want time.Duration) {
		t.Helper()
		b.Remaining = 0
		if e.bulks.foresee(&b); b.Remaining != want {
			t.Errorf("%s, at %d of %d: got %s left, want %s", when, b.Walk.Examined, b.Walk.ToExamine, b.Remaining, want)
		}
	}
	want("before its first turn", 0)
	b.Rate = 100
	want("before its first turn, at a rate", 100*time.Second)
	for range 120 { // 10 a second
		e.bulks.meter(&b)
		clock.Add(1000)
		b.Walk.Examined += 10
	}
	want("after two minutes at 10 a second", 880*time.Second)
	for range 90 { // 40 a second
		e.bulks.meter(&b)
		clock.Add(1000)
		b.Walk.Examined += 40
	}
	want("after a minute and a half at 40 a second", 130*time.Second)
	clock.Add(-3_600_000)
	want("when the clock was set back", 52*time.Second)
	b.Walk.Examined = b.Walk.ToExamine
	want("when nothing is left", 0)
	b.Walk.Examined, b.State = 0, queue.BulkCancelled
	want("when it was cancelled", 0)
}
