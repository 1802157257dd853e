package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// The numbers of a look are used while they are fresh. Then one call looks again, while the others use the old ones, but not for ever.
func TestHeadsAreRemembered(t *testing.T) {
	t.Parallel()
	var r remembered
	plan, shards, at := new(strategy.Plan), []source{ownShard{new(Queue), 1}, ownShard{new(Queue), 2}}, time.Now()
	heads := []backlog.Head{{Weight: 1}, {Weight: 2}}
	known := func(plan *strategy.Plan, shards []source, after time.Duration) bool {
		got := r.recall(plan, shards, at.Add(after))
		if got != nil && !slices.Equal(got, heads) {
			t.Fatalf("it recalls %v, want %v", got, heads)
		}
		return got != nil
	}
	if known(plan, shards, 0) {
		t.Error("it recalls what no call has found")
	}
	r.note(plan, &looked{at: at, shards: shards, heads: heads})
	if !known(plan, shards, headsFresh) || !known(plan, shards, 0) {
		t.Error("it does not recall what was just found")
	}
	if known(new(strategy.Plan), shards, 0) {
		t.Error("it recalls the heads of another plan")
	}
	if known(plan, shards[:1], 0) || known(plan, []source{shards[1], shards[0]}, 0) {
		t.Error("it recalls the heads of other shards")
	}
	r.note(plan, &looked{at: at, shards: shards, heads: heads})
	if known(plan, shards, headsFresh+1) {
		t.Error("no call looks again")
	}
	if !known(plan, shards, headsFresh+1) {
		t.Error("a second call looks again while the first does")
	}
	if known(plan, shards, headsOld+1) || known(plan, shards, -headsOld-1) {
		t.Error("it recalls heads that are too old, or of a clock that was set back")
	}
	for range 3 * headsMost {
		r.note(new(strategy.Plan), &looked{at: at, shards: shards, heads: heads})
	}
	if len(r.of) > headsMost {
		t.Errorf("it remembers %d plans, at most %d", len(r.of), headsMost)
	}
}

// Remembered numbers hide nothing. A shard that was empty at the look gives its chunks when the others have none, and soon also when they
// have some.
func TestRememberedHeadsHideNothing(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 2)
	defer closed(t, e)
	groups := map[int]string{} // one in each shard
	for i := 0; len(groups) < 2; i++ {
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i)})
		groups[w.(*Sharded).groups.of(s.Group)] = s.Group
	}
	for len(takenBy(t, w, "Random", 100)) > 0 {
		continue
	}
	for round := range 200 {
		only := 1 + round%2
		s := put1(t, w, queue.NewSubmission{Group: groups[only]})
		if got := takenBy(t, w, "Random", 1); len(got) != 1 || got[0].Token.Submission != s.ID {
			t.Fatalf("round %d: the only chunk that is ready is %d, and %v was taken", round, s.ID, got)
		}
	}
	put1(t, w, queue.NewSubmission{Group: groups[1], Chunks: queue.Chunks{Count: 1_000_000}})
	takenBy(t, w, "Random", 1)
	late := put1(t, w, queue.NewSubmission{Group: groups[2], Chunks: queue.Chunks{Count: 1_000_000}})
	for found := false; !found; {
		for _, r := range takenBy(t, w, "Random", 10) {
			found = found || r.Token.Submission == late.ID
		}
	}
}

// An order never uses remembered heads: a chunk that comes back into another shard is the first again at once.
func TestOrderIsNotRemembered(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 2)
	defer closed(t, e)
	first := put1(t, w, queue.NewSubmission{Group: "a"})
	for i, apart := 0, false; !apart; i++ {
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i), Chunks: queue.Chunks{Count: 100}})
		apart = s.ID.Shard() != first.ID.Shard()
	}
	for range 30 {
		oldest := takenBy(t, w, "OldestFirst", 1)
		if len(oldest) != 1 || oldest[0].Token.Submission != first.ID {
			t.Fatalf("the oldest is of submission %d, and %v was taken", first.ID, oldest)
		}
		takenBy(t, w, "OldestFirst", 1)
		if _, err := w.Release(t.Context(), []queue.ReleaseItem{{Token: oldest[0].Token}}, nil); err != nil {
			t.Fatal(err)
		}
	}
}
