package deadletters

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/shard/trouble"
	"github.com/quern-queue/quern/engine/store"
)

// script is a shell with dead letters, and the calls about them.
type script struct {
	*shelltest.Shell
	*Letters
	*Forwarding
	part     *Part
	admitted int
}

func newScript(t *testing.T) *script {
	x := &script{Shell: shelltest.New(t)}
	m := x.Machine
	x.part = New(m)
	m.Joined.Parts, m.Joined.Rows = []machine.Part{x.part}, x.part.Rows()
	m.Joined.Inserting = append(m.Joined.Inserting, x.part.Inserting)
	m.Joined.Died = append(m.Joined.Died, x.part.Died)
	m.Joined.Ended = append(m.Joined.Ended, x.part.Ended)
	door := shelltest.Door(x.Shell, x.part)
	x.Letters = Face(door, new(locks.RWMutex[shell.InHistory]).RLocker(), x)
	x.Forwarding = FaceForwarding(door, 7, trouble.New(door.Queue.Logger, door.Queue.Seed), Intake{
		Room:    func([]queue.Delivery) error { return nil },
		Admit:   func(n int) error { x.admitted += n; return nil },
		Release: func(n int) { x.admitted -= n },
		Pack:    func(*queue.NewSubmission, int) (*journal.Contents, bool) { return nil, false },
		Blobs:   noBlobs{},
	})
	return x
}

// noBlobs are those of letters without bytes.
type noBlobs struct{}

func (noBlobs) Begin() (end func()) { return func() {} }

func (noBlobs) Put(context.Context, []*journal.Insert, *queue.NewSubmission) error {
	return errors.New("no letter has bytes")
}

func (noBlobs) Discard([]*journal.Insert) {}

// EndedRow is the row of a submission that has ended.
func (x *script) EndedRow(ctx context.Context, id queue.SubmissionID) (*checkpoint.Ended, error) {
	if r := x.Machine.Endings.ByID[id]; r != nil {
		return new(r.EndedRow()), nil
	}
	_, row, err := past(ctx, x.Shell, id)
	return row, err
}

// died makes a submission of n chunks of which the first are dead, each of its error; with all of them it has ended.
func (x *script) died(n uint32, errors ...string) queue.SubmissionID {
	id := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: n, Prefix: "p/"}})
	for index, text := range errors {
		x.Failed(id, queue.FailItem{Fatal: true, Error: text}, uint32(index))
	}
	x.Clock = x.Clock.Add(time.Second)
	return id
}

func (x *script) toHistory() {
	x.T.Helper()
	if err := x.Checkpoint(func(r *machine.Record) {
		x.part.Written(r)
		x.part.Index.Remove(r)
	}); err != nil {
		x.T.Fatal(err)
	}
}

// lists checks which letters there are, the newest submission first, and that the part is sound and nothing is on its way.
func (x *script) lists(want ...queue.ChunkID) {
	x.T.Helper()
	list, err := x.List(x.T.Context(), queue.BulkFilter{}, queue.ChunkID{}, 1000)
	var got []queue.ChunkID
	for _, d := range list {
		got = append(got, d.Chunk)
	}
	if err != nil || !slices.Equal(got, want) {
		x.T.Fatalf("got %v, %v; want %v", got, err, want)
	}
	if err := x.part.Audit(); err != nil {
		x.T.Fatal(err)
	}
	x.part.Intended(func(what string, n int) {
		if n != 0 {
			x.T.Errorf("%d %s are left", n, what)
		}
	})
}

func letter(id queue.SubmissionID, index uint32) queue.ChunkID {
	return queue.ChunkID{Submission: id, Index: index}
}

