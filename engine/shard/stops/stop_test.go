package stops

import (
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/audit"
	"github.com/quern-queue/quern/engine/shard/consumers/roster"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// stopping is a shell that can be stopped and started.
type stopping struct {
	*shelltest.Shell
	part *Part
}

func (x *stopping) join(m *machine.Machine) {
	x.part = New(m)
	m.Joined.Parts, m.Joined.Began = []machine.Part{x.part}, []func(){x.part.Began}
}

func start(t *testing.T) *stopping {
	x := &stopping{Shell: shelltest.New(t)}
	x.join(x.Machine)
	x.Resume = func(now queue.Time) { x.part.Resume(now) }
	return x
}

func (x *stopping) insert(chunks uint32) queue.SubmissionID {
	return x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: chunks, Prefix: "p/"}})
}

// stop writes the reservations as the last batch of the journal.
func (x *stopping) stop() {
	var enc journal.Encoder
	enc.Reset(x.Machine.Epoch, x.Clock)
	x.part.EachHeld(func(op *journal.Held) { enc.Held(op) })
	enc.Held(&journal.Held{})
	x.Commits = append(x.Commits, enc.Bytes())
}

// deadlines are the times left to a submission's reservations, by chunk.
func (x *stopping) deadlines(id queue.SubmissionID) map[uint32]time.Duration {
	left := map[uint32]time.Duration{}
	x.Machine.Holds.Each(&x.Machine.Live(id).Holds, func(_ uint32, h *reserver.Hold) bool {
		left[h.Index] = h.Deadline.Sub(x.Clock)
		return true
	})
	return left
}

// After an orderly stop each consumer holds its chunks again, under the same tokens, with the time that was left. One
// that kept a stream is missed from the start on.
func TestHeldOverAStop(t *testing.T) {
	t.Parallel()
	x := start(t)
	id := x.insert(4)
	done, kept := x.Take(id, 0), x.Take(id, 1)
	if err := shell.Change(x, func(m *machine.Machine, now queue.Time) error {
		_, list := m.Completes([]queue.CompleteItem{{Token: done}}, []bool{true}, now, nil, nil)
		m.Encode(now).Complete(list)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	x.Machine.Roster.Join("c", "its process", &roster.Stream{Stir: func() {}}, x.Clock)
	x.Clock = x.Clock.Add(20 * time.Second)
	x.stop()
	x.Clock = x.Clock.Add(time.Hour)
	x.Reload(x.join)
	if left := x.deadlines(id); len(left) != 1 || left[1] != 40*time.Second {
		t.Errorf("held with the time left: %v, want chunk 1 with 40s", left)
	}
	if err := audit.Machine(x.Machine); err != nil {
		t.Error(err)
	}
	if c := x.Machine.Roster.ByName["c"]; c == nil || c.Away != x.Clock || c.Incarnation != "its process" {
		t.Errorf("the consumer is %+v, want it missed since the start", c)
	}
	if got := x.Machine.Releases([]queue.ReleaseItem{{Token: kept}}, 0, nil); got[0].Outcome != queue.OutcomeOK {
		t.Errorf("its token is worth %+v", got[0])
	}
	if x.part.InOrder || len(x.part.held) != 0 {
		t.Error("the epoch that begins does not end what the stop has left")
	}
}

// Reservations of unknown submissions, or of chunks beyond the end of one, are passed over; a consumer without a stream
// is not missed.
func TestNothingToHoldAgain(t *testing.T) {
	t.Parallel()
	x := start(t)
	id := x.insert(1)
	seq := x.Machine.Live(id).Seq
	for _, op := range []*journal.Held{
		{Consumer: "c", Chunks: []journal.HeldChunk{{Seq: seq + 7}, {Seq: seq, Index: 1}}},
		{},
	} {
		if mine, err := x.part.Apply(op); !mine || err != nil {
			t.Fatalf("%+v: %t, %v", op, mine, err)
		}
	}
	if mine, _ := x.part.Apply(&journal.Snapshot{}); mine || !x.part.InOrder {
		t.Errorf("another part's op is taken: %t; in order: %t", mine, x.part.InOrder)
	}
	if x.part.Resume(x.Clock); x.Machine.Holds.Len() != 0 || len(x.Machine.Roster.List) != 0 {
		t.Errorf("%d are held, %d consumers are known; want none", x.Machine.Holds.Len(), len(x.Machine.Roster.List))
	}
}

// Ops are of bounded size, and together name every reservation once. A hold that only shields a late completion is no
// reservation.
func TestManyHeld(t *testing.T) {
	t.Parallel()
	const held = 2*journal.MaxHeld + 5
	x := start(t)
	id := x.insert(held + 1)
	for i := range uint32(held) {
		x.Take(id, i)
	}
	late := x.Take(id, held)
	if got := x.Machine.Releases([]queue.ReleaseItem{{Token: late}}, 0, nil); got[0].Outcome != queue.OutcomeOK {
		t.Fatal(got)
	}
	if results, _ := x.Machine.Completes([]queue.CompleteItem{{Token: late}}, []bool{true}, x.Clock, nil, nil); results[0].Outcome != queue.OutcomeOK {
		t.Fatal(results)
	}
	var named []uint32
	x.part.EachHeld(func(op *journal.Held) {
		if n := len(op.Chunks); n == 0 || n > journal.MaxHeld || op.Consumer != "c" || op.Attached {
			t.Errorf("an op has %d chunks of %q, attached: %t", n, op.Consumer, op.Attached)
		}
		for _, c := range op.Chunks {
			named = append(named, c.Index)
		}
	})
	slices.Sort(named)
	if named = slices.Compact(named); len(named) != held || named[held-1] != held-1 {
		t.Errorf("%d reservations are named, want %d", len(named), held)
	}
}
