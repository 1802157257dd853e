package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// partBytes is what one row takes of a batch: a statement is several times in memory here and in the database.
const partBytes = 4 << 20

const (
	// The head moves only if the journal ends where the writer knows it to end, with the batches that it knows. All others get no row.
	// They wait for one that is about to commit, and then look again.
	headSQL = `h AS (UPDATE journal SET tail = tail + 1, sum = $4, bytes = bytes + $7
	WHERE id = $1 AND tail = $2 AND sum = $3 RETURNING tail)
INSERT INTO batch (journal, n, part, rest, sum, bytes) SELECT $1, h.tail, 0, $6, $4, $5 FROM h`
	appendSQL        = "WITH " + headSQL
	appendRelaxedSQL = "WITH d AS (SELECT set_config('synchronous_commit', 'off', true)), " + headSQL + ", d"

	partSQL = "INSERT INTO batch (journal, n, part, rest, sum, bytes) VALUES ($1, $2, $3, $4, $5, $6)"

	// A batch that is found may not be on a standby yet, or not even on the disk: it became visible when its wait was cancelled. This
	// commit is behind it, so once it is durable the batch is.
	confirmSQL = `UPDATE journal SET confirmed = confirmed + 1
WHERE id = $1 AND EXISTS (SELECT FROM batch WHERE journal = $1 AND n = $2 AND part = 0 AND batch.sum = $3)`

	lookSQL = `SELECT j.tail, j.sum, (SELECT b.sum FROM batch b WHERE b.journal = $1 AND b.n = $2 AND b.part = 0)
FROM journal j WHERE j.id = $1`
)

// appending is an append that may take several tries.
type appending struct {
	expect journal.Position
	batch  []byte
	before journal.Sum
	sum    journal.Sum
	level  queue.Durability
	tried  bool // a try was made, of which the outcome is not known
}

// Append implements journal.Journal.
func (l *log) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(batch) > journal.MaxBatchBytes {
		return 0, fmt.Errorf("pg: append: a batch of %d bytes; at most %d are taken", len(batch), journal.MaxBatchBytes)
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	a := appending{expect: expect, batch: batch}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		done, err := l.try(ctx, &a)
		switch {
		case done:
			l.b.hub.grew(l.id)
			_, _ = l.reclaim(ctx) // the next append tries again
			return expect + 1, nil
		case errors.Is(err, journal.ErrConflict), errors.Is(err, errClosed):
			return 0, err
		case a.tried: // nothing is certain before a batch is behind the tail
		case classOf(err) == refused:
			return 0, explain(err)
		case classOf(err) == noRoom:
			return 0, full(err)
		case classOf(err) == corrupted:
			return 0, l.damaged("cannot be written: " + err.Error())
		}
		select {
		case <-ctx.Done():
			return 0, l.undecided(&a, err, ctx.Err())
		case <-l.b.ctx.Done():
			return 0, l.undecided(&a, err, errClosed)
		case <-time.After(pause):
		}
	}
}

// undecided is the error of an append that may not go on.
func (l *log) undecided(a *appending, err, end error) error {
	if !a.tried {
		return fmt.Errorf("pg: append: nothing was written: %w (%w)", end, err)
	}
	return fmt.Errorf("pg: append: %w (%w): %w", journal.ErrUnknown, end, err)
}

// try makes one try. An error that is no conflict asks for another one.
func (l *log) try(ctx context.Context, a *appending) (done bool, err error) {
	if err := l.resolve(ctx); err != nil {
		return false, l.refuse(err)
	}
	if done, err := l.begin(a); done || err != nil {
		return done, err
	}
	rows := int64(0)
	err = l.b.once(ctx, l.b.pool, len(a.batch), func(ctx context.Context, conn *pgx.Conn) (err error) {
		rows, err = l.put(ctx, conn, a)
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && rows == 1:
		l.tail, l.sum, l.ghost = a.expect+1, a.sum, nil
		l.written += int64(len(a.batch))
		return true, nil
	case err == nil && l.ghost != nil:
		return false, errors.New("a batch came behind the tail while its outcome was looked for")
	case err == nil:
		l.refused = true
		return false, fmt.Errorf("pg: append: journal %s does not end with batch %d as this writer knows it: %w",
			l.name, a.expect, journal.ErrConflict)
	case classOf(err) == unknown:
		sum := a.sum
		l.ghost, a.tried = &sum, true
	}
	return false, err
}

// begin prepares a try, unless the journal is known to end elsewhere. done: because an earlier try of the append was written.
func (l *log) begin(a *appending) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return false, errClosed
	case a.tried && l.tail == a.expect+1 && l.sum == a.sum:
		l.written += int64(len(a.batch))
		return true, nil
	case a.expect != l.tail:
		return false, fmt.Errorf("pg: append: the last batch of journal %s that is known is %d, not %d: %w",
			l.name, l.tail, a.expect, journal.ErrConflict)
	}
	a.before, a.sum, a.level = l.sum, l.sum.Next(a.expect+1, a.batch), l.durability
	return false, nil
}

// refuse notes that another writer has the journal.
func (l *log) refuse(err error) error {
	if errors.Is(err, journal.ErrConflict) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.refused = true
	}
	return err
}

// put writes a batch behind those that this handle knows; no rows: the journal does not end with them.
func (l *log) put(ctx context.Context, conn *pgx.Conn, a *appending) (rows int64, err error) {
	sql := appendSQL
	if a.level == queue.Relaxed {
		sql = appendRelaxedSQL
	}
	first := func(on statement) (int64, error) {
		part := a.batch[:min(len(a.batch), partBytes)]
		if part == nil {
			part = []byte{}
		}
		return exec(ctx, conn, on, sql, l.id, int64(a.expect), a.before[:], a.sum[:], part, partsAfter(a.batch), int64(len(a.batch)))
	}
	if len(a.batch) <= partBytes {
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
	for i, b := 1, a.batch[partBytes:]; len(b) > 0; i++ {
		part := b[:min(len(b), partBytes)]
		if _, err := exec(ctx, conn, tx, partSQL, l.id, int64(a.expect)+1, i, partsAfter(b), a.sum[:], part); err != nil {
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

// resolve finds out what became of a batch whose outcome is not known, if there is one. A batch that it finds is durable when it returns.
func (l *log) resolve(ctx context.Context) error {
	l.mu.Lock()
	tail, sum, ghost := l.tail, l.sum, l.ghost
	l.mu.Unlock()
	if ghost == nil {
		return nil
	}
	next := tail + 1
	return l.b.once(ctx, l.b.pool, 0, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := exec(ctx, conn, conn, confirmSQL, l.id, int64(next), ghost[:])
		if err != nil {
			return err
		}
		if rows == 1 {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.tail, l.sum, l.ghost = next, *ghost, nil
			return nil
		}
		var end journal.Position
		var endSum, nextSum []byte
		err = conn.QueryRow(ctx, lookSQL, l.id, int64(next)).Scan(&end, &endSum, &nextSum)
		switch {
		case errorIsNoRows(err):
			return l.deleted()
		case err != nil:
			return err
		case end == tail && string(endSum) == string(sum[:]):
			return nil // it has not come so far
		case end > tail && nextSum == nil:
			return fmt.Errorf("batch %d is trimmed, so no one can tell whether it is the one that was tried", next)
		case end > tail && string(nextSum) == string(ghost[:]):
			return fmt.Errorf("batch %d came while it was looked for", next)
		}
		return fmt.Errorf("pg: append: journal %s ends at batch %d, and this writer knows another batch %d: %w",
			l.name, end, tail, journal.ErrConflict)
	})
}
