package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// A catalogue that several servers share is a journal of changes. The file is a copy that each server
// makes from it: a server appends a change first, and applies it when it has applied all changes before it. If one
// server refuses a change, all refuse it, as they have the same tables when they come to it.

// sharePatience is how long one change waits for the journal.
const sharePatience = 30 * time.Second

// conflictsMost is how often one change gives way to changes of other servers before it is refused.
const conflictsMost = 20

// shared is the journal of a catalogue. Its turn guards it, which is taken before the catalogue's mutex. A change that
// waits for the journal holds no mutex, so the tables can be read while the journal cannot be reached.
//
//	change ─► catch up ─► append at done+1 ─┬─ accepted ─► apply ─► done = its position
//	               ▲                        └─ conflict: another server was first
//	               └──────────────────────────────┘  at most conflictsMost times
//
// The tables are a function of the journal: each server applies all changes in one order, and a
// change that the tables refuse is refused by all of them alike. That is why a step must depend on
// nothing but its arguments and the tables.
type shared struct {
	turn   chan struct{} // has room for the one whose turn it is
	open   func(context.Context) (journal.Journal, error)
	log    journal.Journal
	done   journal.Position // changes up to here are in the tables
	seen   atomic.Uint64    // done, for those whose turn it is not
	others uint64           // changes of other servers that were done
	broken error            // the copy cannot follow the journal any more
}

// Share makes an empty catalogue the copy of a journal, and returns when it has all
// changes of that moment. From then on each change is in the journal before it is done.
// open opens a handle of the journal, each time a new one.
func (c *Catalogue) Share(ctx context.Context, open func(context.Context) (journal.Journal, error)) error {
	log, err := open(ctx)
	if err != nil {
		return wrap("share", err)
	}
	c.shared = &shared{turn: make(chan struct{}, 1), open: open, log: log}
	defer c.shared.begin(&c.mu)()
	return wrap("share", c.shared.catchUp(ctx, c))
}

// Follow applies the changes of other servers until ctx ends, and calls changed after them, without the mutex. It
// returns why it ended.
func (c *Catalogue) Follow(ctx context.Context, changed func()) error {
	end := c.shared.begin(&c.mu)
	notified := c.shared.others
	end()
	for {
		end = c.shared.begin(&c.mu)
		err := c.shared.catchUp(ctx, c)
		log, done, others := c.shared.log, c.shared.done, c.shared.others
		end()
		if err != nil {
			return wrap("follow", err)
		}
		if others != notified {
			notified = others
			changed()
		}
		if err := log.Wait(ctx, done); err != nil {
			return wrap("follow", err)
		}
	}
}

// CatchUp applies the changes of other servers up to this moment.
func (c *Catalogue) CatchUp(ctx context.Context) error {
	select {
	case c.shared.turn <- struct{}{}:
		defer func() { <-c.shared.turn }()
		return wrap("catch up", c.shared.catchUp(ctx, c))
	case <-ctx.Done():
		return wrap("catch up", ctx.Err())
	}
}

// Position is how far the tables have the journal of a shared catalogue. Servers whose positions are the same have the
// same tables.
func Position(c *Catalogue) uint64 { return c.shared.seen.Load() }

// reached notes that the tables have the changes up to a position.
func (s *shared) reached(at journal.Position) {
	s.done = at
	s.seen.Store(uint64(at))
}

// begin returns when it is the caller's turn to change the catalogue, until end is called. The caller does not hold
// mu, the catalogue's mutex. If the catalogue is not shared (nil), the caller holds mu until then.
func (s *shared) begin(mu *sync.Mutex) (end func()) {
	if s == nil {
		mu.Lock()
		return mu.Unlock
	}
	s.turn <- struct{}{}
	return func() { <-s.turn }
}

// table has fn use the tables between begin and end.
func (s *shared) table(mu *sync.Mutex, fn func() error) error {
	if s != nil {
		mu.Lock()
		defer mu.Unlock()
	}
	return fn()
}

