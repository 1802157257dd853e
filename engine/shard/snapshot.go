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
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// With snapshots, the store is a cache: a copy of it is kept elsewhere, and the journal has all that came after the copy. Three rules make
// that true. Every byte that a client brings goes through the journal, also what is too large for a shared batch. A snapshot counts from
// the op on that names it, which is appended when the copy is durable, so a writer that was deposed cannot publish one. And the journal is
// trimmed no further than the newest snapshot.

// Snapshots keeps copies of a shard's store where the loss of the store does not reach them.
type Snapshots interface {
	// Save makes a copy of a store durable, and returns the op that names it.
	Save(ctx context.Context, of *store.Cut, epoch uint32, at journal.Position) (journal.Snapshot, error)
	// Has says whether a copy is there.
	Has(s journal.Snapshot) (bool, error)
	// Keep removes all copies but one.
	Keep(s journal.Snapshot) error
}

// snapshotBytes is how much the journal has behind the newest snapshot before there is another one, if half the store is not more: what is
// copied stays in proportion to what is journaled.
const snapshotBytes = 64 << 20

// copies is what a shard knows of the copies of its store.
type copies struct {
	kept  bool          // snapshots are kept
	bytes atomic.Int64  // journaled behind the newest snapshot
	lacks atomic.Bool   // the store could not be made again: what is in no snapshot has been trimmed
	rests atomic.Uint64 // the position of the journal behind which all is needed, with the snapshot there
}

// snapshotter decides when a snapshot is made, and makes it beside the commits and the checkpoints.
type snapshotter struct {
	*copies
	s      *Shard
	making sync.Mutex     // held while one is made
	ended  sync.WaitGroup // a stop ends one that is being made: what there is of it the next one removes
}

func (p *snapshotter) note(bytes int) {
	if p.kept {
		p.bytes.Add(int64(bytes) + batchCost)
	}
}

// findCopies finds out, at a start, how much the journal has behind the newest snapshot.
func (p *Prepared) findCopies(ctx context.Context) error {
	newest := p.parts.snapshots.Newest()
	if p.begun != nil {
		newest = *p.begun
	}
	rests := newest.Kept
	if newest.Key != "" {
		var err error
		if rests, err = p.options.Snapshots.Has(newest); err != nil {
			return err
		}
	}
	var bytes int64
	err := p.journal.Read(ctx, max(newest.Position, 1)-1, func(_ journal.Position, batch []byte) error {
		bytes += int64(len(batch)) + batchCost
		return nil
	})
	lacks := !rests || errors.Is(err, journal.ErrTrimmed)
	switch {
	case lacks:
		newest.Position = math.MaxUint64
	case err != nil:
		return err
	}
	p.copies.bytes.Store(bytes)
	p.copies.lacks.Store(lacks)
	p.copies.rests.Store(uint64(newest.Position))
	return nil
}

// ofCopies is what a start says of snapshots before anything else happens: of a new queue that its journal has everything, and of one that
// kept snapshots when it does not keep them any more. nil: nothing.
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

// needless is up to where the journal may be trimmed when the rows of the store are true up to a position. The batch there stays, as a
// replay reads the epoch from it.
func (c *copies) needless(upTo journal.Position) journal.Position {
	if c.kept {
		upTo = min(upTo, journal.Position(c.rests.Load()))
	}
	return max(upTo, 1) - 1
}

// checkpointed begins a snapshot when one is due behind a checkpoint, unless one is being made. It is called by who makes checkpoints: no
// other one trims the journal meanwhile.
func (p *snapshotter) checkpointed(upTo journal.Position) {
	if !p.kept || !p.due() || !p.making.TryLock() {
		return
	}
	if p.lacks.Load() {
		p.rests.Store(uint64(upTo)) // what comes behind this checkpoint is needed with the snapshot that is made now
	}
	p.ended.Go(func() {
		defer p.making.Unlock()
		if err := p.make(p.s.alive); err != nil && p.s.alive.Err() == nil {
			p.s.options.Logger.Error("a snapshot failed; it is tried again after the next checkpoint", "queue", p.s.options.Queue,
				"error", err)
		}
	})
}

func (p *snapshotter) due() bool {
	least := p.s.options.SnapshotBytes
	switch {
	case least < 0:
		return true
	case least == 0:
		least = snapshotBytes
	}
	return p.lacks.Load() || p.bytes.Load() >= max(least, p.s.store.Size()/2)
}

// make copies the store, publishes the copy, and lets the journal forget what it has.
func (p *snapshotter) make(ctx context.Context) error {
	s := p.s
	made, err := p.copy(ctx)
	if err != nil || made.Position == 0 {
		return err
	}
	p.bytes.Store(s.checkpoints.bytes.Load())
	p.lacks.Store(false)
	p.rests.Store(uint64(made.Position))
	var log journal.Journal
	s.mu.held(func() { log = s.journal })
	if err := log.Trim(ctx, p.needless(made.Position)); err != nil {
		return err
	}
	s.options.Logger.Info("a snapshot was made", "queue", s.options.Queue, "key", made.Key, "bytes", made.Size, "position", made.Position)
	return s.options.Snapshots.Keep(made)
}

// copy makes a snapshot and appends its op. Position 0: nothing is in the store yet.
func (p *snapshotter) copy(ctx context.Context) (made journal.Snapshot, err error) {
	s := p.s
	cut, err := s.Cuts.Prepare()
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, cut.Close()) }()
	if err := cut.Take(ctx); err != nil || cut.Checkpointed == 0 {
		return made, err
	}
	var epoch uint32
	s.mu.held(func() { epoch = s.m.Epoch })
	if made, err = s.options.Snapshots.Save(ctx, cut.Store, epoch, cut.Checkpointed); err != nil {
		return made, fmt.Errorf("saving it: %w", err)
	}
	return made, s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
		m.Encode(now).Snapshot(&made)
		return m.Batch.Commit, nil
	})
}
