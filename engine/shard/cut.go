package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/store"
)

// Cuts makes copies of a shard that serves.
type Cuts struct{ s *Shard }

// Cut is a shard as the end of the process at one moment would have left it: the store of that moment, and the journal up to the tail that
// it had then. A start recovers from it as after any crash.
//
// The two have to be of the very same moment. A journal that goes on behind the store would tell of contents that were written to the
// store later; one that ends before it would not have what the store's rows hold.
type Cut struct {
	Store        *store.Cut
	Checkpointed journal.Position // the rows of the store are complete up to here
	UpTo         journal.Position // the journal ends here

	journal journal.Journal
	release func()
}

// Prepare prepares a cut. What the journal holds from now on is held until Close; commits go on.
func (c Cuts) Prepare() (*Cut, error) {
	s := c.s
	s.mu.Lock()
	err, log := s.usable(), s.journal
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	cut := &Cut{journal: log, release: log.Hold()}
	if cut.Store, err = store.CutStore(s.store); err != nil {
		cut.release()
		return nil, err
	}
	return cut, nil
}

// Take makes now the moment of the cut.
func (c *Cut) Take(ctx context.Context) error {
	err := c.Store.Take(func() (err error) {
		c.UpTo, err = c.journal.Tail(ctx)
		return err
	})
	if err == nil {
		c.Checkpointed, err = c.Store.Checkpointed()
	}
	return err
}

// After is what the journal of the cut begins behind: what came before is in the rows of the store, but for the last batch, see replay.
func (c *Cut) After() journal.Position { return max(c.Checkpointed, 1) - 1 }

// Batches calls fn for the batches of the journal, in order. fn may be slow: no commit waits for it.
func (c *Cut) Batches(ctx context.Context, fn func(journal.Position, []byte) error) error {
	last := c.After()
	err := c.journal.Read(ctx, last, func(position journal.Position, batch []byte) error {
		if position > c.UpTo {
			return errCutEnds
		}
		last = position
		return fn(position, batch)
	})
	if err != nil && !errors.Is(err, errCutEnds) {
		return err
	}
	if last != c.UpTo {
		return fmt.Errorf("shard: cut: the journal was read up to batch %d, not %d: it was opened again meanwhile", last, c.UpTo)
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
