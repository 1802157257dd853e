//go:build !race

package shard

// The race detector allocates, too, so these counts mean nothing under it.

import (
	"context"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// A reserve and a completion of one chunk cost little memory: these calls are most of a server's work. It is not
// parallel, as the allocations of other tests would count.
func TestReserveAndCompleteAllocateLittle(t *testing.T) {
	withShard(t, t.TempDir(), func(s *Shard) {
		ctx := context.Background()
		if _, _, err := s.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 100_000, Prefix: "p/"}}); err != nil {
			t.Fatal(err)
		}
		plan := planOf(t, "OldestFirst")
		var chunks []queue.Reservation
		var results []queue.Result
		items := make([]queue.CompleteItem, 1)
		if n := testing.AllocsPerRun(500, func() {
			got, err := s.Reserve(ctx, machine.Request{Plan: plan, Max: 1, Timeout: time.Hour}, chunks[:0])
			if chunks = got.Reservations; err != nil || len(chunks) != 1 {
				t.Fatal(len(chunks), err)
			}
			items[0].Token = chunks[0].Token
			if results, err = s.Complete(ctx, items, results[:0]); err != nil || results[0].Outcome != queue.OutcomeOK {
				t.Fatal(results, err)
			}
		}); n > 13 {
			t.Errorf("%v allocations, want at most 13", n)
		}
	})
}
