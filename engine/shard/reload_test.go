package shard

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// lossyLog is a journal whose next appends, as many as `lose` says, have an unknown outcome. They are written all the
// same, or not.
type lossyLog struct {
	journal.Journal
	lose   *atomic.Int32
	writes bool
}

func (l *lossyLog) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if l.lose.Add(-1) < 0 {
		return l.Journal.Append(ctx, expect, batch)
	}
	if l.writes {
		if at, err := l.Journal.Append(ctx, expect, batch); err != nil {
			return at, err
		}
	}
	return 0, journal.ErrUnknown
}

// A reload lasts until its journal opens, and holds no mutex meanwhile: calls that change anything are refused at once,
// reads go on, Lose does not look for the files, and a stop ends the reload. Consumers keep their chunks, and their
// reports about them.
func TestReloadHoldsNoOneUp(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), context.Background()
	var lose atomic.Int32
	opened, reloading, stays := 0, make(chan struct{}), make(chan error)
	s, err := openShardOn(t, dir, func(ctx context.Context) (journal.Journal, error) {
		if opened++; opened == 2 {
			close(reloading)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case err := <-stays:
				return nil, err
			}
		}
		log, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
		return &lossyLog{Journal: log, lose: &lose}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.store.Close()
	defer s.Close()
	n := queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}}
	sub, _, err := s.Insert(ctx, &n)
	if err != nil {
		t.Fatal(err)
	}
	reserve := machine.Request{Plan: planOf(t, "OldestFirst"), Max: 2, Timeout: time.Hour, Wait: time.Hour, Consumer: "c"}
	got, err := s.Reserve(ctx, reserve, nil)
	if err != nil || len(got.Reservations) != 2 {
		t.Fatalf("Reserve = %d chunks, %v; want 2", len(got.Reservations), err)
	}
	reported := queue.Reported{Progress: 0.4, HasProgress: true, Note: "page 3"}
	says := []queue.ExtendItem{{Token: got.Reservations[1].Token, Reported: reported}}
	if results, err := s.Extend(ctx, says, nil); err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Fatalf("Extend = %v, %v; want ok", results, err)
	}
	lose.Store(1)
	failed := make(chan error, 1)
	go func() { failed <- insertFive(s) }()
	<-reloading

	if _, err := s.Reserve(ctx, reserve, nil); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("Reserve while it reloads = %v; want the code unavailable", err)
	}
	held := []queue.CompleteItem{{Token: got.Reservations[0].Token}}
	if _, err := s.Complete(ctx, held, nil); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("Complete while it reloads = %v; want the code unavailable", err)
	}
	if got := s.Stats(); got.Reserved != 2 {
		t.Errorf("Stats while it reloads: %d are reserved, want 2", got.Reserved)
	}
	if read, err := s.Submissions.Get(ctx, sub.ID); err != nil || read.Reserved != 2 {
		t.Errorf("Get while it reloads: %d are reserved, %v; want 2", read.Reserved, err)
	}
	if err := s.Lose(func() error { return errors.New("the log of a closed journal is not there") }); err != nil {
		t.Errorf("Lose while it reloads = %v; want nothing lost", err)
	}
	stays <- errors.New("test: the journal cannot be opened yet")
	if err := <-failed; queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Errorf("the insert whose commit failed = %v; want the code commit_failed", err)
	}
	if _, err := s.Complete(ctx, held, nil); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("Complete after a failed reload = %v; want the code unavailable", err)
	}
	s.Heal()
	if results, err := s.Complete(ctx, held, nil); err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Errorf("Complete after the reload = %v, %v; want ok", results, err)
	}
	if chunk, err := s.Submissions.Chunk(ctx, sub.ID, got.Reservations[1].Token.Index); err != nil || chunk.Reported != reported {
		t.Errorf("after the reload its consumer says %+v of a chunk, %v; want %+v", chunk.Reported, err, reported)
	}

	lose.Store(1)
	opened, reloading = 1, make(chan struct{})
	go func() { failed <- insertFive(s) }()
	<-reloading
	if err := s.Close(); err != nil {
		t.Errorf("Close while it reloads: %v", err)
	}
	if err := <-failed; queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Errorf("the insert whose reload a stop ended = %v; want the code commit_failed", err)
	}
}

// A claim of unknown outcome may be in the journal. The shard that made it recognises it as its own, and no other one.
func TestReloadAfterAnUnknownClaim(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]bool{"written": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			how := sqlitelog.Options{Durability: queue.Relaxed, Shared: true}
			var lose atomic.Int32
			s, err := openShardOn(t, dir, func(ctx context.Context) (journal.Journal, error) {
				log, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), how)
				return &lossyLog{Journal: log, lose: &lose, writes: writes}, err
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.store.Close()
			defer s.Close()
			lose.Store(2) // the insert, and the claim of its reload
			if err := insertFive(s); queue.CodeOf(err) != queue.CodeCommitFailed {
				t.Fatalf("Insert of unknown outcome = %v; want the code commit_failed", err)
			}
			if err := insertFive(s); queue.CodeOf(err) != queue.CodeUnavailable {
				t.Fatalf("Insert after a claim of unknown outcome = %v; want the code unavailable", err)
			}
			s.Heal()
			if err := insertFive(s); err != nil {
				t.Fatalf("Insert after the reload was made again: %v", err)
			}
			lose.Store(2)
			if err := insertFive(s); queue.CodeOf(err) != queue.CodeCommitFailed {
				t.Fatalf("Insert of unknown outcome = %v; want the code commit_failed", err)
			}
			other, err := sqlitelog.Open(t.Context(), filepath.Join(dir, "journal.db"), how)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			claim(t, other, s.own.epoch+5)
			s.Heal()
			if err := insertFive(s); queue.CodeOf(err) != queue.CodeMoved {
				t.Errorf("Insert behind another one's claim = %v; want the code moved", err)
			}
		})
	}
}

func planOf(t *testing.T, text string) *strategy.Plan {
	t.Helper()
	s, err := strategy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s.Plan()
}
