package simtest

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// A commit fails while a window is being scored, and the state is made again: the candidates are asked for again, and nothing is
// taken of submissions that only the old state knows.
//
//quern:overlapping
func TestScoredAcrossReload(t *testing.T) {
	t.Parallel()
	f := new(faults)
	b := newBox(t, relaxed())
	b.wrap, b.fatal = f.wrap, f.fatal
	calls := 0
	var held []queue.Reservation
	b.scorers = &scorer{score: func(_ *strategy.Window, scores []float64) error {
		if calls++; calls == 1 {
			f.arm(unknownLost, 0)
			if _, err := b.shard.Complete(ctx, completions(held), nil); queue.CodeOf(err) != queue.CodeCommitFailed {
				t.Errorf("the completion beside: got %v, want %s", err, queue.CodeCommitFailed)
			}
		}
		for i := range scores {
			scores[i] = 1
		}
		return nil
	}}
	b.open()
	b.insertRanked(1, 3)
	held = b.reserveBy("OldestFirst", 1)
	got := b.reserveBy(`Plugin("p", OldestFirst)`, 2)
	if len(got) != 2 || calls != 2 {
		t.Fatalf("got %d reservations after %d windows, want 2 after 2", len(got), calls)
	}
	if n := b.shard.Stats().Reserved; n != 3 {
		t.Errorf("%d chunks are reserved, want 3: with the one whose completion failed", n)
	}
	if err := b.shard.Audit(); err != nil {
		t.Error(err)
	}
	results, err := b.shard.Complete(ctx, completions(got), nil)
	if err != nil || results[0].Outcome != queue.OutcomeOK || results[1].Outcome != queue.OutcomeOK {
		t.Errorf("complete: %v, %v", results, err)
	}
}
