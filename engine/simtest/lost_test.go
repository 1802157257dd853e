package simtest

import (
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// A consumer gives a chunk back, or extends it, while its completion is on its way to the disk. If the answer says lost, the chunk is
// done.
//
//quern:overlapping
func TestLostIsDone(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(b *box, token queue.Token) ([]queue.Result, error){
		"release": func(b *box, token queue.Token) ([]queue.Result, error) {
			return b.shard.Release(ctx, []queue.ReleaseItem{{Token: token}}, nil)
		},
		"extend": func(b *box, token queue.Token) ([]queue.Result, error) {
			return b.shard.Extend(ctx, []queue.ExtendItem{{Token: token}}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := new(stop)
			b := newBox(t, relaxed())
			b.wrap = func(inner journal.Journal) journal.Journal { return &stopLog{inner, at} }
			b.open()
			sub := mustInsert(t, b, prefixed(2))
			token := mustReserve(t, b, "OldestFirst", 1)[0].Token
			begun, then := at.arm()
			var calls sync.WaitGroup
			calls.Go(func() {
				if got, err := b.shard.Complete(ctx, []queue.CompleteItem{{Token: token}}, nil); err != nil || got[0].Outcome != queue.OutcomeOK {
					t.Errorf("complete: %+v, %v", got, err)
				}
			})
			<-begun
			calls.Go(func() {
				got, err := call(b, token)
				if err != nil || got[0].Outcome != queue.OutcomeLost {
					t.Errorf("got %+v, %v; want lost", got, err)
				}
				if s, err := b.shard.Submissions.Get(ctx, sub.ID); err != nil || s.Done != 1 {
					t.Errorf("behind lost the submission is %+v, %v; want one chunk done", s, err)
				}
			})
			<-time.After(20 * time.Millisecond) // for an answer that comes too early; none comes too late
			close(then)
			calls.Wait()
		})
	}
}
