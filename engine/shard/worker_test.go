package shard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/schedules"
)

// An action that panics is parked, and the state that it may have left half changed is thrown away: the shard reloads, and goes on
// with everything else. A panic outside of any submission only pauses its kind.
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

// No pause is longer than five seconds, and a clock that is set back does not make it so.
func TestPauses(t *testing.T) {
	t.Parallel()
	var tr trouble
	now := queue.Time(lifeStart)
	last := time.Duration(0)
	for n := range 40 {
		seed := uint64(n) * 0x9E3779B97F4A7C15
		tr.fail(context.Canceled, now, seed)
		pause := tr.again.Sub(now)
		if pause > longestWait || pause < time.Duration(float64(firstPause)*(1-pauseJitter))-time.Millisecond {
			t.Fatalf("failure %d: a pause of %s", n, pause)
		}
		if tr.may(now) || !tr.may(now.Add(pause)) {
			t.Fatalf("failure %d: may = %v at once, %v after the pause", n, tr.may(now), tr.may(now.Add(pause)))
		}
		if !tr.may(now.Add(-time.Hour)) {
			t.Fatalf("failure %d: the clock is set back an hour, and the kind sleeps on", n)
		}
		if n > 10 && pause < 3*time.Second {
			t.Fatalf("failure %d: a pause of only %s after one of %s", n, pause, last)
		}
		last = pause
	}
	tr.pass(now, 3)
	if tr.failures != 0 || tr.err != nil || !tr.may(now) || tr.success != now || tr.failed != 40 {
		t.Errorf("after a success: %+v", tr)
	}
}

// A schedule whose ticks break off is parked, and others emit.
func TestPanickingScheduleIsParked(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		def := queue.Schedule{Spec: "@every 1s", Enabled: true, RunOnCreate: true, Template: queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}}
		for _, name := range []string{"bad", "good"} {
			if _, _, err := s.Schedules.Put(name, def, nil); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		bad := s.parts.schedules.ByName["bad"]
		fixed := bad.Rhythm
		bad.Next = lifeStart - 3_600_000 // missed long ago: its spec is asked, which is not there
		bad.Rhythm = &schedules.Rhythm{Def: fixed.Def}
		s.parts.schedules.Aim(bad)
		s.mu.Unlock()
		s.Worker.Tick()
		w := s.Work()
		if len(w.Parked) != 1 || w.Parked[0].Kind != machine.KindSchedule.String() || w.Parked[0].Schedule != "bad" || w.Parked[0].Error == "" {
			t.Fatalf("parked: got %+v, want the schedule with its error", w.Parked)
		}
		if good, err := s.Schedules.Get("good"); err != nil || good.Emitted != 1 {
			t.Errorf("the other one: got %+v %v, want one tick emitted", good.ScheduleCounts, err)
		}
		s.mu.Lock()
		bad.Rhythm, bad.Next = fixed, 0
		s.mu.Unlock()
		if n := s.Worker.Retry(); n != 1 {
			t.Errorf("RetryParked() = %d, want 1", n)
		}
		s.Worker.Tick()
		if got, err := s.Schedules.Get("bad"); err != nil || got.Emitted != 1 || len(s.Work().Parked) != 0 {
			t.Errorf("retried: got %+v %v and %+v parked, want one tick emitted and none", got.ScheduleCounts, err, s.Work().Parked)
		}
	})
}
