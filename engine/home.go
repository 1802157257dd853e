package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/store"
)

// home is where the catalogue, the journals of the queues and the copies of their stores are: in a data directory, or in a cluster. The
// stores themselves are always in the directory.
type home interface {
	// ours refuses a directory that is used for something else. It writes nothing, because another server may have the directory.
	ours() error
	// clean removes the unfinished work of the last server. This server has the directory.
	clean() error
	// catalogue opens the catalogue, before all queues. It refuses a home with queues that the catalogue does not have.
	catalogue(ctx context.Context) (*store.Catalogue, error)
	// prepare prepares the opening of a queue of the catalogue, or refuses it.
	prepare(ctx context.Context, row store.QueueRow, id queue.Identity) error
	// found prepares the opening of a new queue.
	found(ctx context.Context, row store.QueueRow) error
	// journal opens the journal of a queue, also again after a failed commit.
	journal(q *Queue, row store.QueueRow, id queue.Identity) func(context.Context) (journal.Journal, error)
	// copies are the copies from which the store of a queue can be made again.
	copies(row store.QueueRow, id queue.Identity) (shard.Copies, error)
	// backups gives the data for backups.
	backups() backupSource
	// unused says that another queue may have this shard number: no queue left anything behind under it.
	unused(id queue.ShardID) (bool, error)
	// forget removes all that is left of a queue.
	forget(row store.QueueRow) error
}

// local is the home of a server that is alone: its data directory.
type local struct{ e *Engine }

func (l local) dir() string { return l.e.options.Dir }

func (l local) ours() error {
	marked, err := exists(filepath.Join(l.dir(), cacheFile))
	switch {
	case err != nil:
		return err
	case marked:
		return fmt.Errorf("the directory %s is the cache of a cluster's node: give --cluster, or choose another with --data", l.dir())
	}
	return isOurs(l.dir())
}

func (l local) clean() error { return isWhole(l.dir()) }

func (l local) catalogue(ctx context.Context) (*store.Catalogue, error) {
	if err := hasCatalogue(l.dir()); err != nil {
		return nil, err
	}
	made, err := store.OpenCatalogue(ctx, filepath.Join(l.dir(), catalogueFile))
	if err != nil {
		return nil, err
	}
	if err := l.knowsFolders(made); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

func (l local) prepare(ctx context.Context, row store.QueueRow, id queue.Identity) error {
	if err := l.remake(ctx, row, id); err != nil {
		return err
	}
	return l.hasFiles(row)
}

// remake makes the missing store of a queue again, if the server keeps snapshots.
func (l local) remake(ctx context.Context, row store.QueueRow, id queue.Identity) error {
	e := l.e
	path, log := filepath.Join(e.shardDir(row.Shard), storeFile), filepath.Join(e.shardDir(row.Shard), journalFile)
	there, err := exists(path)
	journaled, err2 := exists(log)
	if there || !journaled || e.options.SnapshotDir == "" || err != nil || err2 != nil {
		return errors.Join(err, err2)
	}
	// It is only read, and checked all the same: SQLite rebuilds the index that says whether the log is whole.
	j, err := sqlitelog.Open(ctx, log, sqlitelog.Options{Shared: true, Durability: row.Settings.Durability, Identity: id})
	if err != nil {
		return err
	}
	made, err := l.snapshots(id).Restore(ctx, path, j)
	if err = errors.Join(err, j.Close()); err == nil {
		e.options.Logger.Warn("the store was missing: it was rebuilt from its snapshot and the journal", "queue", row.Name,
			"path", path, "snapshot", made.Key, "position", made.Position)
	}
	return err
}

func (local) found(context.Context, store.QueueRow) error { return nil }

func (l local) journal(q *Queue, row store.QueueRow, id queue.Identity) func(context.Context) (journal.Journal, error) {
	path := filepath.Join(l.e.shardDir(row.Shard), journalFile)
	return func(ctx context.Context) (journal.Journal, error) {
		log, err := sqlitelog.Open(ctx, path, sqlitelog.Options{Durability: row.Settings.Durability, Identity: id})
		if err != nil {
			return nil, err
		}
		if err := q.files.add(path); err != nil {
			return nil, errors.Join(err, log.Close())
		}
		id = id.Opened() // a reload opens it again
		return log, nil
	}
}

// snapshots are those of a queue whose files have this identity. It is called only if the server keeps snapshots.
func (l local) snapshots(id queue.Identity) Snapshots {
	return SnapshotsIn(l.e.options.SnapshotDir, id, l.e.options.Now)
}

func (l local) copies(_ store.QueueRow, id queue.Identity) (shard.Copies, error) {
	copies := shard.Copies{SnapshotBytes: l.e.options.SnapshotBytes}
	if l.e.options.SnapshotDir == "" {
		return copies, nil
	}
	kept := l.snapshots(id)
	blobs, err := kept.Blobs()
	copies.Snapshots, copies.Blobs = kept, blobs
	return copies, err
}

func (l local) unused(id queue.ShardID) (bool, error) {
	there, err := exists(l.e.shardDir(id))
	return !there, err
}

func (l local) forget(row store.QueueRow) error {
	err := os.RemoveAll(l.e.shardDir(row.Shard))
	if l.e.options.SnapshotDir != "" {
		copies := l.snapshots(l.e.identity.ForShard(row.Shard))
		err = errors.Join(err, copies.shelf.keep(copies.place, ""))
	}
	return err
}
