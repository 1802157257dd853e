package shard

import (
	"context"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// A completion takes effect after its commit, and that ends every moment of the shard that began before. The other shards must hear that a
// value has room again, and the shard itself may have more to give.
func TestMomentEndsWithTheEffectOfACommit(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		ctx := context.Background()
		if _, _, err := s.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}); err != nil {
			t.Fatal(err)
		}
		got, err := s.Reserve(ctx, machine.Request{Plan: planOf(t, "OldestFirst"), Max: 1, Timeout: time.Hour}, nil)
		if err != nil || len(got.Reservations) != 1 {
			t.Fatal(got, err)
		}
		var began Moment
		var ended, lasts bool
		committed := s.options.Committed
		s.options.Committed = func(took time.Duration, ops, bytes int) {
			now := s.options.Now()
			s.mu.looked(func() { began = moment(s, now) })
			if !began.Lasts(s, now.UnixNano()) {
				t.Error("a moment in which nothing changed is over")
			}
			committed(took, ops, bytes)
		}
		s.m.Joined.Ended = append(s.m.Joined.Ended, func(*machine.Record) {
			ended, lasts = true, began.Lasts(s, s.options.Now().UnixNano())
		})
		if _, err := s.Complete(ctx, []queue.CompleteItem{{Token: got.Reservations[0].Token}}, nil); err != nil {
			t.Fatal(err)
		}
		if !ended || lasts {
			t.Errorf("the submission has ended: %t; the moment before lasts: %t", ended, lasts)
		}
	})
}
