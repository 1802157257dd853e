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
)

// A shard whose journal another writer has taken over says so to every call that would change something, and leaves the
// journal to that writer. It begins no new epoch, or the two would take the journal from each other for ever.
func TestDeposed(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), context.Background()
	how := sqlitelog.Options{Durability: queue.Relaxed, Shared: true}
	withShardOn(t, dir, how, func(s *Shard) {
		if err := insertFive(s); err != nil {
			t.Fatal(err)
		}
		other, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), how)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		epoch := s.m.Epoch
		tail := claim(t, other, epoch+1)
		for range 3 {
			if err := insertFive(s); queue.CodeOf(err) != queue.CodeMoved {
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

// An append of unknown outcome lets another writer in before the old owner looks again. The old owner reloads through a
// new handle, which does not know the writers of batches. It must see the newer epoch, and leave the journal to its
// owner, however much that has written.
func TestReloadBehindANewerEpoch(t *testing.T) {
	t.Parallel()
	for name, trims := range map[string]bool{"claimed": false, "claimed and trimmed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ctx := t.TempDir(), context.Background()
			how := sqlitelog.Options{Durability: queue.Relaxed, Shared: true}
			withShardOn(t, dir, how, func(s *Shard) {
				var later atomic.Int64
				s.options.Now = func() time.Time { return lifeStart.Std().Add(time.Duration(later.Load())) }
				stuck := &stuckLog{Journal: s.writer.journal, begun: make(chan struct{})}
				s.writer.journal = stuck
				answer := make(chan error)
				go func() { answer <- insertFive(s) }()
				<-stuck.begun

				other, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), how)
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				epoch := s.m.Epoch
				tail := claim(t, other, epoch+1)
				if trims {
					if err := other.Trim(ctx, tail); err != nil {
						t.Fatal(err)
					}
					if tail, err = other.Append(ctx, tail, opening(epoch+1)); err != nil {
						t.Fatal(err)
					}
				}
				later.Store(int64(appendPatience) + 1)
				s.Heal()
				if err := <-answer; queue.CodeOf(err) != queue.CodeCommitFailed {
					t.Errorf("Insert of unknown outcome = %v; want the code commit_failed", err)
				}
				for range 3 {
					if err := insertFive(s); queue.CodeOf(err) != queue.CodeMoved {
						t.Errorf("Insert afterwards = %v; want the code moved", err)
					}
					s.Heal()
				}
				if err := s.Checkpoint(); !errors.Is(err, journal.ErrConflict) {
					t.Errorf("Checkpoint = %v; want a refusal: what it writes and trims is another writer's", err)
				}
				if _, err := other.Append(ctx, tail, opening(epoch+1)); err != nil {
					t.Errorf("the rightful owner's next append: %v", err)
				}
			})
		})
	}
}

// A reload whose journal ends before the last acknowledged batch does not go on: its next batch would take the place of
// an acknowledged one.
func TestReloadOfAJournalTakenBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := "journal.db"
	s, err := openShardOn(t, dir, func(ctx context.Context) (journal.Journal, error) {
		return sqlitelog.Open(ctx, filepath.Join(dir, file), sqlitelog.Options{Durability: queue.Relaxed})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.store.Close()
	defer s.Close()
	if err := insertFive(s); err != nil {
		t.Fatal(err)
	}
	file = "earlier.db"
	earlier, err := sqlitelog.Open(t.Context(), filepath.Join(dir, file), sqlitelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	claim(t, earlier, s.m.Epoch)
	if err := earlier.Close(); err != nil {
		t.Fatal(err)
	}
	s.mu.held(func() { s.broken = journal.ErrUnknown })
	s.Heal()
	if err := insertFive(s); queue.CodeOf(err) != queue.CodeMoved {
		t.Errorf("Insert afterwards = %v; want the code moved", err)
	}
}

// A start that another writer overtakes between its reading and its first append has lost the queue to that writer: the
// journal is not damaged.
func TestStartOvertaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	how := sqlitelog.Options{Durability: queue.Relaxed, Shared: true}
	withShardOn(t, dir, how, func(*Shard) {})
	_, err := openShardOn(t, dir, func(ctx context.Context) (journal.Journal, error) {
		mine, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), how)
		if err != nil {
			return nil, err
		}
		return &overtakenLog{Journal: mine, before: func() {
			other, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), how)
			if err != nil {
				t.Fatal(err)
			}
			claim(t, other, 2)
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		}}, nil
	})
	if queue.CodeOf(err) != queue.CodeMoved || !errors.Is(err, journal.ErrConflict) {
		t.Errorf("Open = %v; want the code moved", err)
	}
}

// overtakenLog is a journal to which another writer comes right before each append.
type overtakenLog struct {
	journal.Journal
	before func()
}

