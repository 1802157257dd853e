package submissions

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

func asking(t *testing.T) (*shelltest.Shell, *Submissions) {
	s := shelltest.New(t)
	return s, New(s, "q", nil, new(locks.RWMutex[shell.InHistory]))
}

// insert makes n submissions of two chunks, the even ones with mode=preview.
func insert(s *shelltest.Shell, n int) (ids []queue.SubmissionID) {
	for i := range n {
		one := &queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Prefix: "p/"}, Priority: int64(i)}
		if i%2 == 0 {
			one.Meta = queue.Meta{{Key: "mode", Value: queue.StringValue("preview")}}
		}
		ids = append(ids, s.Insert(one))
	}
	return ids
}

// A list has the newest submission first and each once, whatever the size of the pages, and the filter holds for open
// and ended ones alike.
func TestListPagesThroughAll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, face := asking(t)
	ids := insert(s, 11)
	for _, i := range []int{2, 3, 10} {
		if _, err := face.Cancel(ctx, ids[i]); err != nil {
			t.Fatal(err)
		}
	}
	want := slices.Clone(ids)
	slices.Reverse(want)
	preview := slices.DeleteFunc(slices.Clone(want), func(id queue.SubmissionID) bool { return slices.Index(ids, id)%2 != 0 })
	for limit := 1; limit < 14; limit++ {
		if got := pages(t, face, machine.Filter{}, limit); !slices.Equal(got, want) {
			t.Fatalf("pages of %d: %v, want %v", limit, got, want)
		}
		meta := queue.Meta{{Key: "mode", Value: queue.StringValue("preview")}}
		if got := pages(t, face, machine.Filter{Meta: meta}, limit); !slices.Equal(got, preview) {
			t.Fatalf("pages of %d with mode=preview: %v, want %v", limit, got, preview)
		}
	}
	cancelled := pages(t, face, machine.Filter{States: []queue.SubmissionState{queue.Cancelled}}, 2)
	if want := []queue.SubmissionID{ids[10], ids[3], ids[2]}; !slices.Equal(cancelled, want) {
		t.Errorf("cancelled: %v, want %v", cancelled, want)
	}
}

func pages(t *testing.T, face *Submissions, f machine.Filter, limit int) (ids []queue.SubmissionID) {
	t.Helper()
	for before, more := queue.SubmissionID(0), true; more; more = before != 0 {
		list, next, err := face.List(context.Background(), f, before, limit)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			ids = append(ids, list[i].ID)
		}
		before = next
	}
	return ids
}

// A change of an open submission holds from its answer on. A change of one that has ended is refused. If the commit
// fails, nothing changes.
func TestPriorityOfOpenOnesChanges(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, face := asking(t)
	id := insert(s, 1)[0]
	if sub, err := face.SetPriority(ctx, id, 7, nil); err != nil || sub.Priority != 7 {
		t.Fatalf("%+v %v, want priority 7", sub, err)
	}
	s.Fail = errors.New("no")
	if _, err := face.SetPriority(ctx, id, 8, nil); err == nil {
		t.Fatal("no error, though the commit failed")
	}
	if sub, err := face.Get(ctx, id); err != nil || sub.Priority != 7 {
		t.Errorf("after a failed commit: %+v %v, want priority 7", sub, err)
	}
	if sub, err := face.Cancel(ctx, id); err != nil || sub.State != queue.Cancelled {
		t.Fatalf("%+v %v, want cancelled", sub, err)
	}
	if sub, err := face.Cancel(ctx, id); err != nil || sub.State != queue.Cancelled {
		t.Errorf("cancelled again: %+v %v", sub, err)
	}
	if _, err := face.SetPriority(ctx, id, 9, nil); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("of an ended one: %v, want a conflict", err)
	}
	if _, err := face.SetPriority(ctx, id+1, 9, nil); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Errorf("of one that never was: %v, want unknown", err)
	}
}

// Chunks are listed by state, also those of a submission that has ended.
func TestChunksAreListedByState(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, face := asking(t)
	id := insert(s, 1)[0]
	list, next, err := face.Chunks(ctx, id, []queue.ChunkState{queue.ChunkReady}, 0, 1)
	if err != nil || len(list) != 1 || next != 1 {
		t.Fatalf("the first page: %d chunks, next %d, %v", len(list), next, err)
	}
	if list, _, err := face.Chunks(ctx, id, []queue.ChunkState{queue.ChunkDone}, 0, 5); err != nil || len(list) != 0 {
		t.Errorf("done: %v %v, want none", list, err)
	}
	if _, err := face.Cancel(ctx, id); err != nil {
		t.Fatal(err)
	}
	if c, err := face.Chunk(ctx, id, 1); err != nil || c.State == queue.ChunkReady {
		t.Errorf("a chunk of a cancelled one: %+v %v", c, err)
	}
	if _, err := face.Chunk(ctx, id, 2); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a chunk past the end: %v", err)
	}
}

// A wait is over when its submissions have ended, at once for those that had ended before, and for all while the shard
// cannot work.
func TestWatchesEnd(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, face := asking(t)
	ids := insert(s, 2)
	over := func(w *Watch) bool {
		select {
		case <-w.done:
			return true
		default:
			return false
		}
	}
	all := NewWatch(2)
	face.Watch(all, ids...)
	if _, err := face.Cancel(ctx, ids[0]); err != nil || over(all) {
		t.Fatalf("%v; over after one of two", err)
	}
	if _, err := face.Cancel(ctx, ids[1]); err != nil || !over(all) {
		t.Fatalf("%v; not over after both", err)
	}
	face.Unwatch(all, ids...)
	late := NewWatch(1)
	if face.Watch(late, ids[0]); !over(late) {
		t.Error("a wait for what has ended is not over")
	}
	s.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	open := NewWatch(1)
	if face.Watch(open, insertedBefore(s)); !over(open) {
		t.Error("a wait is not over, though the shard cannot work")
	}
	never := NewWatch(1)
	if err := never.Wait(ctx, time.Nanosecond); err != nil {
		t.Errorf("a wait whose time is over: %v", err)
	}
}

// insertedBefore is an open submission of a shell that refuses.
func insertedBefore(s *shelltest.Shell) queue.SubmissionID {
	refuse := s.Refuse
	s.Refuse = nil
	defer func() { s.Refuse = refuse }()
	return insert(s, 1)[0]
}
