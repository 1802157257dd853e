package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// bulkEngine has an engine whose clock the test sets, with dead letters: of each of `submissions` submissions all chunks but
// the first one.
func bulkEngine(t *testing.T, submissions int) (e *Engine, clock *atomic.Int64) {
	t.Helper()
	ctx := context.Background()
	clock = new(atomic.Int64)
	clock.Store(1_700_000_000_000)
	seed := uint64(0)
	e, err := Open(ctx, Options{Dir: t.TempDir(), BallastBytes: -1, Now: func() time.Time { return time.UnixMilli(clock.Load()) }, Seed: func() uint64 { seed++; return seed }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	settings := queue.DefaultSettings()
	settings.OnExhausted, settings.Durability, settings.MaxAttempts = queue.DeadLetter, queue.Relaxed, 1
	if _, _, err := e.PutQueue(ctx, DefaultQueue, settings); err != nil {
		t.Fatal(err)
	}
	for range submissions {
		id := insert(t, e, 5)
		failSome(t, e, id, func(index uint32) bool { return index > 0 })
	}
	clock.Add(10)
	return e, clock
}

// failSome fails for good the chunks of the newest submission that dies selects, and completes the others.
func failSome(t *testing.T, e *Engine, id queue.SubmissionID, dies func(index uint32) bool) {
	t.Helper()
	ctx := context.Background()
	plan, err := queueAt(e, DefaultQueue).Plan([]byte(`"NewestFirst"`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := queueAt(e, DefaultQueue).Reserve(ctx, ReserveRequest{Plan: plan, Max: 5}, nil)
	if err != nil || len(got.Reservations) != 5 {
		t.Fatalf("reserve: got %d %v, want 5", len(got.Reservations), err)
	}
	for _, r := range got.Reservations {
		if r.Token.Submission != id {
			t.Fatalf("reserved of %s, want %s", r.Token.Submission, id)
		}
		if dies(r.Token.Index) {
			_, err = queueAt(e, DefaultQueue).Fail(ctx, []queue.FailItem{{Token: r.Token, Error: fmt.Sprint("kind ", string(rune('a'+r.Token.Index%2)), " no ", id)}}, nil)
		} else {
			_, err = queueAt(e, DefaultQueue).Complete(ctx, []queue.CompleteItem{{Token: r.Token}}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func startBulk(t *testing.T, e *Engine, r queue.BulkRequest) string {
	t.Helper()
	b, err := queueAt(e, DefaultQueue).Bulks.Start(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return b.ID.String()
}

func wantBulk(t *testing.T, when string, e *Engine, id string, state queue.BulkState, done, unchanged, refused uint64) {
	t.Helper()
	b, err := e.Bulk(id)
	want := queue.BulkCounts{Matched: done + unchanged + refused, Done: done, Unchanged: unchanged, Refused: refused}
	if err != nil || b.State != state || b.Counts != want {
		t.Errorf("%s: got %s, %+v, %v; want %s, %+v", when, b.State, b.Counts, err, state, want)
	}
}

func wantLetters(t *testing.T, when string, e *Engine, want uint64) {
	t.Helper()
	if stats := queueAt(e, DefaultQueue).Stats(); stats.DeadLetters != want {
		t.Errorf("%s: got %d dead letters, want %d", when, stats.DeadLetters, want)
	}
}

//quern:sequential
func TestBulkByFilter(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e, clock := bulkEngine(t, 300)
	list, err := queueAt(e, DefaultQueue).DeadLetters.Groups(ctx, queue.BulkFilter{})
	groups := list.Items
	if err != nil || list.Others != 0 || len(groups) != 2 || groups[0].Count != 600 || groups[1].Submissions != 300 {
		t.Fatalf("groups: got %+v %v, want two of 600 in 300 submissions", list, err)
	}
	one := queue.DeadFilter{Fingerprint: queue.Fingerprint("kind b no 7")}
	dry := startBulk(t, e, queue.BulkRequest{Filter: queue.BulkFilter{Dead: one}, DryRun: true})
	e.bulks.step(ctx)
	wantBulk(t, "dry run", e, dry, queue.BulkCompleted, 600, 0, 0)
	wantLetters(t, "after the dry run", e, 1200)
	redrive := startBulk(t, e, queue.BulkRequest{Filter: queue.BulkFilter{Dead: one}})
	e.bulks.step(ctx)
	wantBulk(t, "redrive of one kind", e, redrive, queue.BulkCompleted, 600, 0, 0)
	wantLetters(t, "after it", e, 600)
	// An operation does not meet chunks that died after it started, nor those inserted since.
	late := startBulk(t, e, queue.BulkRequest{Action: queue.BulkDelete})
	clock.Add(5)
	failSome(t, e, insert(t, e, 5), func(uint32) bool { return true })
	e.bulks.step(ctx)
	wantBulk(t, "deletion of what there was", e, late, queue.BulkCompleted, 600, 0, 0)
	wantLetters(t, "after the deletion", e, 5)
}

// The rate is kept over any number of steps, and a cancelled operation does nothing more.
func TestBulkAtARateAndCancelled(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e, clock := bulkEngine(t, 10)
	id := startBulk(t, e, queue.BulkRequest{Rate: 10})
	for range 20 {
		e.bulks.step(ctx)
	}
	wantBulk(t, "at once", e, id, queue.BulkRunning, 1, 0, 0)
	for range 20 {
		clock.Add(50)
		e.bulks.step(ctx)
	}
	wantBulk(t, "after a second", e, id, queue.BulkRunning, 11, 0, 0)
	if b, err := e.CancelBulk(t.Context(), id, "ana"); err != nil || b.State != queue.BulkCancelled {
		t.Errorf("cancel: got %+v %v", b, err)
	}
	clock.Add(60_000)
	e.bulks.step(ctx)
	wantBulk(t, "long after the cancel", e, id, queue.BulkCancelled, 11, 0, 0)
	wantLetters(t, "after the cancel", e, 29)
}

// A submission whose letters are deleted meanwhile, or that refuses, does not stop the operation.
func TestBulkRefusals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e, clock := bulkEngine(t, 1)
	s, _, err := queueAt(e, DefaultQueue).Insert(ctx, queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "x"}, DeadDeadline: queue.Time(clock.Load() + 1000)})
	if err != nil {
		t.Fatal(err)
	}
	failSome(t, e, s.ID, func(uint32) bool { return true })
	clock.Add(2000)
	id := startBulk(t, e, queue.BulkRequest{})
	e.bulks.step(ctx)
	wantBulk(t, "one submission refuses", e, id, queue.BulkCompleted, 4, 0, 5)
	for range queue.MaxBulkRunning {
		startBulk(t, e, queue.BulkRequest{})
	}
	if _, err := queueAt(e, DefaultQueue).Bulks.Start(ctx, queue.BulkRequest{}); queue.CodeOf(err) != queue.CodeOverloaded {
		t.Errorf("one operation too many: got %v, want %s", err, queue.CodeOverloaded)
	}
}

// Steps that fail again and again, as on a full disk, write one line a minute to the log.
func TestFailedStepsAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	log := new(strings.Builder)
	now := time.Now()
	e := &Engine{options: Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return now }}}
	p := bulkRunner{e: e}
	for range 3 {
		for range 100 {
			p.failed(t.Context(), &Queue{name: "q"}, &queue.Bulk{}, &queue.Error{Code: queue.CodeDiskFull})
		}
		now = now.Add(warnEvery)
	}
	if got := strings.Count(log.String(), "\n"); got != 3 {
		t.Errorf("%d lines in three minutes, want 3: %s", got, log)
	}
}
