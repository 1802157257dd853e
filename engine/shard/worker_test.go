package shard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// An action that panics is parked. It may have left the state half changed, so the shard reloads, and goes on with
// everything else. A panic outside of any submission only pauses its kind.
func TestPanickingActionIsParked(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	withShard(t, t.TempDir(), func(s *Shard) {
		sub, _, err := s.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}})
		if err != nil {
			t.Fatal(err)
		}
		ends, _, err := s.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}, DeadDeadline: lifeStart})
		if err != nil {
			t.Fatal(err)
		}
		damage := func(kind machine.Kind) {
			s.mu.Lock()
			defer s.mu.Unlock()
			r := s.m.Live(sub.ID)
			r.Parked, r.Sub = true, nil
			s.m.Lifecycle.Schedule(kind, machine.Due{At: lifeStart, Seq: r.Seq})
		}
		damage(machine.KindRunAt)
		damaged := s.m
		s.Worker.Tick()
		w := s.Work()
		if len(w.Parked) != 1 || w.Parked[0].Kind != machine.KindRunAt.String() || w.Parked[0].Submission != sub.ID.String() || w.Parked[0].Error == "" {
			t.Fatalf("parked: got %+v, want the run_at of %s with its error", w.Parked, sub.ID)
		}
		got, err := s.Submissions.Get(ctx, sub.ID)
		if err != nil || got.Ready != 5 || s.m == damaged {
			t.Errorf("got %+v %v, reloaded %t, want 5 ready after a reload", got, err, s.m != damaged)
		}
		if err := s.Health(); err != nil {
			t.Errorf("Health() = %v, want nil: the rest goes on", err)
		}
		s.Worker.Tick()
		if got, err := s.Submissions.Get(ctx, ends.ID); err != nil || got.State != queue.Expired {
			t.Errorf("another kind's submission: got %s %v, want expired", got.State, err)
		}
		if err := s.Audit(); err != nil {
			t.Error(err)
		}
		if n := s.Worker.Retry(); n != 1 {
			t.Errorf("RetryParked() = %d, want 1", n)
		}
		s.Worker.Tick()
		if w := s.Work(); len(w.Parked) != 0 {
			t.Errorf("retried: got %+v parked, want none", w.Parked)
		}
	})
}

// A shard whose life-cycle worker is more than 30 seconds behind is not ready, until the worker has caught up.
func TestLagIsNotReady(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		due := func(ago time.Duration) {
			n := queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}, DeadDeadline: queue.Time(lifeStart).Add(-ago)}
			if _, _, err := s.Insert(context.Background(), &n); err != nil {
				t.Fatal(err)
			}
		}
		due(30 * time.Second)
		if err := s.Health(); err != nil {
			t.Errorf("30 s behind: Health() = %v, want nil", err)
		}
		due(31 * time.Second)
		if err := s.Health(); err == nil || !strings.Contains(err.Error(), "31s behind") {
			t.Errorf("31 s behind: Health() = %v, want an error that tells the lag", err)
		}
		s.Worker.Tick()
		if err := s.Health(); err != nil {
			t.Errorf("caught up: Health() = %v, want nil", err)
		}
	})
}
