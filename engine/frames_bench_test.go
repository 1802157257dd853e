package engine

import (
	"context"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// The cost of a frame with the most values that it reads, in total and while the shard is held.
func BenchmarkFrame(b *testing.B) {
	e, err := Open(context.Background(), Options{Dir: b.TempDir(), Now: time.Now, Seed: func() uint64 { return 7 }, BallastBytes: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	relaxed := queue.DefaultSettings()
	relaxed.Durability = queue.Relaxed
	if _, _, err := e.PutQueue(context.Background(), DefaultQueue, relaxed); err != nil {
		b.Fatal(err)
	}
	for i := range maxFrameVisits {
		if _, _, err := queueAt(e, DefaultQueue).Insert(context.Background(), queue.NewSubmission{
			Chunks: queue.Chunks{Count: 1, Prefix: "x"}, OperationsPerChunk: 1, Meta: queue.Meta{{Key: "company", Value: queue.IntValue(int64(i))}},
		}); err != nil {
			b.Fatal(err)
		}
	}
	q := e.queues[DefaultQueue]
	b.Run("whole", func(b *testing.B) {
		for i := range b.N {
			q.sample(queue.Time(1_000_000+1000*i), nil)
		}
	})
	b.Run("values", func(b *testing.B) {
		seen := make([]backlog.ValueCount, 0, maxFrameVisits)
		for b.Loop() {
			seen, _ = q.shard.Values.List("company", maxFrameVisits, seen[:0])
		}
	})
}
