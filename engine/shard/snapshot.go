package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/shard/cuts"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/store"
)

// With snapshots, the store is a cache: a copy of it is kept elsewhere, and the journal has everything after the copy.
// Three rules make that true. Every byte that a client brings goes through the journal, or is in a blob that the
// journal names and that is kept beside the copies until one of them has it. A snapshot counts from the op on that
// names it, which is appended when the copy is durable, so a writer that was deposed cannot publish one. And the
// journal is trimmed no further than the newest snapshot.

// Snapshots keeps copies of a shard's store where the loss of the store does not reach them.
type Snapshots interface {
	// Save makes a copy of a store durable, and returns the op that names it.
	Save(ctx context.Context, of *store.Cut, epoch uint32, at journal.Position) (journal.Snapshot, error)
	// Has says whether a copy is there.
	Has(s journal.Snapshot) (bool, error)
	// Keep removes all copies that are older than one.
	Keep(s journal.Snapshot) error
}

// snapshotBytes is how much the journal has behind the newest snapshot before the next one, or half the store if that
// is more: so the copied bytes stay in proportion to the journaled ones.
const snapshotBytes = 64 << 20

// copies is the shard's knowledge of the copies of its store.
type copies struct {
	kept  bool          // snapshots are kept
	bytes atomic.Int64  // journaled behind the newest snapshot
	lacks atomic.Bool   // the store could not be made again: the journal was trimmed, and no snapshot has those batches
	rests atomic.Uint64 // the position of the newest snapshot, or of the one being made; the journal behind it stays
}

// snapshotter decides when a snapshot is made, and makes it beside the commits and the checkpoints.
//
//	journal   ... | named in ops ───────────────────────────────────────► tail
//	              ▲ newest snapshot: the copy has everything before
//	              └ the journal is trimmed up to here, and no further
type snapshotter struct {
	*copies
	shell.Shell
	snapshotMeans
	making sync.Mutex     // held while one is made
	ended  sync.WaitGroup // for a stop, which ends a snapshot under way: the next snapshot removes the unfinished file
}

// snapshotMeans are the dependencies of snapshots beside the shard.
type snapshotMeans struct {
	options *Options
	alive   context.Context           // until the shard closes
	journal func() journal.Journal    // the mutex is held
	since   func() int64              // bytes that were journaled since the last checkpoint began
	cut     func() (*cuts.Cut, error) // begins a copy of the store
}

func (p *snapshotter) note(bytes int) {
	if p.kept {
		p.bytes.Add(int64(bytes) + batchCost)
	}
}

// findCopies finds out, at a start, how much the journal has behind the newest snapshot, and the blobs that it names
// there; nil: there is no snapshot, so they are not known.
func (p *Prepared) findCopies(ctx context.Context) (names map[string]bool, err error) {
	newest := p.parts.snapshots.Newest()
	if p.begun != nil {
		newest = *p.begun
	}
	rests := newest.Kept
	if newest.Key != "" {
		if rests, err = p.options.Copies.Snapshots.Has(newest); err != nil {
			return nil, err
		}
	}
	var bytes int64
	names = map[string]bool{}
	of := contents.NamesIn(p.options.ID, func(key string) { names[key] = true })
	err = p.journal.Read(ctx, max(newest.Position, 1)-1, func(at journal.Position, batch []byte) error {
		bytes += int64(len(batch)) + batchCost
		if at <= newest.Position {
			return nil
		}
		return journal.Decode(batch, func(queue.Time) {}, of)
	})
	lacks := !rests || errors.Is(err, journal.ErrTrimmed)
	switch {
	case lacks:
		newest.Position, names = math.MaxUint64, nil
	case err != nil:
		return nil, err
	}
	p.copies.bytes.Store(bytes)
	p.copies.lacks.Store(lacks)
	p.copies.rests.Store(uint64(newest.Position))
	return names, nil
}

// ofCopies is the op about snapshots with which a start begins. For a new queue it says that the journal has
// everything, and for a queue that no longer keeps snapshots, it says so. nil: there is nothing to say.
func (p *Prepared) ofCopies() *journal.Snapshot {
	switch {
	case p.before != nil:
	case p.copies.kept && p.m.AppliedAt == 0:
		return &journal.Snapshot{Kept: true}
	case !p.copies.kept && p.parts.snapshots.Newest().Kept:
		return &journal.Snapshot{}
	}
	return nil
}

