package retention

import (
	"errors"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/shard/submissions"
	"github.com/quern-queue/quern/engine/shard/trouble"
)

// script is a shell whose machine has dead letters, and its retention.
type script struct {
	*shelltest.Shell
	*Retention
	letters     *deadletters.Part
	checkpoints int
}

func newScript(t *testing.T) *script {
	x := &script{Shell: shelltest.New(t)}
	m := x.Machine
	x.letters = deadletters.New(m)
	m.Joined.Parts, m.Joined.Rows = []machine.Part{x.letters}, x.letters.Rows()
	m.Joined.Died = append(m.Joined.Died, x.letters.Died)
	m.Joined.Ended = append(m.Joined.Ended, x.letters.Ended)
	history := new(locks.RWMutex[shell.InHistory])
	letters := deadletters.Face(x.letterDoor(), history.RLocker(), submissions.New(x.Shell, "q", nil, history))
	seed := uint64(0)
	x.Retention = New(shelltest.Door[Kept](x.Shell, x.letters), Options{
		History: history, Letters: letters, Book: trouble.New(x.Shell.Queue().Logger, func() uint64 { seed++; return seed }),
		Checkpoint: x.checkpoint, Ahead: func() bool { return false },
	})
	return x
}

func (x *script) checkpoint() error {
	x.checkpoints++
	return x.Checkpoint(func(r *machine.Record) {
		x.letters.Written(r)
		x.letters.Index.Remove(r)
	})
}

// cancelled makes a submission that ends at once.
func (x *script) cancelled() queue.SubmissionID {
	id := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}})
	if err := shell.Change(x.Shell, func(m *machine.Machine, now queue.Time) error {
		m.EndSubmission(m.Live(id), queue.Cancelled, "", now)
		return nil
	}); err != nil {
		x.T.Fatal(err)
	}
	x.Clock = x.Clock.Add(time.Minute)
	return id
}

// died makes a submission that ends with so many dead chunks.
func (x *script) died(n uint32) queue.SubmissionID {
	id := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: n, Prefix: "p/"}})
	for index := range n {
		x.Failed(id, queue.FailItem{Fatal: true, Error: "broken"}, index)
	}
	x.Clock = x.Clock.Add(time.Minute)
	return id
}

func (x *script) retain(before queue.Time, most int, more bool, left int) {
	x.T.Helper()
	if got, err := x.Retain(x.T.Context(), before, most); got != more || err != nil {
		x.T.Fatalf("retain: more %t, %v; want %t", got, err, more)
	}
	if got := x.Store().History.Len() + len(x.Machine.Endings.ByID); got != left {
		x.T.Fatalf("%d ended submissions are left, want %d", got, left)
	}
}

// Submissions that finished before the time go, the oldest first and so many at a time. Those that finished later, or
// have dead letters, stay.
func TestRetain(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	x.Machine.Settings.Retention, x.Machine.Settings.DeadRetention = time.Hour, time.Hour
	for range 3 {
		x.cancelled()
	}
	dead := x.died(2)
	before := x.Clock
	x.cancelled()
	if got := x.Pending(x.Machine); got != 4+2 {
		t.Errorf("%d submissions and letters wait for their end, want 4 and 2", got)
	}
	x.retain(before, 2, true, 3)
	if x.checkpoints != 1 {
		t.Errorf("%d checkpoints before a slice, want the one that its rows need", x.checkpoints)
	}
	if since, behind := x.Since(); !behind || since >= x.Clock {
		t.Errorf("behind since %d: %t", since, behind)
	}
	x.retain(before, 2, false, 2)
	if _, behind := x.Since(); behind {
		t.Error("behind with nothing")
	}
	if x.letters.Of(dead) != 2 {
		t.Errorf("%d letters are left, want 2", x.letters.Of(dead))
	}
	if done := x.Machine.Stats.Acts[machine.KindRetention].Done; done != 3 {
		t.Errorf("%d were removed, want 3", done)
	}
}

// A checkpoint that fails removes nothing, and a kind that failed pauses.
func TestRetainFails(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	x.cancelled()
	broken := errors.New("no room")
	x.Options.Checkpoint = func() error { return broken }
	if _, err := x.Retain(t.Context(), x.Clock, 10); !errors.Is(err, broken) {
		t.Fatalf("got %v, want %v", err, broken)
	}
	x.Options.Checkpoint = x.checkpoint
	x.Book.Fail(machine.KindRetention, broken, x.Clock)
	x.retain(x.Clock, 10, false, 1)
	x.Clock = x.Clock.Add(10 * time.Second)
	x.retain(x.Clock, 10, false, 0)
}

// Letters that are too old are given up, wherever their submission is; younger ones stay, and are looked at again when their time comes.
func TestAge(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	old := x.died(3)
	if err := x.checkpoint(); err != nil {
		t.Fatal(err)
	}
	young := x.died(2)
	age := func(keep time.Duration, most int, more bool, oldLeft, youngLeft uint32) {
		t.Helper()
		if got, err := x.Age(t.Context(), keep, most); got != more || err != nil {
			t.Fatalf("age: more %t, %v; want %t", got, err, more)
		}
		if a, b := x.letters.Of(old), x.letters.Of(young); a != oldLeft || b != youngLeft {
			t.Fatalf("%d and %d letters are left, want %d and %d", a, b, oldLeft, youngLeft)
		}
	}
	age(time.Hour, 10, false, 3, 2)
	x.Clock = x.Clock.Add(time.Hour - 90*time.Second)
	age(time.Hour, 2, true, 1, 2)
	if _, behind := x.Since(); !behind {
		t.Error("not behind with a letter that is too old")
	}
	full := errors.New("no room")
	x.Fail = full
	if _, err := x.Age(t.Context(), time.Hour, 10); !errors.Is(err, full) || x.letters.Of(old) != 1 {
		t.Fatalf("a commit that fails: %v, %d letters are left", err, x.letters.Of(old))
	}
	x.Clock = x.Clock.Add(10 * time.Second)
	age(time.Hour, 10, false, 0, 2)
	x.Clock = x.Clock.Add(2 * time.Minute)
	age(time.Hour, 10, false, 0, 0)
	if x.Machine.Stats.Aged != 5 {
		t.Errorf("%d letters were given up, want 5", x.Machine.Stats.Aged)
	}
}

func (x *script) letterDoor() shell.Door[*deadletters.Part] {
	return shelltest.Door(x.Shell, x.letters)
}
