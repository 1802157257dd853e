package simtest

import (
	"fmt"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// A call about more dead chunks than an op may name makes several ops: in a submission that is open, and in one that has
// ended, in memory or in the history. A restart reads them all.
func TestManyDeadLettersInOneCall(t *testing.T) {
	t.Parallel()
	const dead = 2*journal.MaxRedrive - 13
	for _, where := range []string{"open", "ended", "in the history"} {
		for _, action := range []queue.BulkAction{queue.BulkRedrive, queue.BulkDelete, queue.BulkForward} {
			t.Run(fmt.Sprint(where, " ", action), func(t *testing.T) {
				t.Parallel()
				b := openBox(t, deadLetters())
				want := queue.Submission{State: queue.CompletedWithDead}
				chunks := uint32(dead)
				if where == "open" {
					want, chunks = queue.Submission{Ready: 1}, dead+1
				}
				id := mustInsert(t, b, prefixed(chunks)).ID
				b.mustFail(mustReserve(t, b, "OldestFirst", dead), func(f *queue.FailItem) { f.Fatal = true })
				if where == "in the history" {
					b.kill(t, allFolded)
				}
				var n int
				var err error
				switch action {
				case queue.BulkRedrive:
					n, err = b.shard.DeadLetters.Redrive(ctx, id, indexes(dead))
					want.State = queue.Open
					want.Ready += dead
				case queue.BulkDelete:
					n, err = b.shard.DeadLetters.Delete(ctx, id, indexes(dead))
					want.Skipped = dead
				default:
					n, err = b.shard.DeadLetters.Forward(ctx, id, indexes(dead), "third")
					want.Skipped = dead
				}
				if n != dead || err != nil {
					t.Fatalf("%d dead letters went, %v; want %d", n, err, dead)
				}
				b.wantCounts("then", id, want)
				b.crashed(0)
				b.wantCounts("after a crash", id, want)
				if out := b.shard.Stats().Outgoing; (action == queue.BulkForward) != (out == dead) {
					t.Errorf("%d dead letters are on their way", out)
				}
			})
		}
	}
}
