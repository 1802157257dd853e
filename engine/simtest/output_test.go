package simtest

import (
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// TestOutputIsTheWinners: when a late completion races with that of the present holder, the output of the accepted one is
// kept.
//
//quern:overlapping
func TestOutputIsTheWinners(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	for round := range 300 {
		sub := mustInsert(t, b, prefixed(1))
		late := mustReserve(t, b, "NewestFirst", 1)[0].Token
		if _, err := b.shard.Release(ctx, []queue.ReleaseItem{{Token: late}}, nil); err != nil {
			t.Fatal(err)
		}
		var winners [2]bool
		complete := func(who int, token queue.Token) {
			got, err := b.shard.Complete(ctx, []queue.CompleteItem{{Token: token, Output: []byte{byte(who)}}}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			winners[who] = got[0].Outcome == queue.OutcomeOK
		}
		var both sync.WaitGroup
		both.Add(2)
		go func() {
			defer both.Done()
			complete(0, late)
		}()
		go func() {
			defer both.Done()
			for _, r := range mustReserve(t, b, "NewestFirst", 1) {
				complete(1, r.Token)
			}
		}()
		both.Wait()
		chunk, err := b.shard.Submissions.Chunk(ctx, sub.ID, 0)
		if err != nil || winners[0] == winners[1] || len(chunk.Output) != 1 || !winners[chunk.Output[0]] {
			t.Fatalf("round %d: accepted late %v, holder %v, the output is that of %v (0: late, 1: holder), %v", round, winners[0], winners[1], chunk.Output, err)
		}
	}
}
