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
)

// A shard whose journal another writer has taken over says so to every call that would change something, and leaves the journal to that one:
// it begins no new epoch, in which the two would take the journal from each other for ever.
func TestDeposed(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), context.Background()
	how := sqlitelog.Options{Durability: queue.Relaxed, Shared: true}
	withShardOn(t, dir, how, func(s *Shard) {
		insert := func() error {
			n := queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}}
			_, _, err := s.Insert(ctx, &n)
			return err
		}
		if err := insert(); err != nil {
			t.Fatal(err)
		}
		other, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), how)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		tail, err := other.Tail(ctx)
		if err != nil {
			t.Fatal(err)
		}
		epoch := s.m.Epoch
		var enc journal.Encoder
		enc.Reset(epoch+1, lifeStart)
		enc.Epoch(epoch + 1)
		if tail, err = other.Append(ctx, tail, enc.Bytes()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := insert(); queue.CodeOf(err) != queue.CodeMoved {
				t.Fatalf("Insert = %v; want the code moved", err)
			}
			s.Heal()
		}
		if err := s.Health(); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("Health = %v; want that another writer has the journal", err)
		}
		if got, err := other.Tail(ctx); err != nil || got != tail || s.m.Epoch != epoch {
			t.Errorf("the journal ends at %d, %v, epoch %d; want %d, and %d as before", got, err, s.m.Epoch, tail, epoch)
		}
	})
}

// stuckLog is a journal whose appends never learn what came of them.
type stuckLog struct {
	journal.Journal
	begun chan struct{} // told of each append
}

func (l *stuckLog) Append(ctx context.Context, _ journal.Position, _ []byte) (journal.Position, error) {
	l.begun <- struct{}{}
	<-ctx.Done()
	return 0, errors.Join(journal.ErrUnknown, ctx.Err())
}

// An append that does not learn its outcome is given up after a while, not before, and the shard goes on.
func TestAppendIsGivenUp(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		var later atomic.Int64
		s.options.Now = func() time.Time { return lifeStart.Std().Add(time.Duration(later.Load())) }
		stuck := &stuckLog{Journal: s.journal, begun: make(chan struct{})}
		s.journal = stuck
		insert := func() error {
			n := queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}}
			_, _, err := s.Insert(context.Background(), &n)
			return err
		}
		answer := make(chan error)
		go func() { answer <- insert() }()
		<-stuck.begun
		s.Heal()
		select {
		case err := <-answer:
			t.Fatalf("given up at once: %v", err)
		default:
		}
		later.Store(int64(appendPatience) + 1)
		s.Heal()
		if err := <-answer; queue.CodeOf(err) != queue.CodeCommitFailed {
			t.Errorf("Insert = %v; want the code commit_failed", err)
		}
		if err := insert(); err != nil { // it reloaded, with a journal that works
			t.Errorf("Insert afterwards: %v", err)
		}
	})
}
