package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

var _ journal.Journal = (*log)(nil)

// log is a handle of a journal.
type log struct {
	b    *Backend
	id   int32
	name string
	turn chan struct{} // held by the one who appends or trims, which may take long

	mu         sync.Mutex // of what follows; never held during a statement
	tail       journal.Position
	sum        journal.Sum
	ghost      *journal.Sum     // of the chain with a batch behind the tail whose outcome is not known; nil: there is none
	low        journal.Position // rows up to here are gone
	trimmed    journal.Position // batches up to here are not needed
	wanted     journal.Position // what Trim was told; trimmed is behind it while a reader holds what it reads
	holds      int
	refused    bool // an append was: what is trimmed is another writer's affair
	closed     bool
	durability queue.Durability
	written    int64 // bytes of all batches that there ever were
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
	l := &log{b: b, name: name, turn: make(chan struct{}, 1)}
	err := b.patiently(ctx, 0, func(ctx context.Context, conn *pgx.Conn) error {
		var sum []byte
		err := conn.QueryRow(ctx, openSQL, name).Scan(&l.id, &l.tail, &sum, &l.written, &l.low, &l.gone)
		switch {
		case errorIsNoRows(err):
			return &final{fmt.Errorf("pg: journal %s: %w", name, cluster.ErrNoJournal)}
		case err != nil:
			return err
		}
		return l.sumOf(&l.sum, sum, l.tail)
	})
	l.trimmed = l.low
	if err != nil {
		return nil, err
	}
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

// deleted is the error of a handle of which the journal was deleted.
func (l *log) deleted() error {
	return fmt.Errorf("pg: journal %s was deleted: %w", l.name, journal.ErrConflict)
}

func (l *log) damaged(reason string) error { return l.b.damaged("journal " + l.name + " " + reason) }

// learn takes in that the journal has a batch. It is a conflict when this handle knows another one. While the outcome of an append is not
// known it learns nothing: the batch that is read may be the one that was tried, and is not durable before resolve has confirmed it.
func (l *log) learn(at journal.Position, sum journal.Sum) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case at == l.tail && sum != l.sum:
		return fmt.Errorf("pg: read: batch %d of journal %s is another one: %w", at, l.name, journal.ErrConflict)
	case at > l.tail && l.ghost == nil:
		l.tail, l.sum = at, sum
	}
	return nil
}

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

// Hold implements journal.Journal.
func (l *log) Hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holds--
		l.letGo()
	})
}

// letGo takes what Trim was told as trimmed, unless a reader holds it.
func (l *log) letGo() {
	if l.holds == 0 {
		l.trimmed = max(l.trimmed, l.wanted)
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

// closing bounds how long a Close trims.
const closing = 10 * time.Second

// Close implements journal.Journal. What it cannot trim now, a later Trim deletes.
func (l *log) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	for more, err := true, error(nil); more && err == nil; {
		more, err = l.reclaim(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}
