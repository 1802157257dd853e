package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// The diagnosis of an open submission says when its first chunk was reserved, whatever the outcome of that reservation. It does not for a
// submission that is older than the server's start, whether a chunk of it was reserved before or is after the start. Meta makes no
// difference.
func TestFirstReserved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var clock atomic.Int64
	start := queue.Time(1_700_000_000_000)
	clock.Store(int64(start))
	open := func() *Engine {
		e, err := Open(context.Background(), Options{Dir: dir, Now: func() time.Time { return queue.Time(clock.Load()).Std() },
			Seed: func() uint64 { return 7 }, BallastBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	want := func(id queue.SubmissionID, at queue.Time) {
		t.Helper()
		d, err := queueAt(e, DefaultQueue).Questions.DiagnoseSubmission(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		if d.FirstReserved != at {
			t.Errorf("after %v: %s in state %v was first reserved at %d, want %d", queue.Time(clock.Load()).Sub(start), id, d.Submission.State, d.FirstReserved, at)
		}
	}
	for _, meta := range [][]queue.MetaEntry{{text("company", "acme")}, nil} {
		id := insert(t, e, 2, meta...)
		inserted := queue.Time(clock.Load())
		want(id, 0)
		clock.Add(2_350)
		first, _ := take(t, e, "OldestFirst", 1)
		begun := inserted.Add(2_300 * time.Millisecond)
		want(id, begun)
		clock.Add(10_000)
		second, _ := take(t, e, "OldestFirst", 1)
		want(id, begun)
		if len(first) != 1 || len(second) != 1 {
			t.Fatalf("got %d and %d reservations, want one each", len(first), len(second))
		}
		finishAll(t, e, first)
		want(id, begun)
		finishAll(t, e, second)
		want(id, 0) // it has ended
	}
	held, idle := insert(t, e, 2), insert(t, e, 2)
	taken, _ := take(t, e, "OldestFirst", 1)
	want(held, queue.Time(clock.Load()))
	closed(t, e)
	e = open()
	defer closed(t, e)
	clock.Add(5_000)
	want(held, 0)
	more, _ := take(t, e, "OldestFirst", 4)
	if len(taken) != 1 || len(more) == 0 {
		t.Fatalf("got %d and %d reservations, want some", len(taken), len(more))
	}
	want(held, 0)
	want(idle, 0)
	later := insert(t, e, 1)
	take(t, e, "NewestFirst", 1)
	want(later, queue.Time(clock.Load()))
}
