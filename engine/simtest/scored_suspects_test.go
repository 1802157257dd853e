package simtest

import (
	"math"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// suspectsBeside has n suspects of rank 1 beside fresh work of rank 2, so that all but one are shelved.
func suspectsBeside(t *testing.T, b *box, n int) {
	t.Helper()
	b.insertRanked(1, uint32(n))
	if got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "OldestFirst"), Max: n, Timeout: time.Second}, nil); err != nil || len(got.Reservations) != n {
		t.Fatalf("reserved %d %v, want %d", len(got.Reservations), err, n)
	}
	b.insertRanked(2, 1000)
	b.tickAfter(2 * time.Second)
	b.tickAfter(time.Minute)
	if w := b.shard.Work().Suspects; w.Shelved != uint64(n)-1 || w.Lent != 1 {
		t.Fatalf("suspects: %+v, want %d shelved and one out", w, n-1)
	}
}

// A scored strategy that finds nothing else gets suspects that suit it whatever the quota, as one without scores does. The suspects
// that it does not take, and those that do not suit it, go back.
func TestScoredBorrowsSuspects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`SelectOnly("rank", 1, OldestFirst)`, `Plugin("p", SelectOnly("rank", 1, OldestFirst))`,
		`SelectOnly("rank", 1, OrElse(Plugin("p", SelectOnly("other", 1, OldestFirst)), Plugin("p", Random)))`,
		`OrElse(Plugin("p", SelectOnly("rank", 1, OldestFirst)), SelectOnly("rank", 3, Random))`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := openScored(t, byRank(func(rank int64) float64 { return float64(rank) }))
			suspectsBeside(t, b, 6)
			if got := b.reserveBy(text, 1); len(got) != 1 || got[0].Attempt != 2 { // the one that is out
				t.Fatalf("got %+v, want the suspect that is out", got)
			}
			if got := b.reserveBy(text, 3); len(got) != 3 || got[0].Attempt != 2 {
				t.Errorf("got %d chunks, want 3 of the shelf", len(got))
			}
			if w := b.shard.Work().Suspects; w.Shelved != 2 || w.Lent != 4 || w.Ready != 0 {
				t.Errorf("suspects: %+v, want 2 shelved and 4 held", w)
			}
			if got := b.reserveBy(text, 9); len(got) != 2 {
				t.Errorf("got %d chunks, want the last 2", len(got))
			}
			if err := b.shard.Audit(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("without success", func(t *testing.T) {
		t.Parallel()
		b := openScored(t, &scorer{score: func(_ *strategy.Window, scores []float64) error {
			for i := range scores {
				scores[i] = math.NaN()
			}
			return nil
		}})
		suspectsBeside(t, b, 6)
		if got := b.reserveBy(`Plugin("p", SelectOnly("rank", 1, OldestFirst))`, 3); len(got) != 0 {
			t.Fatalf("a scorer that skips everything: got %+v", got)
		}
		if w := b.shard.Work().Suspects; w.Shelved != 5 || w.Lent != 1 {
			t.Errorf("suspects: %+v, want 5 shelved and one out, as before", w)
		}
		if err := b.shard.Audit(); err != nil {
			t.Error(err)
		}
	})
}

// A reserve that found something takes no suspects besides from an alternative that has nothing else.
func TestNoSuspectsBesideOtherWork(t *testing.T) {
	t.Parallel()
	b := openScored(t, byRank(func(rank int64) float64 { return float64(rank) }))
	suspectsBeside(t, b, 6)
	b.insertRanked(3, 2)
	b.reserveBy(`SelectOnly("rank", 1, OldestFirst)`, 1)
	got := b.reserveBy(`OrElse(Plugin("p", SelectOnly("rank", 3, OldestFirst)), SelectOnly("rank", 1, OldestFirst))`, 5)
	if value, _ := got[0].Meta.Find("rank"); len(got) != 2 || value != queue.IntValue(3) {
		t.Errorf("got %d chunks, the first of rank %s; want the 2 fresh ones only", len(got), value.Text())
	}
}