func (l *overtakenLog) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	l.before()
	return l.Journal.Append(ctx, expect, batch)
}

func insertFive(s *Shard) error {
	n := queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}}
	_, _, err := s.Insert(context.Background(), &n)
	return err
}

// opening is the batch that begins an epoch.
func opening(epoch uint32) []byte {
	var enc journal.Encoder
	enc.Reset(epoch, lifeStart)
	enc.Epoch(epoch)
	return enc.Bytes()
}

// claim begins a new epoch in a journal.
func claim(t *testing.T, log *sqlitelog.Log, epoch uint32) journal.Position {
	t.Helper()
	tail, err := log.Tail(context.Background())
	if err == nil {
		tail, err = log.Append(context.Background(), tail, opening(epoch))
	}
	if err != nil {
		t.Fatal(err)
	}
	return tail
}

// stuckLog is a journal whose appends never learn their outcome.
type stuckLog struct {
	journal.Journal
	begun chan struct{} // gets a signal at each append
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
		stuck := &stuckLog{Journal: s.writer.journal, begun: make(chan struct{})}
		s.writer.journal = stuck
		answer := make(chan error)
		go func() { answer <- insertFive(s) }()
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
		if err := insertFive(s); err != nil { // it reloaded, with a journal that works
			t.Errorf("Insert afterwards: %v", err)
		}
	})
}

// slowLog is a journal whose next append waits for its release, and then succeeds, unless its context has ended.
type slowLog struct {
	journal.Journal
	begun, release chan struct{}
}

func (l *slowLog) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	l.begun <- struct{}{}
	select {
	case <-ctx.Done():
		return 0, errors.Join(journal.ErrUnknown, ctx.Err())
	case <-l.release:
		return l.Journal.Append(ctx, expect, batch)
	}
}

// An append that takes less than the patience of the shard costs no reload: its callers get their answer, while the shard serves
// and while it is closed.
func TestSlowAppendIsAwaited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := optionsOn(t, dir, func(ctx context.Context) (journal.Journal, error) {
		return sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
	})
	var later atomic.Int64
	o.Now = func() time.Time { return lifeStart.Std().Add(time.Duration(later.Load())) }
	o.Owner.Patience = time.Minute
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	slow := &slowLog{s.writer.journal, make(chan struct{}, 1), make(chan struct{}, 2)}
	s.writer.journal = slow
	epoch, answer := s.m.Epoch, make(chan error)
	insert := func() { answer <- insertFive(s) }
	go insert()
	<-slow.begun
	later.Store(int64(o.Owner.Patience))
	s.Heal()
	slow.release <- struct{}{}
	if err := <-answer; err != nil || s.m.Epoch != epoch {
		t.Fatalf("Insert with a slow journal = %v, epoch %d; want that it is done in epoch %d", err, s.m.Epoch, epoch)
	}

	go insert()
	<-slow.begun
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	<-time.After(appendPatience * 6 / 5) // that of a journal on a disk would end by now
	slow.release <- struct{}{}
	if err := <-answer; err != nil {
		t.Errorf("Insert that a stop waits for = %v; want that it is done", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A queue that is to be deleted refuses inserts and says how many submissions are open: one whose append is under way
// counts, and a later one is refused. If the queue stays after all, it serves again.
func TestRetire(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		slow := &slowLog{s.writer.journal, make(chan struct{}, 1), make(chan struct{}, 1)}
		s.writer.journal = slow
		answer, retired := make(chan error, 1), make(chan uint64)
		var again func()
		go func() { answer <- insertFive(s) }()
		<-slow.begun
		go func() {
			var open uint64
			open, again = Retire(s)
			retired <- open
		}()
		for !errors.Is(probed(s), errClosing) {
			select {
			case open := <-retired:
				t.Fatalf("%d submissions are open, while one is being written", open)
			default:
			}
		}
		if err := insertFive(s); !errors.Is(err, errClosing) {
			t.Errorf("Insert into a queue that is to be deleted: %v", err)
		}
		if _, err := s.Ends.After(t.Context(), queue.EndPlace{}, machine.Filter{}, 1); err != nil {
			t.Errorf("a read of a queue that is to be deleted: %v; want that it is served: the queue may stay", err)
		}
		slow.release <- struct{}{}
		if open, err := <-retired, <-answer; open != 1 || err != nil {
			t.Errorf("%d submissions are open, and the one that was being written: %v; want 1, and that it is done", open, err)
		}
		again()
		slow.release <- struct{}{}
		if err := insertFive(s); err != nil {
			t.Errorf("Insert into a queue that stays: %v", err)
		}
	})
}

func probed(s *Shard) (err error) {
	s.mu.held(func() { err = s.takesIn() })
	return err
}
