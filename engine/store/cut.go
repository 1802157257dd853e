package store

import (
	"context"
	"errors"
	"sync"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Cut is a file of this package as it is at one moment. The file is written beside it; its
// log grows until Close.
type Cut struct {
	snapshot *sqlitedb.Snapshot
	writer   *sync.Mutex
}

// CutStore prepares a cut of a store. It has no moment before Take.
func CutStore(s *Store) (*Cut, error) { return cutOf(s.path, Kind, &s.write.mu) }

// CutCatalogue prepares a cut of a catalogue. It has no moment before Take.
func CutCatalogue(c *Catalogue) (*Cut, error) { return cutOf(c.path, CatalogueKind, &c.mu) }

func cutOf(path string, kind sqlitedb.Kind, writer *sync.Mutex) (*Cut, error) {
	snapshot, err := sqlitedb.Prepare(path, kind)
	if err != nil {
		return nil, wrap("cut", err)
	}
	return &Cut{snapshot, writer}, nil
}

// Take makes now the moment of the cut, and calls `at` in it: the file is not written
// meanwhile. `at` must be quick.
func (c *Cut) Take(at func() error) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	if err := c.snapshot.Take(); err != nil {
		return wrap("cut", err)
	}
	return at()
}

// Checkpointed is up to which position of the journal the snapshot rows of a store are complete.
func (c *Cut) Checkpointed() (journal.Position, error) {
	n, err := c.snapshot.Int("SELECT position FROM folded WHERE one = 1")
	return journal.Position(n), wrap("cut", err)
}

// CopyTo makes a file of the cut at path, where none may be: one of this identity, that
// was closed in good order. It is not synced. pace is called after each few pages with how
// many bytes these were; an error of it ends the copy.
func (c *Cut) CopyTo(path string, id queue.Identity, pace func(bytes int) error) error {
	return wrap("cut", c.snapshot.CopyTo(path, id, pace))
}

// Close ends the cut.
func (c *Cut) Close() error { return wrap("cut", c.snapshot.Close()) }

// Assign gives a file of a data directory that is not in use another identity. A journal
// is such a file too.
func Assign(path string, id queue.Identity) error { return wrap("assign", sqlitedb.Assign(path, id)) }

// Renew makes the catalogue at path, which is not in use, that of another data directory.
// The secret of this name is forgotten: the next start draws a new one.
func Renew(ctx context.Context, path, secret string, id queue.Identity) error {
	c, err := OpenCatalogue(ctx, path)
	if err != nil {
		return err
	}
	drop, err := c.conn.Prepare("DELETE FROM secret WHERE name = ?")
	if err == nil {
		_, err = drop.Exec(secret)
	}
	if err = errors.Join(wrap("renew", err), c.Close()); err != nil {
		return err
	}
	return Assign(path, id)
}
