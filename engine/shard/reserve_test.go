package shard

import (
	"context"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Each chunk is measured once it is handed out: how long it waited for that since it was inserted.
func TestReserveMeasuresWaits(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		ctx, waits := context.Background(), measure.New([]float64{1})
		s.Answers.Waits = waits
		if _, _, err := s.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}}); err != nil {
			t.Fatal(err)
		}
		parsed, err := strategy.Parse("OldestFirst")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []uint64{3, 5, 5} {
			if _, err := s.Reserve(ctx, machine.Request{Plan: parsed.Plan(), Max: 3, Timeout: time.Hour}, nil); err != nil {
				t.Fatal(err)
			}
			if got := waits.Counts().Count; got != want {
				t.Errorf("%d waits are measured, want %d", got, want)
			}
		}
	})
}
