package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/cuts"
	"github.com/quern-queue/quern/engine/store"
)

// A backup of a cluster is made of the data that its nodes share, and not of a node's memory: so any node can make it, also one that owns
// no queue. Its moment is one look at the ends of all journals. Of each queue it has the newest snapshot at that moment, the blobs beside
// it, and the journal from there on. The owner goes on meanwhile. If the owner makes a new snapshot, the old one, its blobs and the journal
// before the new one go: then the backup takes another moment.

// errSnapshotMoved says that the backup has to take another moment.
var errSnapshotMoved = errors.New("a new snapshot of the queue was made meanwhile")

func (c clustered) cut(ctx context.Context, dir string, _ func(string) bool) (made cut, err error) {
	ends, err := c.Backend.Journals(ctx)
	if err != nil {
		return made, err
	}
	log, err := c.Backend.Journal(ctx, catalogueJournal)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	replica := filepath.Join(dir, "replica")
	rows, err := store.Replica(ctx, replica, log, ends[catalogueJournal])
	if err != nil {
		return made, err
	}
	made.catalogue = func(to string, id queue.Identity, _ func(int) error) error {
		return errors.Join(os.Rename(replica, to), store.Assign(to, id))
	}
	for _, row := range rows {
		q, err := c.cutQueue(ctx, row, ends[shardJournal(&row)], &made)
		if err != nil {
			return made, fmt.Errorf("queue %s: %w", row.Name, err)
		}
		made.queues = append(made.queues, q)
	}
	return made, nil
}

func (c clustered) cutQueue(ctx context.Context, row store.QueueRow, end journal.Position, of *cut) (q queueCut, err error) {
	log, err := c.Backend.Journal(ctx, shardJournal(&row))
	if err != nil {
		return q, err
	}
	of.closers = append(of.closers, log.Close)
	newest, err := c.snapshots(&row, queue.Identity{}).newest(ctx, storeFile, log, end)
	q = queueCut{name: row.Name, id: row.Shard, Span: cuts.Span{Checkpointed: newest.Position, UpTo: end}}
	q.batches = func(ctx context.Context, fn func(journal.Position, []byte) error) error {
		return q.Read(ctx, log, fn)
	}
	q.store = func(ctx context.Context, to string, id queue.Identity, pace func(int) error) error {
		return errors.Join(c.snapshots(&row, id).remake(ctx, newest, to), c.addBlobs(ctx, &row, to, id, pace), store.Assign(to, id))
	}
	q.moved = func(ctx context.Context) error {
		next, err := newestSnapshot(ctx, log, end, math.MaxUint64)
		if err == nil && next.Kept {
			err = errSnapshotMoved
		}
		return err
	}
	return q, err
}

// addBlobs puts into a store, which no one has open, the blobs that it may lack: its snapshot is older than they are.
func (c clustered) addBlobs(ctx context.Context, row *store.QueueRow, path string, id queue.Identity, pace func(int) error) (err error) {
	to, err := store.Open(ctx, path, store.Options{Identity: id})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return copyBlobs(ctx, c.blobs(row), &to.Blobs, row.Shard, pace)
}

// copyBlobs puts the blobs of a shard's inserts from one place into another. A blob that is deleted meanwhile was of an insert that failed,
// or a newer snapshot has it: then the cut has moved.
func copyBlobs(ctx context.Context, from, to blobs.Blobs, shard queue.ShardID, pace func(int) error) error {
	return blobs.Each(ctx, from, blobs.Prefix(shard), func(b blobs.Blob) error {
		content, err := blobs.All(ctx, from, b.Key)
		if errors.Is(err, blobs.ErrMissing) {
			return nil
		}
		if err == nil {
			err = to.Put(ctx, b.Key, content)
		}
		return errors.Join(err, pace(len(content)))
	})
}