// Letters are listed, redriven and deleted wherever their submission is: open, ended, or in the history. Other chunks
// stay as they are.
func TestLettersEverywhere(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	ctx := t.Context()
	old := x.died(2, "a", "b")
	x.toHistory()
	ended, open := x.died(2, "a", "a"), x.died(3, "b", "a")
	x.lists(letter(open, 0), letter(open, 1), letter(ended, 0), letter(ended, 1), letter(old, 0), letter(old, 1))
	page, next, err := x.Page(ctx, queue.BulkFilter{}, letter(open, 1), 3)
	if err != nil || len(page) != 3 || next != letter(old, 0) || page[2].Error != "a" || page[2].State != queue.CompletedWithDead {
		t.Errorf("a page: %+v, next %s, %v", page, next, err)
	}
	rest, err := x.List(ctx, queue.BulkFilter{}, letter(open, 0), 2)
	if err != nil || len(rest) != 2 || rest[0].Chunk != letter(open, 1) || rest[1].Chunk != letter(ended, 0) {
		t.Errorf("behind a letter: %+v, %v", rest, err)
	}
	for _, id := range []queue.SubmissionID{open, ended, old} {
		if n, err := x.Redrive(ctx, id, []uint32{0, 2}, queue.Act{Action: "redrive"}); n != 1 || err != nil {
			t.Fatalf("redrive: %d, %v; want 1", n, err)
		}
		if r := x.Machine.Live(id); r == nil || !r.Sub.IsAvailable(0) {
			t.Errorf("the chunk of %s is not offered again", id)
		}
	}
	x.lists(letter(open, 1), letter(ended, 1), letter(old, 1))
	for _, id := range []queue.SubmissionID{open, ended, old} {
		if n, err := x.Delete(ctx, id, []uint32{0, 1}); n != 1 || err != nil {
			t.Fatalf("delete: %d, %v; want 1", n, err)
		}
	}
	x.lists()
	if n, err := x.Delete(ctx, old, []uint32{1}); n != 0 || err != nil {
		t.Errorf("a letter that is gone: %d, %v", n, err)
	}
	if _, err := x.Redrive(ctx, 5, []uint32{0}); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Errorf("an unknown submission: %v", err)
	}
	if acts := len(x.Machine.ActLog.Fresh); acts != 3 {
		t.Errorf("%d entries of the audit log, want one for each redrive", acts)
	}
}

// An action on letters that cannot be redriven is refused, and a commit that fails changes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	late := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}, DeadDeadline: x.Clock.Add(time.Minute)})
	x.Failed(late, queue.FailItem{Fatal: true}, 0)
	x.Clock = x.Clock.Add(time.Hour)
	if _, err := x.Redrive(t.Context(), late, []uint32{0}); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("after its dead_deadline: %v", err)
	}
	id := x.died(2, "a", "b")
	full := errors.New("no room")
	for name, act := range map[string]func() error{
		"redrive": func() error { _, err := x.Redrive(t.Context(), id, []uint32{0}); return err },
		"delete":  func() error { _, err := x.Delete(t.Context(), id, []uint32{0}); return err },
		"forward": func() error { _, err := x.Forward(t.Context(), id, []uint32{0}, "there"); return err },
	} {
		x.Fail = full
		if err := act(); !errors.Is(err, full) {
			t.Errorf("%s: %v, want %v", name, err, full)
		}
		x.lists(letter(id, 0), letter(id, 1), letter(late, 0))
	}
	x.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	if _, err := x.Delete(t.Context(), id, []uint32{0}); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("a shard that cannot work: %v", err)
	}
}

// Groups come from counters, and are exact again after the first letter of a kind went; of the history they are counted at a start.
func TestGroups(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	x.died(3, "a", "a", "b")
	x.toHistory()
	id := x.died(2, "a")
	counts := func(want map[string]uint64) {
		t.Helper()
		list, err := x.Groups(t.Context(), queue.BulkFilter{})
		got := map[string]uint64{}
		for _, g := range list.Items {
			got[g.Example] = uint64(g.Count)
		}
		if err != nil || len(got) != len(want) || got["a"] != want["a"] || got["b"] != want["b"] {
			t.Fatalf("got %v, %v; want %v", got, err, want)
		}
	}
	counts(map[string]uint64{"a": 3, "b": 1})
	if _, err := x.Delete(t.Context(), id, []uint32{0}); err != nil {
		t.Fatal(err)
	}
	counts(map[string]uint64{"a": 2, "b": 1})
	again := New(x.Machine)
	if err := Recall(t.Context(), x.Store(), again); err != nil || len(again.Groups.Of) != 2 || len(again.OfEnded) != 1 {
		t.Errorf("recalled: %d groups of %d submissions, %v", len(again.Groups.Of), len(again.OfEnded), err)
	}
}

