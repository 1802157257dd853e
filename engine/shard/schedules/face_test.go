package schedules

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/shard/trouble"
)

// scheduling is a shell whose machine has schedules, and their Means, which the test may change.
func scheduling(t *testing.T) (*shelltest.Shell, *Schedules) {
	s := shelltest.New(t)
	p := New(s.Machine)
	joined := &s.Machine.Joined
	joined.Parts = []machine.Part{p}
	joined.Opened = []func(*machine.Record){p.Opened}
	joined.Ended = []func(*machine.Record){p.Ended}
	joined.Failing = []func(*machine.Record, string, queue.Time){p.Failing}
	joined.Retried = []func(machine.Action) bool{p.Retried}
	q := s.Queue()
	return s, Face(shelltest.Door(s, p), trouble.New(q.Logger, q.Seed), Means{
		Full: func() bool { return false }, Room: func(*queue.NewSubmission) error { return nil },
		Pack:  func(*queue.NewSubmission, int) (*journal.Contents, bool) { return nil, false },
		Blobs: &putsBlobs{err: func() error { return nil }},
	})
}

// putsBlobs is Blobs for inserts without bytes, and fails when the test wants.
type putsBlobs struct {
	err       func() error
	discarded int // inserts
}

func (*putsBlobs) Begin() (end func()) { return func() {} }

func (b *putsBlobs) Put(_ context.Context, inserts []*journal.Insert, _ *queue.NewSubmission) error {
	for _, op := range inserts {
		op.Blobs = nil // as they have no bytes
	}
	return b.err()
}

func (b *putsBlobs) Discard(inserts []*journal.Insert) { b.discarded += len(inserts) }

// every is a schedule that is due each second, and at once.
func every() queue.Schedule {
	return queue.Schedule{
		Spec: "@every 1s", Enabled: true, RunOnCreate: true, CatchUp: 1000,
		Template: queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}},
	}
}

