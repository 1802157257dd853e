package worker

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/shard/trouble"
)

func working(t *testing.T, means Means) (*shelltest.Shell, *Worker) {
	s := shelltest.New(t)
	seed := func() uint64 { return 7 }
	if means.Seal == nil {
		means.Seal = func() {}
	}
	return s, New(s, s.Queue(), trouble.New(slog.New(slog.DiscardHandler), seed), means)
}

// expiring inserts a submission that expires in a minute.
func expiring(s *shelltest.Shell) queue.SubmissionID {
	return s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Prefix: "p/"}, DeadDeadline: s.Clock.Add(time.Minute)})
}

// The first pass after their time does all due actions in one commit, and wakes those that wait. Nothing is done twice.
func TestPassDoesWhatIsDue(t *testing.T) {
	t.Parallel()
	s, w := working(t, Means{})
	expiring(s)
	expiring(s)
	expiring(s)
	commits := len(s.Commits)
	if w.Tick(); len(s.Commits) != commits || s.Machine.Backlog.Len() != 3 {
		t.Fatal("something was done before its time")
	}
	s.Clock = s.Clock.Add(2 * time.Minute)
	if lag := Lag(s.Machine, s.Clock); lag != time.Minute {
		t.Errorf("a lag of %s, want a minute", lag)
	}
	w.Tick()
	if open := s.Machine.Backlog.Len(); open != 0 || len(s.Commits) != commits+1 || s.Woken == 0 {
		t.Fatalf("%d submissions are open, after %d commits, woken %d times", open, len(s.Commits)-commits, s.Woken)
	}
	if w.Tick(); len(s.Commits) != commits+1 || Lag(s.Machine, s.Clock) != 0 || w.Trouble.Slices != 1 {
		t.Errorf("a pass with nothing to do: %d commits, %d slices", len(s.Commits)-commits, w.Trouble.Slices)
	}
}

// A slice whose commit fails has done nothing. After a pause it is made again, smaller and sealed off from others' ops.
func TestFailedSliceIsMadeAgain(t *testing.T) {
	t.Parallel()
	sealed := 0
	s, w := working(t, Means{Seal: func() { sealed++ }})
	expiring(s)
	expiring(s)
	s.Clock = s.Clock.Add(2 * time.Minute)
	s.Fail = errors.New("no")
	w.Tick()
	if k := w.Trouble.Kinds[machine.KindDeadDeadline]; k.Failures != 1 || k.Most() != 1 || s.Machine.Backlog.Len() != 2 {
		t.Fatalf("after a failure: %+v, %d open", k, s.Machine.Backlog.Len())
	}
	if w.Tick(); s.Machine.Backlog.Len() != 2 {
		t.Fatal("made again without a pause")
	}
	s.Clock = s.Clock.Add(time.Minute)
	if w.Tick(); s.Machine.Backlog.Len() != 0 || sealed == 0 || w.Trouble.Kinds[machine.KindDeadDeadline].Failures != 0 {
		t.Errorf("%d submissions are open, sealed %d times, %+v", s.Machine.Backlog.Len(), sealed, w.Trouble.Kinds[machine.KindDeadDeadline])
	}
}

// An action that panics is parked, the state is no longer trusted, and no caller hears of the action's changes.
func TestPanicDistrustsTheState(t *testing.T) {
	t.Parallel()
	lost := func(m *machine.Machine, _ queue.Time, _ int) int {
		m.Lifecycle.Acting = machine.Action{Kind: machine.KindLost, Submission: 9}
		panic("half done")
	}
	s, w := working(t, Means{Steps: map[machine.Kind]func(*machine.Machine, queue.Time, int) int{machine.KindLost: lost}})
	w.Tick()
	action := machine.Action{Kind: machine.KindLost, Submission: 9}
	if s.Broken == nil || w.Trouble.Parked[action] == nil && w.Trouble.Kinds[machine.KindLost].Failures == 0 || s.Woken != 0 {
		t.Errorf("broken %v, parked %v, woken %d times", s.Broken, w.Trouble.Parked, s.Woken)
	}
}

// Chores run behind the slices, in their order; nothing runs while the shard cannot work, and a nudge then leaves nothing behind.
func TestChoresComeLast(t *testing.T) {
	t.Parallel()
	var order []string
	note := func(name string) func() { return func() { order = append(order, name) } }
	step := func(*machine.Machine, queue.Time, int) int { note("step")(); return 0 }
	s, w := working(t, Means{
		Steps:  map[machine.Kind]func(*machine.Machine, queue.Time, int) int{machine.KindGrace: step},
		Chores: []func(){note("rules"), note("schedules")},
	})
	if w.Tick(); len(order) != 3 || order[0] != "step" || order[1] != "rules" || order[2] != "schedules" {
		t.Errorf("order: %v", order)
	}
	s.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	w.Nudge()
	w.Finish()
	if w.running.Load() || len(order) != 3 {
		t.Errorf("after a nudge of a shard that cannot work: running %t, order %v", w.running.Load(), order)
	}
}
