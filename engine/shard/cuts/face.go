// Package cuts is the part of a shard that makes copies of it while it serves, for backups.
package cuts

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/store"
)

// Cuts makes copies of a shard that serves.
type Cuts struct {
	shell.Shell
	Journal func() journal.Journal // which a reload opens again. The mutex is held
	// Still makes sure that the file of the store has all blobs that the journal names, until goOn is called. nil: it
	// always has them.
	Still func(context.Context) (goOn func(), err error)
}

// Cut is a shard as the end of the process at one moment would have left it: the store of
// that moment, and the journal up to the last batch that was applied then. A start
// recovers from it as after any crash.
//
// The two have to be of the very same moment. A journal that goes on behind the store would name blobs that were
// written to the store later; one that ends before it would lack ops that the store's rows have.
type Cut struct {
	Store *store.Cut
	Span

	still   func(context.Context) (goOn func(), err error)
	look    func(func(*machine.Machine))
	journal journal.Journal
	release func()
}

// Span is the part of the journal that is in a cut.
type Span struct {
	Checkpointed journal.Position // the rows of the store are complete up to here
	UpTo         journal.Position // the journal ends here
}

// Prepare prepares a cut. From now on, until Close, the journal is not trimmed; commits go on.
func (c Cuts) Prepare() (*Cut, error) {
	var log journal.Journal
	err := c.Locked(func(*machine.Machine, queue.Time) error {
		log = c.Journal()
		return nil
	})
	if err != nil {
		return nil, err
	}
	cut := &Cut{still: c.Still, look: c.Look, journal: log, release: log.Hold()}
	if cut.Store, err = store.CutStore(c.Store()); err != nil {
		cut.release()
		return nil, err
	}
	return cut, nil
}

// Take makes now the moment of the cut.
func (c *Cut) Take(ctx context.Context) error {
	if c.still != nil {
		goOn, err := c.still(ctx)
		if err != nil {
			return err
		}
		defer goOn()
	}
	err := c.Store.Take(func() error {
		// the store's writer waits meanwhile, so the journal, which may be on another machine, is not asked
		c.look(func(m *machine.Machine) { c.UpTo = m.AppliedAt })
		return nil
	})
	if err == nil {
		c.Checkpointed, err = c.Store.Checkpointed()
	}
	return err
}

// After is the position behind which the journal of the cut begins. The rows of the store have everything up to
// Checkpointed. That batch is in the cut too, because a replay reads the epoch from it.
func (s Span) After() journal.Position { return max(s.Checkpointed, 1) - 1 }

// Batches calls fn for the batches of the journal, in order. fn may be slow: no commit waits for it.
func (c *Cut) Batches(ctx context.Context, fn func(journal.Position, []byte) error) error {
	return c.Read(ctx, c.journal, fn)
}

// Read calls fn for the batches of a journal that a cut has.
func (s Span) Read(ctx context.Context, log journal.Journal, fn func(journal.Position, []byte) error) error {
	last := s.After()
	err := log.Read(ctx, last, func(position journal.Position, batch []byte) error {
		if position > s.UpTo {
			return errCutEnds
		}
		last = position
		return fn(position, batch)
	})
	if err != nil && !errors.Is(err, errCutEnds) {
		return err
	}
	if last != s.UpTo {
		return fmt.Errorf("shard: cut: the journal was read up to batch %d, not %d: it was opened again meanwhile",
			last, s.UpTo)
	}
	return nil
}

// errCutEnds ends the reading of a journal that has more than the cut.
var errCutEnds = errors.New("shard: the cut ends")

// Close lets the journal be trimmed, and the store cut its log short.
func (c *Cut) Close() error {
	c.release()
	return c.Store.Close()
}