// A letter leaves for another queue with where it comes from, arrives there once however often it is delivered, and is let go of then.
func TestForwarding(t *testing.T) {
	t.Parallel()
	x, there := newScript(t), newScript(t)
	id := x.died(3, "a", "b")
	if n, err := x.Forward(t.Context(), id, []uint32{0, 1}, "there"); n != 2 || err != nil {
		t.Fatalf("forward: %d, %v", n, err)
	}
	x.lists()
	list := x.Outgoing(0, 10)
	if len(list) != 2 || x.OutgoingTo("there") != 2 || len(x.Outgoing(list[0].Number, 10)) != 1 {
		t.Fatalf("on their way: %+v", list)
	}
	n, err := x.Parcel(t.Context(), list[0])
	if err != nil || n.Origin.Source != 7 || n.Origin.Chunk != letter(id, 0) || n.Origin.Error != "a" || n.Origin.Queue != "q" {
		t.Fatalf("a parcel: %+v, %v", n.Origin, err)
	}
	there.Fail = errors.New("no room")
	deliveries := []queue.Delivery{{Number: list[0].Number, Submission: n}}
	if err := there.Deliver(t.Context(), deliveries); err == nil || there.Machine.Backlog.Len() != 0 {
		t.Fatalf("a delivery whose commit fails: %v", err)
	}
	for range 2 {
		if err := there.Deliver(t.Context(), deliveries); err != nil {
			t.Fatal(err)
		}
	}
	arrived, err := there.Arrived(7)
	if err != nil || arrived != list[0].Number || there.Machine.Backlog.Len() != 1 || there.admitted != 0 {
		t.Errorf("arrived up to %d, %v, with %d submissions, %d admitted", arrived, err, there.Machine.Backlog.Len(), there.admitted)
	}
	if err := x.Delivered([]uint64{list[0].Number}); err != nil || x.OutgoingTo("") != 1 {
		t.Errorf("delivered: %v, %d on their way", err, x.OutgoingTo(""))
	}
}

// A letter that cannot be read is overtaken: it is stuck, parked and not listed, and gets a new number when it can be read again.
func TestUnread(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	id := x.died(2, "a")
	if _, err := x.Forward(t.Context(), id, []uint32{0}, "there"); err != nil {
		t.Fatal(err)
	}
	o := x.Outgoing(0, 1)[0]
	if err := x.Unstick(o); err != nil || x.Outgoing(0, 1)[0].Number != o.Number {
		t.Errorf("a letter that is not stuck: %+v, %v", x.Outgoing(0, 1), err)
	}
	if parked, err := x.Unread(o, errors.New("once")); parked || err != nil {
		t.Fatalf("the first failure: parked %t, %v", parked, err)
	}
	if parked, err := x.Unread(o, store.ErrMissing); !parked || err != nil || x.Overtaken() != 1 || len(x.Outgoing(0, 1)) != 0 {
		t.Fatalf("content that is missing: parked %t, %v", parked, err)
	}
	o.Stuck = true
	if err := x.Unstick(o); err != nil || x.Overtaken() != 0 {
		t.Fatal(err)
	}
	if list := x.Outgoing(0, 1); len(list) != 1 || list[0].Number <= o.Number || list[0].Chunk != o.Chunk {
		t.Errorf("after it can be read again: %+v", list)
	}
}
