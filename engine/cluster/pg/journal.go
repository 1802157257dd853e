package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/handle"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

var (
	_ journal.Journal = (*log)(nil)
	_ handle.Database = (*log)(nil)
)

// log is a handle of a journal. Its other half, handle.Handle, is common to all databases. It calls Put, Look and Delete.
type log struct {
	*handle.Handle
	b    *Backend
	id   int32
	name string

	mu         sync.Mutex // of what follows; never held during a statement
	durability queue.Durability
	written    int64 // bytes of all batches ever written
	gone       int64 // of those that were trimmed
}

const (
	makeSQL = `WITH j AS (INSERT INTO journal (name, tail) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id, tail)
INSERT INTO trimmed (journal, upto) SELECT id, tail FROM j`

	openSQL = `SELECT j.id, j.tail, j.sum, j.bytes, t.upto, t.bytes FROM journal j JOIN trimmed t ON t.journal = j.id WHERE j.name = $1`
)

// MakeJournal implements cluster.Backend.
func (b *Backend) MakeJournal(ctx context.Context, name string, after journal.Position) error {
	if err := cluster.CheckName(name); err != nil {
		return fmt.Errorf("pg: a journal: %w", err)
	}
	return b.patiently(ctx, 0, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := exec(ctx, conn, conn, makeSQL, name, int64(after))
		return err
	})
}

// Journals implements cluster.Backend. One statement sees one moment of the database.
func (b *Backend) Journals(ctx context.Context) (ends map[string]journal.Position, err error) {
	err = b.patiently(ctx, 0, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT name, tail FROM journal")
		if err != nil {
			return err
		}
		ends = map[string]journal.Position{}
		var name string
		var tail journal.Position
		_, err = pgx.ForEachRow(rows, []any{&name, &tail}, func() error {
			ends[name] = tail
			return nil
		})
		return err
	})
	return ends, err
}

// open opens a handle of a journal.
func (b *Backend) open(ctx context.Context, name string) (*log, error) {
	l := &log{b: b, name: name}
	o := handle.Options{Name: name, Database: l, FirstPause: firstPause, MaxWait: longestPause, Ended: b.ctx.Done()}
	err := b.patiently(ctx, 0, func(ctx context.Context, conn *pgx.Conn) error {
		var sum []byte
		err := conn.QueryRow(ctx, openSQL, name).Scan(&l.id, &o.Tail, &sum, &l.written, &o.Low, &l.gone)
		switch {
		case errorIsNoRows(err):
			return &final{fmt.Errorf("pg: journal %s: %w", name, cluster.ErrNoJournal)}
		case err != nil:
			return err
		}
		return l.sumOf(&o.Sum, sum, o.Tail)
	})
	if err != nil {
		return nil, err
	}
	l.Handle = handle.New(o)
	return l, nil
}

// sumOf takes a sum out of a row.
func (l *log) sumOf(sum *journal.Sum, b []byte, at journal.Position) error {
	if len(b) != len(sum) {
		return &final{l.damaged(fmt.Sprintf("has no sum of its batches up to %d", at))}
	}
	copy(sum[:], b)
	return nil
}

// deleted is the error of a handle whose journal was deleted.
func (l *log) deleted() error {
	return fmt.Errorf("pg: journal %s was deleted: %w", l.name, journal.ErrConflict)
}

func (l *log) damaged(reason string) error { return l.b.damaged("journal " + l.name + " " + reason) }

// Tail implements journal.Journal.
func (l *log) Tail(ctx context.Context) (tail journal.Position, err error) {
	err = l.b.patiently(ctx, 0, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, "SELECT tail FROM journal WHERE id = $1", l.id).Scan(&tail)
		if errorIsNoRows(err) {
			return &final{l.deleted()}
		}
		return err
	})
	return tail, err
}

// Wait implements journal.Journal.
func (l *log) Wait(ctx context.Context, after journal.Position) error {
	for {
		grown := l.b.hub.next(l.id)
		tail, err := l.Tail(ctx)
		switch {
		case err == nil && tail > after:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case l.b.ctx.Err() != nil:
			return errClosed
		case err != nil && (classOf(err) == refused || errors.Is(err, journal.ErrConflict)):
			return err
		}
		l.b.listen()
		select {
		case <-ctx.Done():
		case <-l.b.ctx.Done():
		case <-grown:
		case <-time.After(poll):
		}
	}
}

// SetDurability implements journal.Journal.
func (l *log) SetDurability(d queue.Durability) error {
	if durabilities[d] == "" {
		return fmt.Errorf("pg: there is no durability %d", d)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.durability = d
	return nil
}

// Size implements journal.Journal: the bytes of the batches that are there, as far as this handle knows.
func (l *log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written - l.gone
}
