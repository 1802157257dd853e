package simtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
)

// keepSnapshots has the shard keep a copy of its store from its first start on.
func (b *box) keepSnapshots() { b.copies = b.t.TempDir() }

// snapshots are the copies that are kept.
func (b *box) snapshots() engine.Snapshots { return engine.Snapshots{Folder: b.copies} }

// loseStore removes the store of a shard that is closed.
func (b *box) loseStore() {
	b.t.Helper()
	for _, name := range []string{"store.db", "store.db-wal", "store.db-shm"} {
		if err := os.Remove(filepath.Join(b.dir, name)); err != nil && !os.IsNotExist(err) {
			b.t.Fatal(err)
		}
	}
}

// copySnapshots has the box go on with the copies as they are now: a kill leaves them, whatever the shard still does.
func (b *box) copySnapshots() (of string) {
	b.t.Helper()
	if b.copies == "" {
		return ""
	}
	of = filepath.Join(b.t.TempDir(), "copies")
	if err := os.CopyFS(of, os.DirFS(b.copies)); err != nil {
		b.t.Fatal(err)
	}
	return of
}

// remake makes a store again that was lost.
func (b *box) remake() {
	b.t.Helper()
	path, log := filepath.Join(b.dir, "store.db"), filepath.Join(b.dir, "journal.db")
	if _, err := os.Stat(path); err == nil || b.copies == "" {
		return
	}
	if _, err := os.Stat(log); err != nil {
		return // the first start
	}
	j, err := sqlitelog.Open(ctx, log, sqlitelog.Options{Shared: true})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.snapshots().Restore(ctx, path, j); err != nil {
		b.t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// A server that keeps no snapshots writes large contents beside the journal. So what it leaves behind is not taken for a queue whose store can
// be made again, also if it was killed at once, and no later checkpoint has trimmed the journal.
func TestSnapshotsThatEnded(t *testing.T) {
	t.Parallel()
	b := newBox(t, relaxed())
	b.keepSnapshots()
	b.open()
	mustInsert(t, b, prefixed(2))
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	copies := b.copies
	b.copies = ""
	b.crashed(0)
	mustInsert(t, b, queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Inline: [][]byte{make([]byte, 100_000)}}})
	b.crashed(0)
	b.close()
	b.copies = copies
	b.loseStore()
	log, err := sqlitelog.Open(ctx, filepath.Join(b.dir, "journal.db"), sqlitelog.Options{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	_, err = b.snapshots().Restore(ctx, filepath.Join(b.dir, "store.db"), log)
	if err == nil || !strings.Contains(err.Error(), "names no snapshot") {
		t.Errorf("got %v, want that there is no snapshot", err)
	}
}
