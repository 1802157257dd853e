package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// deadEngine makes an engine with `letters` dead letters of so many fingerprints. They are chunks of `submissions` submissions that have
// ended and are in the history, and of one that is open, with `open` dead letters and one ready chunk.
func deadEngine(t testing.TB, kinds, submissions, letters, open int) *Engine {
	t.Helper()
	ctx := context.Background()
	seed := uint64(0)
	e, err := Open(ctx, Options{Dir: t.TempDir(), BallastBytes: -1, Now: time.Now, Seed: func() uint64 { seed++; return seed }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	settings := queue.DefaultSettings()
	settings.OnExhausted, settings.Durability, settings.MaxAttempts = queue.DeadLetter, queue.Relaxed, 1
	if _, _, err := e.PutQueue(ctx, DefaultQueue, settings); err != nil {
		t.Fatal(err)
	}
	plan, err := queueAt(e, DefaultQueue).Plan([]byte(`"OldestFirst"`))
	if err != nil {
		t.Fatal(err)
	}
	fail := func(chunks, dying int) {
		if _, _, err := queueAt(e, DefaultQueue).Insert(ctx, queue.NewSubmission{Chunks: queue.Chunks{Count: uint32(chunks), Prefix: "x"}, OperationsPerChunk: 1}); err != nil {
			t.Fatal(err)
		}
		for dead := 0; dead < dying; {
			got, err := queueAt(e, DefaultQueue).Reserve(ctx, ReserveRequest{Plan: plan, Max: min(queue.MaxReserve, dying-dead)}, nil)
			if err != nil || len(got.Reservations) == 0 {
				t.Fatalf("reserve: got %d %v, want some", len(got.Reservations), err)
			}
			var items []queue.FailItem
			for _, r := range got.Reservations {
				dead++
				items = append(items, queue.FailItem{Token: r.Token, Error: fmt.Sprintf("no answer of %s-%d within 300 ms", strings.Repeat("x", 1+dead%kinds), dead)})
			}
			if _, err := queueAt(e, DefaultQueue).Fail(ctx, items, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range submissions {
		fail(letters/submissions, letters/submissions)
	}
	if open > 0 {
		fail(open+1, open)
	}
	q, err := e.Queue(DefaultQueue)
	if err == nil {
		err = q.shard.Checkpoint()
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// However many dead letters there are, each is counted, once, wherever its submission is.
//
//quern:sequential
func TestDeadGroupsCountEveryLetter(t *testing.T) {
	t.Parallel()
	const ended, open = 101_000, 700
	e := deadEngine(t, 1, 2, ended, open)
	list, err := queueAt(e, DefaultQueue).DeadLetters.Groups(context.Background(), queue.BulkFilter{})
	if err != nil || list.Others != 0 || len(list.Items) != 1 {
		t.Fatalf("got %d groups and %d others, %v; want all in one", len(list.Items), list.Others, err)
	}
	if g := list.Items[0]; g.Count != ended+open || g.Submissions != 3 || g.FirstDiedAt.IsZero() || g.LastDiedAt.Before(g.FirstDiedAt.Time) {
		t.Errorf("got %+v, want %d dead letters of 3 submissions", g, ended+open)
	}
}

// The time that the groups of 200,000 dead letters of 100 kinds take: of ended submissions of two sizes, and of an open one; and the time of a
// start with them.
func BenchmarkDeadGroups(b *testing.B) {
	for _, c := range []struct {
		name                       string
		submissions, letters, open int
	}{
		{"OneEnded", 1, 200_000, 0},
		{"ManyEnded", 200, 200_000, 0},
		{"Open", 0, 0, 200_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := deadEngine(b, 100, c.submissions, c.letters, c.open)
			b.Run("ask", func(b *testing.B) {
				for b.Loop() {
					if list, err := queueAt(e, DefaultQueue).DeadLetters.Groups(context.Background(), queue.BulkFilter{}); err != nil || len(list.Items) != 100 {
						b.Fatalf("got %d groups, %v; want 100", len(list.Items), err)
					}
				}
			})
			b.Run("start", func(b *testing.B) {
				for b.Loop() {
					if err := e.Close(); err != nil {
						b.Fatal(err)
					}
					opened, err := Open(context.Background(), e.options)
					if err != nil {
						b.Fatal(err)
					}
					e = opened
				}
			})
			e.Close()
		})
	}
}

// A pass of the ageing reads the history of a submission once, however many of its letters it looks at: its allocations do not grow with
// the product of history and letters. Not parallel: it counts allocations.
func TestAgeingReadsASubmissionOnce(t *testing.T) {
	const letters = 10_000 // two passes
	e := deadEngine(t, 1, 1, letters, 0)
	q, err := e.Queue(DefaultQueue)
	if err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(1, func() {
		if _, err := q.shard.Retention.Age(context.Background(), time.Hour, 100); err != nil {
			t.Fatal(err)
		}
	})
	if n < letters || n > 15*letters {
		t.Errorf("got %v allocations of a pass over half of %d letters, want some for each, and at most 15", n, letters)
	}
}
