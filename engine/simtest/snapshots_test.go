package simtest

import (
	"os"
	"path/filepath"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
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
