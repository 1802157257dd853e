package simtest

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// A submission that completed with dead chunks, was opened again and then cancelled is listed with its last end, although the history
// still has the first one.
func TestListTellsTheLastEnd(t *testing.T) {
	t.Parallel()
	settings := deadLetters()
	settings.MaxAttempts = 1
	b := openBox(t, settings)
	sub, _, err := b.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "Random"), Max: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.mustFail(got.Reservations, func(*queue.FailItem) {})
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.shard.DeadLetters.Redrive(ctx, sub.ID, []uint32{0}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[queue.SubmissionState]int{queue.CompletedWithDead: 0, queue.Cancelled: 1, queue.Open: 0} {
		list, _, err := b.shard.Submissions.List(ctx, machine.Filter{States: []queue.SubmissionState{state}}, 0, 10)
		if err != nil || len(list) != want {
			t.Errorf("%d submissions are listed as %s (%v), want %d", len(list), state, err, want)
		}
	}
}
