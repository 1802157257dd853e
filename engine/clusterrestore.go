package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/cuts"
	"github.com/quern-queue/quern/engine/store"
)

// ClusterRestore puts a backup into an empty cluster.
type ClusterRestore struct {
	Backend cluster.Backend
	Work    string           // an empty or missing folder with room for the data
	Now     func() time.Time // the wall clock
	// Silence waits until every node that runs must have beaten.
	Silence func(context.Context) error
}

// Run restores a backup and its increments, in their order, of a server that is alone or of a cluster. It refuses a cluster that has queues
// or of which a node runs, and changes nothing in the cluster before it has read and checked all of the backup. No node starts until it is
// done. A restore that was cut off begins again from nothing.
//
// The result is another server, as with Restore.
func (r *ClusterRestore) Run(ctx context.Context, from ...io.Reader) (*archive.Manifest, error) {
	begun, err := r.empty(ctx)
	if err != nil {
		return nil, err
	}
	m, err := Restore(ctx, r.Work, from...)
	if err != nil {
		return nil, err
	}
	if begun {
		if err := r.clear(ctx); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
	}
	if err := r.fill(ctx); err != nil {
		if errors.Is(err, journal.ErrConflict) {
			err = fmt.Errorf("another restore or a node was started meanwhile. Stop all nodes, and restore again: %w", err)
		}
		return nil, fmt.Errorf("restore: %w", err)
	}
	return m, nil
}

// empty refuses a cluster that is in use. begun: it has a part of a restore that was cut off.
func (r *ClusterRestore) empty(ctx context.Context) (begun bool, err error) {
	if err := r.idle(ctx); err != nil {
		return false, err
	}
	log, err := r.Backend.Journal(ctx, catalogueJournal)
	if errors.Is(err, cluster.ErrNoJournal) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	tail, err := log.Tail(ctx)
	if err != nil || tail == 0 {
		return false, err
	}
	begun, err = store.Restoring(ctx, log)
	if err == nil && !begun {
		err = errors.New("the cluster has queues already, and nothing was changed: choose another schema with --cluster-schema, or, " +
			"if nothing of them is needed, drop the schema in the database (DROP SCHEMA ... CASCADE)")
	}
	return begun, err
}

// idle refuses a cluster of which a node runs.
func (r *ClusterRestore) idle(ctx context.Context) error {
	before, err := r.Backend.Leases().Nodes(ctx)
	if err != nil || !slices.ContainsFunc(before, func(n cluster.Node) bool { return !n.Leaving }) {
		return err
	}
	if err := r.Silence(ctx); err != nil {
		return err
	}
	after, err := r.Backend.Leases().Nodes(ctx)
	for _, n := range after {
		if !slices.Contains(before, n) {
			return fmt.Errorf("the node %s of the cluster runs, and nothing was changed: stop all nodes, restore, and start them again",
				n.Name)
		}
	}
	return err
}

// clear deletes the parts of a restore that was cut off. The journal with its mark goes last.
func (r *ClusterRestore) clear(ctx context.Context) error {
	ends, err := r.Backend.Journals(ctx)
	for name := range ends {
		if name != catalogueJournal {
			err = errors.Join(err, r.Backend.DeleteJournal(ctx, name, nil))
		}
	}
	if err == nil {
		err = deleteBlobs(r.Backend.Blobs(), "", func(string) bool { return false })
	}
	if err == nil {
		err = r.Backend.DeleteJournal(ctx, catalogueJournal, nil)
	}
	return err
}

// fill moves the data directory in Work into the cluster.
func (r *ClusterRestore) fill(ctx context.Context) (err error) {
	if err := r.Backend.MakeJournal(ctx, catalogueJournal, 0); err != nil {
		return err
	}
	log, err := r.Backend.Journal(ctx, catalogueJournal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	catalogue, err := store.OpenCatalogue(ctx, filepath.Join(r.Work, catalogueFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, catalogue.Close()) }()
	move, err := store.BeginMove(ctx, log)
	if err != nil {
		return err
	}
	rows, err := catalogue.Queues()
	if err != nil {
		return err
	}
	id, err := catalogue.Identity()
	if err != nil {
		return err
	}
	for i := range rows {
		if err := r.queue(ctx, &rows[i], id.ForShard(rows[i].Shard)); err != nil {
			return fmt.Errorf("queue %s: %w", rows[i].Name, err)
		}
	}
	if err := catalogue.MoveTo(move); err != nil {
		return err
	}
	return move.End()
}

// queue moves the journal of a queue, and its store as a snapshot that the journal names at its end.
func (r *ClusterRestore) queue(ctx context.Context, row *store.QueueRow, id queue.Identity) (err error) {
	dir := filepath.Join(r.Work, "shards", fmt.Sprintf("%04d", row.Shard))
	from, err := sqlitelog.Open(ctx, filepath.Join(dir, journalFile), sqlitelog.Options{Shared: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	made, err := r.snapshot(ctx, row, id, dir)
	if err != nil {
		return err
	}
	after := cuts.Span{Checkpointed: made.Position}.After()
	if err := r.Backend.MakeJournal(ctx, shardJournal(row), after); err != nil {
		return err
	}
	to, err := r.Backend.Journal(ctx, shardJournal(row))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	last, err := copyJournal(ctx, from, to, after)
	if err != nil {
		return err
	}
	var enc journal.Encoder
	enc.Reset(last.epoch, last.at)
	enc.Snapshot(&made)
	_, err = store.AppendMoved(ctx, to, last.position, enc.Packed())
	return err
}

// lastBatch is the batch that the next one has to follow.
type lastBatch struct {
	position journal.Position
	epoch    uint32
	at       queue.Time
}

func copyJournal(ctx context.Context, from, to journal.Journal, after journal.Position) (last lastBatch, err error) {
	last.position = after
	return last, from.Read(ctx, after, func(position journal.Position, batch []byte) (err error) {
		if last.epoch, err = journal.Epoch(batch); err != nil {
			return fmt.Errorf("journal: batch %d: %w", position, err)
		}
		begun := func(at queue.Time) { last.at = at }
		if err := journal.Decode(batch, begun, new(snapshotFinder)); err != nil {
			return fmt.Errorf("journal: batch %d: %w", position, err)
		}
		last.position, err = store.AppendMoved(ctx, to, position-1, batch)
		return err
	})
}

// snapshot keeps the store in a folder as the newest snapshot of a queue.
func (r *ClusterRestore) snapshot(ctx context.Context, row *store.QueueRow, id queue.Identity, dir string) (made journal.Snapshot,
	err error) {
	of, err := store.Open(ctx, filepath.Join(dir, storeFile), store.Options{Identity: id})
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, of.Close()) }()
	cut, err := store.CutStore(of)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, cut.Close()) }()
	if err := cut.Take(func() error { return nil }); err != nil {
		return made, err
	}
	position, err := cut.Checkpointed()
	if err != nil {
		return made, err
	}
	if position == 0 { // the journal has everything from its beginning on, but for what is in blobs
		made = journal.Snapshot{Kept: true}
		return made, copyBlobs(ctx, &of.Blobs, blobsOf(r.Backend, row), row.Shard, newCopyPace(ctx, r.Now).done)
	}
	return snapshotsOf(r.Backend, row, id, r.Now, dir).Save(ctx, cut, 0, position)
}