// unshare lets go of the journal. It is the caller's turn.
func (c *Catalogue) unshare() error {
	if c.shared == nil {
		return nil
	}
	return c.shared.log.Close()
}

// catchUp applies the changes that the journal has and the tables do not. It is the caller's turn.
func (s *shared) catchUp(ctx context.Context, c *Catalogue) error {
	if s.broken != nil {
		return s.broken
	}
	err := s.log.Read(ctx, s.done, func(at journal.Position, batch []byte) error {
		if err := c.shared.table(&c.mu, func() error { return replayChange(c, at, batch) }); err != nil {
			return err
		}
		s.reached(at)
		s.others++
		return nil
	})
	if errors.Is(err, journal.ErrConflict) || errors.Is(err, journal.ErrTrimmed) {
		s.broken = fmt.Errorf("the journal of the catalogue is not the one that this server has followed: start the "+
			"server again: %w", err)
		return s.broken
	}
	if err != nil {
		return err
	}
	return c.shared.table(&c.mu, func() error {
		if c.restoring {
			return ErrRestoring
		}
		return nil
	})
}

// replayChange applies a change of the journal of a catalogue. The caller holds its mutex.
func replayChange(c *Catalogue, at journal.Position, batch []byte) error {
	if len(batch) == 0 { // an empty batch only makes those before it durable
		return nil
	}
	x, err := journal.DecodeChange(batch)
	if err == nil {
		_, err = c.apply(&x)
	}
	if err != nil && !refusal(err) {
		return fmt.Errorf("the change at position %d: %w", at, err)
	}
	return nil
}

// append appends a change to the journal behind all others, and applies it. It is the caller's turn.
func (c *Catalogue) append(x *journal.Change) (rows int64, err error) {
	s := c.shared
	ctx, stop := context.WithTimeout(context.Background(), sharePatience)
	defer stop()
	batch := journal.AppendChange(nil, x)
	for range conflictsMost {
		if err := c.shared.catchUp(ctx, c); err != nil {
			return 0, err
		}
		at, err := s.log.Append(ctx, s.done, batch)
		switch {
		case err == nil:
			err = c.shared.table(&c.mu, func() (err error) { rows, err = c.apply(x); return err })
			if err == nil || refusal(err) {
				s.reached(at)
				return rows, faster(err)
			}
			// Perhaps for want of room. A caller that makes room and tries again must not
			// make the change twice.
			return 0, fmt.Errorf("%w: it is in the journal, and not yet in the tables: %v", journal.ErrUnknown, err)
		case !errors.Is(err, journal.ErrConflict):
			return 0, err
		}
		// the old handle reads first: only it knows that the journal is the same one
		if err := errors.Join(c.shared.catchUp(ctx, c), s.reopen(ctx)); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%d other changes of the catalogue came before this one: %w", conflictsMost,
		journal.ErrConflict)
}

// reopen takes a new handle: one that was refused is not used for writing again.
func (s *shared) reopen(ctx context.Context) error {
	log, err := s.open(ctx)
	if err != nil {
		return err
	}
	old := s.log
	s.log = log
	return old.Close()
}

// refusal says that the tables refused a change, as they do at every server.
func refusal(err error) bool {
	return errors.Is(err, errNothingChanged) || excluded(err)
}

// excluded says that another change came first, and that the two exclude each other.
func excluded(err error) bool {
	return errors.Is(err, errOvertaken) || sqlitedb.ClassOf(err) == sqlitedb.Taken
}

// faster is the error of a change that the tables refused because another node has just made one that excludes it. The
// caller has looked whether there is such a thing, before the tables had the change of the other node.
func faster(err error) error {
	if !excluded(err) {
		return err
	}
	return &queue.Error{Code: queue.CodeConflict, Err: err, Message: "Another node of the cluster has just made a " +
		"change that excludes this one. Nothing was done. Read what is there now."}
}
