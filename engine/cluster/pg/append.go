package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/quern-queue/quern/engine/cluster/handle"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// partBytes is the part of a batch that one row takes. A statement is in memory several times, here and in the database.
const partBytes = 4 << 20

const (
	// The head moves only if the journal ends where the writer expects, with the batches that it knows. Any other writer gets no row: it
	// waits for a commit that is under way, and then looks again.
	headSQL = `h AS (UPDATE journal SET tail = tail + 1, sum = $4, bytes = bytes + $7
	WHERE id = $1 AND tail = $2 AND sum = $3 RETURNING tail)
INSERT INTO batch (journal, n, part, rest, sum, bytes) SELECT $1, h.tail, 0, $6, $4, $5 FROM h`
	appendSQL        = "WITH " + headSQL
	appendRelaxedSQL = "WITH d AS (SELECT set_config('synchronous_commit', 'off', true)), " + headSQL + ", d"

	partSQL = "INSERT INTO batch (journal, n, part, rest, sum, bytes) VALUES ($1, $2, $3, $4, $5, $6)"

	// A batch that Look finds may not be on a standby yet, or not even on the disk, because it became visible when its wait was cancelled.
	// This commit is behind it: once this commit is durable, so is the batch.
	confirmSQL = `UPDATE journal SET confirmed = confirmed + 1
WHERE id = $1 AND EXISTS (SELECT FROM batch WHERE journal = $1 AND n = $2 AND part = 0 AND batch.sum = $3)`

	lookSQL = `SELECT j.tail, j.sum, (SELECT b.sum FROM batch b WHERE b.journal = $1 AND b.n = $2 AND b.part = 0)
FROM journal j WHERE j.id = $1`
)

// Judge implements handle.Database.
func (l *log) Judge(err error) (silent bool, final error) {
	if err == nil {
		return false, nil
	}
	switch classOf(err) {
	case unknown:
		return true, nil
	case refused:
		return false, explain(err)
	case noRoom:
		return false, full(err)
	case corrupted:
		return false, l.damaged("cannot be written: " + err.Error())
	case undone:
	}
	return false, nil
}

// Grew implements handle.Database.
func (l *log) Grew(bytes int) {
	l.mu.Lock()
	l.written += int64(bytes)
	l.mu.Unlock()
	l.b.hub.grew(l.id)
}

// Put implements handle.Database.
func (l *log) Put(ctx context.Context, a *handle.Batch) (fits bool, err error) {
	rows := int64(0)
	err = l.b.once(ctx, l.b.pool, len(a.Bytes), func(ctx context.Context, conn *pgx.Conn) (err error) {
		rows, err = l.put(ctx, conn, a)
		return err
	})
	return rows == 1, err
}

// put writes a batch behind those that this handle knows. It writes no rows if the journal does not end with them.
func (l *log) put(ctx context.Context, conn *pgx.Conn, a *handle.Batch) (rows int64, err error) {
	sql := appendSQL
	l.mu.Lock()
	if l.durability == queue.Relaxed {
		sql = appendRelaxedSQL
	}
	l.mu.Unlock()
	first := func(on statement) (int64, error) {
		part := a.Bytes[:min(len(a.Bytes), partBytes)]
		if part == nil {
			part = []byte{}
		}
		return exec(ctx, conn, on, sql, l.id, int64(a.Expect), a.Before[:], a.Sum[:], part, partsAfter(a.Bytes), int64(len(a.Bytes)))
	}
	if len(a.Bytes) <= partBytes {
		return first(conn)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	if rows, err = first(tx); err != nil || rows == 0 {
		return 0, err
	}
	for i, b := 1, a.Bytes[partBytes:]; len(b) > 0; i++ {
		part := b[:min(len(b), partBytes)]
		if _, err := exec(ctx, conn, tx, partSQL, l.id, int64(a.Expect)+1, i, partsAfter(b), a.Sum[:], part); err != nil {
			return 0, err
		}
		b = b[len(part):]
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, err
	}
	return 1, warning(conn)
}

// partsAfter is how many rows follow the first one of these bytes.
func partsAfter(b []byte) int { return max(0, (len(b)-1)/partBytes) }

// Look implements handle.Database.
func (l *log) Look(ctx context.Context, tail journal.Position, sum journal.Sum) (found handle.Found, err error) {
	err = l.b.once(ctx, l.b.pool, 0, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := exec(ctx, conn, conn, confirmSQL, l.id, int64(tail+1), sum[:])
		if found.Written = rows == 1; err != nil || found.Written {
			return err
		}
		var end, next []byte
		err = conn.QueryRow(ctx, lookSQL, l.id, int64(tail+1)).Scan(&found.Tail, &end, &next)
		switch {
		case errorIsNoRows(err):
			return l.deleted()
		case err != nil:
			return err
		}
		copy(found.Sum[:], end)
		if next != nil {
			found.Next = new(journal.Sum)
			copy(found.Next[:], next)
		}
		return nil
	})
	return found, err
}