// needless is the position up to which the journal may be trimmed when the rows of the store are true up to upTo. The
// batch at upTo stays, as a replay reads the epoch from it.
func (c *copies) needless(upTo journal.Position) journal.Position {
	if c.kept {
		upTo = min(upTo, journal.Position(c.rests.Load()))
	}
	return max(upTo, 1) - 1
}

// checkpointed begins a snapshot when one is due behind a checkpoint, unless one is being made. The goroutine that
// makes checkpoints calls it, so no other checkpoint trims the journal meanwhile.
func (p *snapshotter) checkpointed(upTo journal.Position) {
	if !p.kept || !p.due() || !p.making.TryLock() {
		return
	}
	if p.lacks.Load() {
		p.rests.Store(uint64(upTo)) // the new snapshot needs the journal behind this checkpoint
	}
	p.ended.Go(func() {
		defer p.making.Unlock()
		if err := p.make(p.alive); err != nil && p.alive.Err() == nil {
			p.options.Logger.Error("a snapshot failed; the server tries again after the next checkpoint", "queue",
				p.options.Queue, "error", err)
		}
	})
}

func (p *snapshotter) due() bool {
	least := p.options.Copies.SnapshotBytes
	switch {
	case least < 0:
		return true
	case least == 0:
		least = snapshotBytes
	}
	return p.lacks.Load() || p.bytes.Load() >= max(least, p.Store().Size()/2)
}

// make copies the store, publishes the copy, and trims the journal up to it.
func (p *snapshotter) make(ctx context.Context) error {
	made, err := p.copy(ctx)
	if err != nil || made.Position == 0 {
		return err
	}
	p.bytes.Store(p.since())
	p.lacks.Store(false)
	before := p.rests.Swap(uint64(made.Position))
	var log journal.Journal
	p.Look(func(*machine.Machine) { log = p.journal() })
	if err := p.dropBlobs(ctx, log, journal.Position(before), made.Position); err != nil {
		return err
	}
	if err := log.Trim(ctx, p.needless(made.Position)); err != nil {
		return err
	}
	p.options.Logger.Info("a snapshot was made", "queue", p.options.Queue, "key", made.Key, "bytes", made.Size,
		"position", made.Position)
	return p.options.Copies.Snapshots.Keep(made)
}

// errEnough ends the reading of a journal at the last wanted batch.
var errEnough = errors.New("shard: no more is wanted")

// dropBlobs deletes the blobs of inserts behind one position and up to another: a snapshot has their bytes. The next
// start sweeps the blobs that a crash left.
func (p *snapshotter) dropBlobs(ctx context.Context, log journal.Journal, after, upTo journal.Position) (err error) {
	o := p.options
	names := contents.NamesIn(o.ID, func(key string) { err = errors.Join(err, o.Copies.Blobs.Delete(ctx, key)) })
	read := log.Read(ctx, max(after, 1)-1, func(at journal.Position, batch []byte) error {
		if at > upTo {
			return errEnough
		}
		return journal.Decode(batch, func(queue.Time) {}, names)
	})
	if errors.Is(read, errEnough) {
		read = nil
	}
	return errors.Join(err, read)
}

// copy makes a snapshot and appends its op. Position 0: nothing is in the store yet.
func (p *snapshotter) copy(ctx context.Context) (made journal.Snapshot, err error) {
	cut, err := p.cut()
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, cut.Close()) }()
	if err := cut.Take(ctx); err != nil || cut.Checkpointed == 0 {
		return made, err
	}
	var epoch uint32
	p.Look(func(m *machine.Machine) { epoch = m.Epoch })
	if made, err = p.options.Copies.Snapshots.Save(ctx, cut.Store, epoch, cut.Checkpointed); err != nil {
		return made, fmt.Errorf("saving it: %w", err)
	}
	return made, shell.Change(p, func(m *machine.Machine, now queue.Time) error {
		m.Encode(now).Snapshot(&made)
		return nil
	})
}
