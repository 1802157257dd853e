package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/store"
)

// Cluster makes an engine a node of a cluster: it serves the queues whose leases the node has, and knows who serves the others.
type Cluster struct {
	Backend cluster.Backend
	Node    *member.Member // it has joined; the engine runs it
}

// clustered is the home of a node. The backend has everything that other nodes need. The directory is a cache, which each start makes again
// from the backend.
type clustered struct {
	e *Engine
	Cluster
}

// cacheFile marks a directory that is only a cache.
const cacheFile = "cache-of-a-cluster"

func (c clustered) dir() string { return c.e.options.Dir }

func (c clustered) ours() error {
	marked, err := exists(filepath.Join(c.dir(), cacheFile))
	if err != nil || marked {
		return err
	}
	own, err := exists(filepath.Join(c.dir(), catalogueFile))
	if err == nil && own {
		err = fmt.Errorf("the data directory %s has queues of a server that is alone. Nothing was changed: choose another "+
			"with --data", c.dir())
	}
	if err != nil {
		return err
	}
	return isOurs(c.dir())
}

func (c clustered) clean() error {
	err := WriteFile(filepath.Join(c.dir(), cacheFile), func(w io.Writer) error {
		_, err := io.WriteString(w, "A server can make the files in this folder again from the cluster's database. A start deletes them.\n")
		return err
	})
	for _, name := range []string{"shards", backupDir, catalogueFile, catalogueFile + "-wal", catalogueFile + "-shm"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir(), name)))
	}
	return err
}

// catalogueJournal and shardJournal are the names of the journals of a cluster. A queue that comes after a deleted one may have its shard
// number, but has a journal, blobs and snapshots of its own: a node that has not seen the deletion yet writes nothing into them.
const catalogueJournal = "catalogue"

func shardJournal(row *store.QueueRow) string {
	return fmt.Sprintf("shard-%04d-%d", row.Shard, row.Created)
}

func (c clustered) catalogue(ctx context.Context) (*store.Catalogue, error) {
	made, err := store.OpenCatalogue(ctx, filepath.Join(c.dir(), catalogueFile))
	if err != nil {
		return nil, err
	}
	if err := c.Backend.MakeJournal(ctx, catalogueJournal, 0); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	err = made.Share(ctx, func(ctx context.Context) (journal.Journal, error) { return c.Backend.Journal(ctx, catalogueJournal) })
	if err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

func (c clustered) prepare(ctx context.Context, row store.QueueRow, id queue.Identity) (err error) {
	log, err := c.Backend.Journal(ctx, shardJournal(&row))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	dir := c.e.shardDir(row.Shard)
	if tail, err := log.Tail(ctx); err != nil || tail == 0 {
		return errors.Join(err, os.RemoveAll(dir)) // an earlier queue of this number may have left something
	}
	if err := makeDir(dir); err != nil {
		return err
	}
	began := time.Now()
	made, err := c.snapshots(&row, id).Restore(ctx, filepath.Join(dir, storeFile), log)
	if err == nil && made.Key != "" {
		c.e.options.Logger.Info("the store of a queue was made from its snapshot", "queue", row.Name, "snapshot", made.Key,
			"position", made.Position, "took", time.Since(began).Round(time.Millisecond))
	}
	return err
}

// found also removes what an earlier queue of this number left in the cache.
func (c clustered) found(ctx context.Context, row store.QueueRow) error {
	return errors.Join(os.RemoveAll(c.e.shardDir(row.Shard)), c.Backend.MakeJournal(ctx, shardJournal(&row), 0))
}

func (c clustered) journal(_ *Queue, row store.QueueRow, _ queue.Identity) func(context.Context) (journal.Journal, error) {
	return func(ctx context.Context) (journal.Journal, error) {
		log, err := c.Backend.Journal(ctx, shardJournal(&row))
		if err != nil {
			return nil, err
		}
		if err := log.SetDurability(row.Settings.Durability); err != nil {
			return nil, errors.Join(err, log.Close())
		}
		return log, nil
	}
}

// blobs are those of a queue.
func (c clustered) blobs(row *store.QueueRow) blobs.Blobs { return blobsOf(c.Backend, row) }

func blobsOf(b cluster.Backend, row *store.QueueRow) blobs.Blobs {
	return blobs.Under(b.Blobs(), shardJournal(row)+"/")
}

func (c clustered) snapshots(row *store.QueueRow, id queue.Identity) Snapshots {
	return snapshotsOf(c.Backend, row, id, c.e.options.Now, c.e.shardDir(row.Shard))
}

// snapshotsOf are the snapshots of a queue, which are made in dir.
func snapshotsOf(b cluster.Backend, row *store.QueueRow, id queue.Identity, now func() time.Time, dir string) Snapshots {
	return Snapshots{Identity: id, Now: now, shelf: blobShelf{blobsOf(b, row)}, place: "snapshot",
		plain: filepath.Join(dir, "snapshot"+copySuffix)}
}

func (c clustered) copies(row store.QueueRow, id queue.Identity) (shard.Copies, error) {
	return shard.Copies{Snapshots: c.snapshots(&row, id), SnapshotBytes: c.e.options.SnapshotBytes, Blobs: c.blobs(&row)}, nil
}

func (c clustered) backups() backupSource { return c }

// lineage has an id that all nodes make of the cluster's secret. A restore draws another secret.
func (c clustered) lineage() (queue.Identity, error) {
	secret, err := c.e.catalogue.Secret(tokenSecret, tokenSecretBytes, rand.Reader)
	id := queue.Identity{Shard: queue.NoShard, Generation: 1, Oldest: 1, Newest: 1}
	sum := sha256.Sum256(append([]byte("the backups of a cluster "), secret...))
	copy(id.Directory[:], sum[:])
	return id, err
}

func (clustered) unused(queue.ShardID) (bool, error) { return true, nil }

func (c clustered) forget(row store.QueueRow) error {
	defer c.Node.Drop(row.Shard)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	// The journal goes first: a node that still has it open is deposed then, and puts no more blobs.
	return errors.Join(c.Backend.DeleteJournal(ctx, shardJournal(&row), nil),
		deleteBlobs(c.blobs(&row), "", func(string) bool { return false }), os.RemoveAll(c.e.shardDir(row.Shard)))
}
