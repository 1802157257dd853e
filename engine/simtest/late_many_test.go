package simtest

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Only so many chunks of a submission that no one holds may be completed out of turn: the others are lost, and offered again. Accepted
// chunks are done.
func TestTooManyLateCompletions(t *testing.T) {
	t.Parallel()
	const most, chunks = 4096, 6000
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(chunks))
	var held []queue.Reservation
	for len(held) < chunks {
		held = append(held, mustReserve(t, b, "OldestFirst", queue.MaxReserve)...)
	}
	b.kill(t, asTheyAre) // after which no one holds them, and their turns are still to come
	slices.Reverse(held) // from the end on each is out of turn, but for a few where a cursor is by chance
	results, err := b.shard.Complete(ctx, completions(held), nil)
	if err != nil {
		t.Fatal(err)
	}
	ok := uint32(0)
	for i := range results {
		switch r := &results[i]; {
		case r.Outcome == queue.OutcomeOK:
			ok++
		case r.Outcome != queue.OutcomeLost || r.Code != "too_many_late":
			t.Fatalf("completion %d: %+v, want ok, or lost as too_many_late", i, r)
		}
	}
	if ok < most || ok > most+16 {
		t.Errorf("%d late completions were accepted, want %d and few more", ok, most)
	}
	b.wantCounts("after it", sub.ID, queue.Submission{Ready: chunks - ok, Done: ok})
}

// Reserve, extend and release write nothing to the journal; an insert and a completion do.
func TestReserveWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t, relaxed())
	var appends atomic.Int64
	b.wrap = func(inner journal.Journal) journal.Journal { return &countingLog{inner, &appends} }
	b.open()
	before := appends.Load()
	mustInsert(t, b, prefixed(2))
	if appends.Load() == before {
		t.Fatal("an insert wrote nothing: the count is wrong")
	}
	before = appends.Load()
	held := mustReserve(t, b, "OldestFirst", 2)
	if _, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: held[0].Token, Timeout: 60_000}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.shard.Release(ctx, []queue.ReleaseItem{{Token: held[0].Token}}, nil); err != nil {
		t.Fatal(err)
	}
	if n := appends.Load() - before; n != 0 {
		t.Errorf("reserve, extend and release wrote %d batches, want none", n)
	}
	if _, err := b.shard.Complete(ctx, completions(held[1:]), nil); err != nil || appends.Load() == before {
		t.Errorf("a completion: %v, and %d batches, want some", err, appends.Load()-before)
	}
}
