package shard

import (
	"context"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// ratedShard is a shard of ten chunks with a clock that the test moves, and a request for a chunk a second.
func ratedShard(t *testing.T) (s *Shard, q machine.Request, later *atomic.Int64) {
	t.Helper()
	dir := t.TempDir()
	o := optionsOn(t, dir, func(ctx context.Context) (journal.Journal, error) {
		return sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
	})
	later = new(atomic.Int64)
	o.Now = func() time.Time { return lifeStart.Std().Add(time.Duration(later.Load())) }
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, _, err := s.Insert(t.Context(), &queue.NewSubmission{Chunks: queue.Chunks{Count: 10, Prefix: "p/"}}); err != nil {
		t.Fatal(err)
	}
	parsed, err := strategy.Parse(`MaxRate(1, "1s", OldestFirst)`)
	if err != nil {
		t.Fatal(err)
	}
	later.Add(int64(time.Minute)) // the first interval after a start counts as used
	return s, machine.Request{Plan: parsed.Plan(), Max: 1, Timeout: time.Hour}, later
}

// reserved is how many chunks a call gets.
func reserved(t *testing.T, s *Shard, q machine.Request) int {
	t.Helper()
	got, err := s.Reserve(t.Context(), q, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(got.Reservations)
}

// A call that comes at the moment at which a rate allows the next chunk does not get it if another call waits for it.
func TestRateServesThoseWhoWaitFirst(t *testing.T) {
	t.Parallel()
	s, q, later := ratedShard(t)
	if n := reserved(t, s, q); n != 1 {
		t.Fatalf("the first call gets %d chunks, want 1", n)
	}
	waits := q
	waits.Wait = time.Hour
	served := make(chan int, 1)
	go func() {
		got, _ := s.Reserve(context.Background(), waits, nil)
		served <- len(got.Reservations)
	}()
	for waiting := 0; waiting == 0; runtime.Gosched() {
		s.mu.held(func() { waiting = s.waiters.Len() })
	}
	later.Add(int64(time.Second))
	q.Came = s.options.Now()
	if n := reserved(t, s, q); n != 0 {
		t.Fatalf("the call that came later gets %d chunks, want 0", n)
	}
	if n := <-served; n != 1 {
		t.Errorf("the call that waited gets %d chunks, want 1", n)
	}
}

// An old reading by a call that waited long for the mutex does not count as a clock that was set back: the waits of
// values stay the same.
func TestRateIgnoresOldReadings(t *testing.T) {
	t.Parallel()
	s, q, _ := ratedShard(t)
	if n := reserved(t, s, q); n != 1 {
		t.Fatalf("the first call gets %d chunks, want 1", n)
	}
	old := q
	old.Came = s.options.Now().Add(-10 * time.Second)
	for _, q := range []machine.Request{old, q} {
		if n := reserved(t, s, q); n != 0 {
			t.Errorf("a call that came at %v gets %d chunks within the second, want 0", q.Came, n)
		}
	}
}

// A view that was dropped between two calls of one plan is made again, and its rate with it.
func TestReserveMakesADroppedViewAgain(t *testing.T) {
	t.Parallel()
	s, q, later := ratedShard(t)
	for call := range 3 {
		if n := reserved(t, s, q); n != 1 {
			t.Errorf("call %d gets %d chunks, want 1", call, n)
		}
		if n := reserved(t, s, q); n != 0 {
			t.Errorf("call %d gets %d chunks more within the second, want 0", call, n)
		}
		later.Add(int64(time.Minute))
		s.mu.held(func() {
			if n := s.m.Backlog.Views.Drop(0); n == 0 {
				t.Error("no view was dropped")
			}
		})
	}
}
