package shard

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/store"
)

// withShard runs fn on the shard in dir, then closes it.
func withShard(t *testing.T, dir string, fn func(*Shard)) {
	t.Helper()
	withShardOn(t, dir, sqlitelog.Options{Durability: queue.Relaxed}, fn)
}

// withShardOn is withShard with its journal opened in a way of its own.
func withShardOn(t *testing.T, dir string, how sqlitelog.Options, fn func(*Shard)) {
	t.Helper()
	s, err := openShardOn(t, dir, func(ctx context.Context) (journal.Journal, error) {
		return sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), how)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.store.Close()
	defer s.Close()
	fn(s)
}

// openShardOn opens the shard in dir, on any journal. Its store is closed when the shard does not open.
func openShardOn(t *testing.T, dir string, opens func(context.Context) (journal.Journal, error)) (*Shard, error) {
	t.Helper()
	o := optionsOn(t, dir, opens)
	s, err := Open(context.Background(), o)
	if err != nil {
		o.Store.Close()
	}
	return s, err
}

// optionsOn are the options of a shard in dir, with its store opened.
func optionsOn(t *testing.T, dir string, opens func(context.Context) (journal.Journal, error)) Options {
	t.Helper()
	settings := queue.DefaultSettings()
	settings.Durability = queue.Relaxed
	rows, err := store.Open(context.Background(), filepath.Join(dir, "store.db"), store.Options{Durability: queue.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rows.Close() })
	var seed atomic.Uint64
	return Options{
		Queue: "q", Settings: settings, Key: reserver.Key{K0: 1, K1: 2}, Store: rows, Journal: opens,
		Now: lifeStart.Std, Seed: func() uint64 { return seed.Add(1) }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Committed: func(time.Duration, int, int) {}, Fatal: func(err error) { t.Error(err) }, FreeBallast: func() bool { return false },
	}
}

// Every start has an epoch of its own, also when checkpoints have trimmed the journal in between, once or several
// times; and the ops that a life journals are read back under its epoch.
func TestEpochSurvivesCheckpoints(t *testing.T) {
	t.Parallel()
	dir, want := t.TempDir(), uint32(0)
	for _, checkpoints := range []int{0, 1, 0, 2, 1, 1} {
		want++
		withShard(t, dir, func(s *Shard) {
			if s.m.Epoch != want {
				t.Fatalf("start %d has epoch %d", want, s.m.Epoch)
			}
			for range checkpoints {
				n := queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}}
				if _, _, err := s.Insert(context.Background(), &n); err != nil {
					t.Fatal(err)
				}
				if err := s.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A start removes contents whose insert was never answered and says so in the log; with none it says nothing.
func TestSweepTellsWhatItRemoved(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		ctx := context.Background()
		putBlob(t, s, 77, "never answered")
		for i, want := range []string{"blob=0000/0000000001/0000000077/000", ""} {
			var log strings.Builder
			o := s.options
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			start, past := contents.Start{Files: o.files()}, pastRows{store: o.Store}
			if err := start.Sweep(ctx, s.m, 2, nil, past.find); err != nil {
				t.Fatal(err)
			}
			if got := log.String(); !strings.Contains(got, want) || want == "" && got != "" {
				t.Errorf("start %d logs %q, want %q", i+1, got, want)
			}
		}
	})
}

// putBlob puts bytes that no insert names.
func putBlob(t *testing.T, s *Shard, seq uint32, text string) {
	t.Helper()
	key := blobs.Key(s.options.ID, s.m.Epoch, seq, 0)
	if err := s.store.Blobs.Put(context.Background(), key, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// Prepare writes nothing, although there is something to remove and to append: another server may be the owner. Claim
// does it.
func TestPrepareChangesNothing(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), context.Background()
	withShard(t, dir, func(s *Shard) {
		if err := insertFive(s); err != nil {
			t.Fatal(err)
		}
		putBlob(t, s, 77, "never answered")
	})
	log, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	o := optionsOn(t, dir, func(context.Context) (journal.Journal, error) { return log, nil })
	before := sumsIn(t, dir)
	p, err := Prepare(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if after := sumsIn(t, dir); !maps.Equal(after, before) {
		t.Errorf("files after Prepare: %v\nbefore: %v", after, before)
	}
	s, err := p.Claim(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	after := sumsIn(t, dir)
	for _, name := range []string{"journal.db-wal", "store.db-wal"} {
		if after[name] == before[name] {
			t.Errorf("%s is the same after Claim: nothing is tested", name)
		}
	}
}

// sumsIn are checksums of the files of a directory, but for the shared memory of SQLite.
func sumsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), "-shm") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sums[entry.Name()] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	return sums
}