// put makes a schedule, which has to be accepted.
func (s *Schedules) put(t *testing.T, name string, def queue.Schedule) queue.ScheduleInfo {
	t.Helper()
	info, _, err := s.Put(name, def, nil)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// emitted checks how many ticks a schedule has emitted, and that nothing of it is on its way to the disk.
func (s *Schedules) emitted(t *testing.T, name string, want uint64) {
	t.Helper()
	if info, err := s.Get(name); err != nil || info.Emitted != want || s.Part().ByName[name].Busy != nil {
		t.Errorf("%s has emitted %d ticks, want %d; busy %t, %v", name, info.Emitted, want, s.Part().ByName[name].Busy != nil, err)
	}
}

// A schedule is made, emits, is changed, paused, resumed and deleted, each in a commit of its own; a call that changes
// nothing makes no commit.
func TestLifeOfASchedule(t *testing.T) {
	t.Parallel()
	s, x := scheduling(t)
	info, created, err := x.Put("s", every(), nil)
	if err != nil || !created || info.Version != 1 || info.State != queue.ScheduleActive || info.Waiting != s.Clock {
		t.Fatalf("made: %+v %t %v", info, created, err)
	}
	x.RunDue()
	x.emitted(t, "s", 1)
	commits := len(s.Commits)
	if again, created, err := x.Put("s", every(), nil); created || err != nil || again.Version != 1 || len(s.Commits) != commits {
		t.Errorf("the same again: version %d %t %v, %d commits more", again.Version, created, err, len(s.Commits)-commits)
	}
	s.Clock = s.Clock.Add(time.Second)
	x.RunDue()
	x.emitted(t, "s", 2)
	if n := s.Machine.Backlog.Len(); n != 2 {
		t.Errorf("%d submissions, want one for each tick", n)
	}
	if info, err := x.Switch("s", false, "lunch"); err != nil || info.State != queue.SchedulePaused || info.Reason != "lunch" || info.Version != 2 {
		t.Errorf("paused: %+v %v", info, err)
	}
	s.Clock = s.Clock.Add(time.Second)
	x.RunDue()
	x.emitted(t, "s", 2)
	commits = len(s.Commits)
	if _, err := x.Switch("s", false, "again"); err != nil || len(s.Commits) != commits {
		t.Errorf("paused twice: %v, %d commits more", err, len(s.Commits)-commits)
	}
	if err := x.Delete("s", nil); err != nil || len(x.List()) != 0 {
		t.Errorf("deleted: %v, %d left", err, len(x.List()))
	}
	x.RunDue()
	if n := s.Machine.Backlog.Len(); n != 2 {
		t.Errorf("%d submissions behind the end of the schedule, want 2", n)
	}
}

// An invalid call is refused, and changes nothing.
func TestSchedulesAreRefused(t *testing.T) {
	t.Parallel()
	s, x := scheduling(t)
	refused := func(what string, code queue.Code, err error) {
		t.Helper()
		if queue.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
	}
	_, err := x.Get("s")
	refused("get", queue.CodeUnknownSchedule, err)
	_, err = x.Switch("s", true, "")
	refused("switch", queue.CodeUnknownSchedule, err)
	refused("delete", queue.CodeUnknownSchedule, x.Delete("s", nil))
	no := errors.New("no")
	_, _, err = x.Put("s", every(), func(now *queue.ScheduleInfo, exists bool) error {
		if now != nil || exists {
			t.Errorf("the guard sees %+v %t", now, exists)
		}
		return no
	})
	if !errors.Is(err, no) {
		t.Errorf("what the guard refuses: %v", err)
	}
	x.put(t, "s", every())
	for i := len(x.Part().ByName); i < queue.MaxSchedules; i++ {
		x.Part().ByName[string(rune('\u4e00'+i))] = &Scheduled{}
	}
	_, _, err = x.Put("more", every(), nil)
	refused("one more", queue.CodeConflict, err)
	s.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	_, _, err = x.Put("s", every(), nil)
	refused("while the shard cannot work", queue.CodeUnavailable, err)
	if len(s.Commits) != 1 {
		t.Errorf("%d commits, want that of the one that was made", len(s.Commits))
	}
}

// A commit that fails leaves nothing of a schedule that was to be made, and all of one that was to change; both can be asked for again.
func TestFailedCommitOfASchedule(t *testing.T) {
	t.Parallel()
	s, x := scheduling(t)
	broken := errors.New("broken")
	s.Fail = broken
	if _, _, err := x.Put("s", every(), nil); !errors.Is(err, broken) || len(x.Part().ByName) != 0 {
		t.Fatalf("%v, %d schedules", err, len(x.Part().ByName))
	}
	x.put(t, "s", every())
	s.Fail = broken
	if _, err := x.Switch("s", false, "lunch"); !errors.Is(err, broken) {
		t.Errorf("paused: %v", err)
	}
	s.Fail = broken
	x.RunDue()
	x.emitted(t, "s", 0)
	s.Clock = s.Clock.Add(time.Minute) // the pause after the failure
	x.RunDue()
	if info, err := x.Get("s"); err != nil || info.State != queue.ScheduleActive || info.Emitted == 0 {
		t.Errorf("%+v %v", info, err)
	}
}

// A change waits for the one before it.
func TestChangesComeInOrder(t *testing.T) {
	t.Parallel()
	s, x := scheduling(t)
	x.put(t, "s", every())
	if _, err := x.Begin(func(_ *machine.Machine, now queue.Time) error { // another call, that has not waited yet
		x.Part().turn(x.Part().ByName["s"], false, "lunch", now, nil)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	commits := len(s.Commits)
	if info, err := x.Switch("s", true, ""); err != nil || info.State != queue.ScheduleActive || len(s.Commits) != commits+2 {
		t.Errorf("%+v %v, %d commits; want it on again, after a commit for each change", info, err, len(s.Commits)-commits)
	}
}

// When one of several schedules cannot be written, each is tried alone, so that it is found and parked, and the others
// emit. Another definition may fix it.
func TestScheduleThatFailsIsFound(t *testing.T) {
	t.Parallel()
	s, x := scheduling(t)
	var bad error = errors.New("broken")
	x.means.Pack = func(n *queue.NewSubmission, _ int) (*journal.Contents, bool) { return nil, n.Chunks.Prefix == "bad/" }
	bytes := &putsBlobs{err: func() error { return bad }}
	x.means.Blobs = bytes
	ends := 0
	x.means.Trace = func(schedule string) Span {
		return span(func(n int, err error) {
			ends++
			if failed := schedule == "bad"; failed != (err != nil) || failed == (n > 0) {
				t.Errorf("the span of %s ended with %d, %v", schedule, n, err)
			}
		})
	}
	def := every()
	x.put(t, "good", def)
	def.Template.Chunks.Prefix = "bad/"
	x.put(t, "bad", def)
	for range trouble.ParkAfter + 1 {
		x.RunDue()
		s.Clock = s.Clock.Add(time.Minute)
	}
	x.emitted(t, "bad", 0)
	if info, _ := x.Get("good"); info.Emitted < 2 || x.book.Parked[action("bad")] == nil || ends < trouble.ParkAfter+2 {
		t.Fatalf("the other has emitted %d, parked %v, %d spans ended", info.Emitted, x.book.Parked, ends)
	}
	if bytes.discarded < trouble.ParkAfter+1 {
		t.Errorf("the blobs of %d inserts that were not made are deleted", bytes.discarded)
	}
	bad = nil
	def.Template.Chunks.Count = 2
	x.put(t, "bad", def)
	x.means.Trace = nil
	if x.RunDue(); len(x.book.Parked) != 0 {
		t.Errorf("parked: %v", x.book.Parked)
	}
	if info, _ := x.Get("bad"); info.Emitted == 0 {
		t.Error("it emits nothing although it was defined again")
	}
}

type span func(n int, err error)

func (span) Context() string        { return "" }
func (f span) End(n int, err error) { f(n, err) }

// After a commit of schedules that failed each is in a commit of its own, until nothing is due; then they share one again.
func TestSchedulesAreAloneAfterAFailure(t *testing.T) {
	t.Parallel()
	s, x := scheduling(t)
	for _, name := range []string{"a", "b", "c"} {
		x.put(t, name, every())
	}
	tick := func() int {
		s.Clock = s.Clock.Add(time.Minute)
		commits := len(s.Commits)
		x.RunDue()
		return len(s.Commits) - commits
	}
	if n := tick(); n != 1 {
		t.Errorf("%d commits, want one for all", n)
	}
	fails := func() {
		t.Helper()
		s.Fail = errors.New("broken")
		if n := tick(); n != 0 {
			t.Errorf("%d commits although the first one failed", n)
		}
	}
	fails()
	if _, err := x.Begin(func(m *machine.Machine, now queue.Time) error { // another call, in the open batch
		m.Insert(m.Draw(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}, now), nil, now)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := tick(); n != 4 {
		t.Errorf("%d commits, want one for each, and that of the other call", n)
	}
	if n := tick(); n != 1 {
		t.Errorf("%d commits, want one for all again", n)
	}
	fails()
	fails()
	if !x.book.Suspected(action("a")) || x.book.Suspected(action("b")) {
		t.Errorf("suspected %t %t, want the first only", x.book.Suspected(action("a")), x.book.Suspected(action("b")))
	}
}

// A schedule whose ticks break off is parked, and others emit.
func TestPanickingScheduleIsParked(t *testing.T) {
	t.Parallel()
	s, x := scheduling(t)
	x.put(t, "bad", every())
	x.put(t, "good", every())
	bad := x.Part().ByName["bad"]
	fixed := bad.Rhythm
	bad.Next = s.Clock - 3_600_000 // missed long ago: the worker asks its spec, which is missing
	bad.Rhythm = &Rhythm{Def: fixed.Def}
	x.Part().Aim(bad)
	x.RunDue()
	x.emitted(t, "good", 1)
	if p := x.book.Parked[action("bad")]; len(x.book.Parked) != 1 || p == nil || p.Err == nil {
		t.Fatalf("parked: got %+v, want the schedule with its error", x.book.Parked)
	}
	bad.Rhythm, bad.Next = fixed, 0
	if n := x.book.Retry(s.Machine); n != 1 {
		t.Errorf("%d are tried again, want 1", n)
	}
	x.RunDue()
	x.emitted(t, "bad", 1)
}

// No tick is emitted while a rule covers its submission, the disk is full, or the bytes find no room.
func TestSchedulesWait(t *testing.T) {
	t.Parallel()
	s, x := scheduling(t)
	x.put(t, "s", every())
	full := true
	x.means.Full = func() bool { return full }
	x.RunDue()
	x.emitted(t, "s", 0)
	full = false
	s.Machine.Settings.Draining = true
	x.RunDue()
	if info, _ := x.Get("s"); info.State != queue.ScheduleHeld {
		t.Errorf("in a queue that drains: %s, want held", info.State)
	}
	s.Machine.Settings.Draining = false
	x.means.Room = func(*queue.NewSubmission) error { return &queue.Error{Code: queue.CodeDiskFull, Err: journal.ErrFull} }
	s.Clock = s.Clock.Add(emitAgain)
	x.RunDue()
	x.emitted(t, "s", 0)
	x.means.Room = func(*queue.NewSubmission) error { return nil }
	x.RunDue()
	x.emitted(t, "s", 0) // it is left alone for a moment
	s.Clock = s.Clock.Add(emitAgain)
	x.RunDue()
	if info, _ := x.Get("s"); info.Emitted == 0 {
		t.Error("nothing is emitted although nothing is in the way")
	}
}

// A start makes the schedules from their rows, and does not replay older ops. A kill may come between the write that
// deletes a schedule's row and the write of a later schedule of the same name: then the younger row counts, and the
// other goes.
func TestRowsOfSchedules(t *testing.T) {
	t.Parallel()
	s, x := scheduling(t)
	x.put(t, "s", every())
	deleted := x.Part().Row(1)
	if err := x.Delete("s", nil); err != nil {
		t.Fatal(err)
	}
	x.put(t, "s", every())
	want, err := x.Switch("s", false, "lunch")
	if err != nil || x.Part().Row(1) != nil {
		t.Fatalf("%v, the row of the deleted one: %x", err, x.Part().Row(1))
	}
	row := x.Part().Row(2)
	if changed := s.Machine.Asides.Take(machine.AsideSchedule); len(changed) != 2 {
		t.Errorf("rows to be written: %v, want both", changed)
	}

	m := shelltest.New(t).Machine
	again := New(m)
	m.Joined.Parts = []machine.Part{again}
	for key, row := range [][]byte{1: deleted, 2: row} {
		if row == nil {
			continue
		}
		if err := again.Load(uint64(key), row); err != nil {
			t.Fatal(err)
		}
	}
	m.Replay = true
	for i, batch := range s.Commits {
		m.AppliedAt = journal.Position(i + 1)
		if err := journal.Decode(batch, func(at queue.Time) { m.Now = at }, m); err != nil {
			t.Fatal(err)
		}
	}
	again.Replayed()
	if got := again.ByName["s"].Info(); got.Version != want.Version || got.State != want.State || got.Reason != want.Reason || got.Created != want.Created {
		t.Errorf("after the replay: %+v, want %+v", got, want)
	}
	if changed := m.Asides.Take(0); len(changed) != 1 || changed[0].Key != 1 || again.Row(1) != nil || !bytes.Equal(again.Row(2), row) {
		t.Errorf("rows to be written: %v, want the first removed and the second as it is", changed)
	}
	if again.last != 2 {
		t.Errorf("the last number is %d, want 2: it is not given again", again.last)
	}
	if err := again.Load(3, row[:len(row)-1]); err == nil {
		t.Error("a row that is cut off is read")
	}
}
