package pg

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/journal"
)

// One statement trims at most this many rows, and no further one once they have this many bytes.
const (
	trimRows  = 64
	trimBytes = 8 << 20
)

// trimSQL deletes one slice of trimmed batches, if the journal ends as this writer knows it: positions mean something else in a journal
// that was taken back. It need not be durable: batches that come back are trimmed again.
const trimSQL = `WITH d AS (SELECT set_config('synchronous_commit', 'off', true)),
s AS (SELECT max(n) AS n FROM (
	SELECT n, sum(octet_length(bytes)) OVER (ORDER BY n, part ROWS UNBOUNDED PRECEDING) - octet_length(bytes) AS before
	FROM batch WHERE journal = $1 AND n <= $2 ORDER BY n, part LIMIT $5) x WHERE before < $6),
gone AS (DELETE FROM batch b USING s, d WHERE b.journal = $1 AND b.n <= s.n
	AND EXISTS (SELECT FROM journal WHERE id = $1 AND tail = $3 AND sum = $4) RETURNING b.n, b.part, b.sum, octet_length(b.bytes) AS size)
UPDATE trimmed t SET upto = s.n, sum = l.sum, bytes = t.bytes + (SELECT sum(size) FROM gone)
FROM s, gone l WHERE t.journal = $1 AND l.n = s.n AND l.part = 0 RETURNING t.upto, t.bytes`

// Delete implements handle.Database.
func (l *log) Delete(ctx context.Context, upTo, tail journal.Position, sum journal.Sum) (low journal.Position, err error) {
	gone := int64(0)
	err = l.b.once(ctx, l.b.pool, 0, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, trimSQL, l.id, int64(upTo), int64(tail), sum[:], trimRows, trimBytes).Scan(&low, &gone)
	})
	switch {
	case errorIsNoRows(err):
		return 0, nil // another writer has the journal, or another handle trimmed it
	case err != nil:
		return 0, explain(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = gone
	return low, nil
}

// endedSQL does not delete the row of a journal that has grown meanwhile.
const endedSQL = "DELETE FROM journal WHERE id = $1 AND tail = $2 AND sum = $3"

// deleteSQL deletes a journal. Its row in the table journal goes first: an append that is under way commits before it, or finds no row.
var deleteSQL = []string{
	"DELETE FROM journal WHERE id = $1", "DELETE FROM batch WHERE journal = $1", "DELETE FROM trimmed WHERE journal = $1",
}

// DeleteJournal implements cluster.Backend.
func (b *Backend) DeleteJournal(ctx context.Context, name string, still func() bool) error {
	l, err := b.open(ctx, name)
	switch {
	case errors.Is(err, cluster.ErrNoJournal):
		l, still = &log{b: b}, nil // an earlier call may have deleted it without being durable yet
	case err != nil:
		return err
	case still == nil:
		_ = errors.Join(l.Trim(ctx, math.MaxUint64), l.Reclaim(ctx)) // in slices; the rest goes at once
	case !still():
		return journal.ErrConflict
	}
	return b.patiently(ctx, int(l.Size()), func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
		if _, err := tx.Exec(ctx, barrierSQL); err != nil {
			return err
		}
		if still != nil {
			if err := l.end(ctx, conn, tx); err != nil {
				return err
			}
		}
		for _, sql := range deleteSQL {
			if _, err := exec(ctx, conn, tx, sql, l.id); err != nil {
				return err
			}
		}
		return errors.Join(tx.Commit(ctx), warning(conn))
	})
}

// end deletes the row of a journal that ends as it did when this handle was opened. An earlier try may have done it.
func (l *log) end(ctx context.Context, conn *pgx.Conn, tx pgx.Tx) error {
	tail, sum := l.End()
	rows, err := exec(ctx, conn, tx, endedSQL, l.id, int64(tail), sum[:])
	if err != nil || rows == 1 {
		return err
	}
	var grown bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM journal WHERE id = $1)", l.id).Scan(&grown); err != nil || !grown {
		return err
	}
	return &final{fmt.Errorf("pg: journal %s has grown, and is not deleted: %w", l.name, journal.ErrConflict)}
}
