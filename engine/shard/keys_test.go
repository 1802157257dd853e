package shard

import (
	"context"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// meddling is a context that calls a function when the store looks whether its call goes on.
type meddling struct {
	context.Context
	once sync.Once
	do   func()
}

func (m *meddling) Err() error {
	m.once.Do(m.do)
	return m.Context.Err()
}

// An insert finds a key that another insert used, and a checkpoint moved from memory into the store, between its own two looks.
func TestKeyMovesBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		with := func(key string) queue.Insertion {
			return queue.Insertion{New: &queue.NewSubmission{IdempotencyKey: key, Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		stored, first := with("stored"), with("moving")
		_, _, err := s.Insert(t.Context(), stored.New)
		must(err)
		must(s.Checkpoint())
		// The first key is found nowhere, then the look for the second one calls do.
		ctx := &meddling{Context: t.Context(), do: func() {
			first.Submission, _, err = s.Insert(t.Context(), first.New)
			must(err)
			must(s.Checkpoint())
			if n := s.m.Keys.Len(); n != 0 {
				t.Errorf("%d keys are in memory behind a checkpoint, want none", n)
			}
		}}
		list := []queue.Insertion{with("moving"), stored}
		must(s.InsertMany(ctx, list, false))
		if first.Submission.ID == 0 || !list[0].Replayed || list[0].Submission.ID != first.Submission.ID {
			t.Errorf("the second insert with the key gave %s, replayed %v; want %s", list[0].Submission.ID, list[0].Replayed, first.Submission.ID)
		}
	})
}
