package simtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
)

// keepSnapshots has the shard keep a copy of its store from its first start on.
func (b *box) keepSnapshots() { b.copies = b.t.TempDir() }

// snapshots are the copies that are kept.
func (b *box) snapshots() engine.Snapshots {
	return engine.SnapshotsIn(b.copies, queue.Identity{}, time.Now)
}

// loseStore removes the store of a shard that is closed.
func (b *box) loseStore() {
	b.t.Helper()
	for _, name := range []string{"store.db", "store.db-wal", "store.db-shm"} {
		if err := os.Remove(filepath.Join(b.dir, name)); err != nil && !os.IsNotExist(err) {
			b.t.Fatal(err)
		}
	}
}

// copyJournal copies the journal and the snapshots as they are at one moment, as after a kill, and says where the snapshots are; "": none
// are kept. A snapshot under way writes both, so the copy is repeated until nothing changed meanwhile.
func (b *box) copyJournal(to string) (copies string) {
	b.t.Helper()
	for last := ""; ; {
		b.copyFiles("journal.db", to)
		if b.copies == "" {
			return ""
		}
		copies = filepath.Join(b.t.TempDir(), "copies")
		if err := os.CopyFS(copies, os.DirFS(b.copies)); err == nil {
			now := digest(b.t, to) + digest(b.t, copies)
			if now == last {
				return copies
			}
			last = now
		} else if !errors.Is(err, fs.ErrNotExist) { // an older one was removed
			b.t.Fatal(err)
		}
	}
}

// digest is a sum of all files in a folder.
func digest(t testing.TB, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(sum.Sum(nil))
}

// remake rebuilds a lost store.
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

// A server that keeps no snapshots writes large contents beside the journal. So a later start does not take its files for a queue whose
// store can be rebuilt, also if it was killed at once, before a checkpoint trimmed the journal.
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
