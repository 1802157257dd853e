package store

// Giving room back to the disk. SQLite keeps the pages of deleted rows in a list of free ones. To
// give them back it moves pages from the end of the file into free ones, which costs writes. So
// some stay free for what comes next, and on a full disk nearly none.

import (
	"context"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Free pages are kept for what comes next, up to a quarter of what the file holds or freeBytes,
// if that is more. On a full disk others need the room: then as good as none are kept.
const (
	freeBytes      = 16 << 20
	freeBytesTight = 1 << 20
)

// Space is the room that a store has inside its file.
type Space struct {
	s    *Store
	free atomic.Int64
}

// Shrink has the file give free room back to the disk, about `most` bytes in one
// transaction; more says that there is more to give back. `tight` says that the disk is
// full. Other writes wait for one call no longer than for each other.
func (p *Space) Shrink(ctx context.Context, tight bool, most int64) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	err = p.s.writing(func(w *writer) (err error) {
		more, err = shrink(w.conn, tight, most)
		if err == nil {
			_, free, unknown := w.conn.Usage()
			p.free.Store(free)
			err = unknown
		}
		return err
	})
	return more, wrap("shrink", err)
}

// Free is how many bytes of the file were free inside it when Shrink was called last:
// inserts have this room also on a full disk.
func (p *Space) Free() int64 { return p.free.Load() }

// Shrink is that of the catalogue.
func (c *Catalogue) Shrink(tight bool, most int64) (more bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	more, err = shrink(c.conn, tight, most)
	return more, wrap("shrink", err)
}

func shrink(conn *sqlitedb.Conn, tight bool, most int64) (more bool, err error) {
	used, free, err := conn.Usage()
	if err != nil {
		return false, err
	}
	keep := max(freeBytes, used/4)
	if tight {
		keep = freeBytesTight
	}
	if free > keep {
		more, err = conn.GiveBack(min(most, free-keep))
		more = more && free-most > keep
	}
	if err == nil && !more {
		err = conn.CutFile()
	}
	return more, err
}
