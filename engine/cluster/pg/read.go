package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/quern-queue/quern/engine/journal"
)

// One statement of a Read takes at most this many rows, and no further one once they have this many bytes.
const (
	readRows  = 256
	readBytes = 1 << 20
)

// pageSQL reads the rows behind a row, the beginning and the end of the journal at that moment, and the sum up to the batch in front.
const pageSQL = `SELECT t.upto, t.sum, j.bytes, t.bytes, f.sum, p.n, p.part, p.rest, p.sum, p.bytes
FROM journal j JOIN trimmed t ON t.journal = j.id
LEFT JOIN batch f ON f.journal = j.id AND f.n = $2 AND f.part = 0
LEFT JOIN (SELECT n, part, rest, sum, bytes,
		sum(octet_length(bytes)) OVER (ORDER BY n, part ROWS UNBOUNDED PRECEDING) - octet_length(bytes) AS before
	FROM batch WHERE journal = $1 AND (n, part) > ($2, $3) ORDER BY n, part LIMIT $4) p ON p.before < $5
WHERE j.id = $1 ORDER BY p.n, p.part`

// page is the result of one statement.
type page struct {
	found bool             // the journal is there
	upTo  journal.Position // the last batch that is trimmed
	base  *journal.Sum     // of the chain up to the batch behind which it was read; nil: there is no such batch
	parts []part
}

// part is a row of a batch.
type part struct {
	pos     journal.Position
	n, rest int
	sum     journal.Sum
	bytes   []byte
}

// place is how far a Read got: the last row, and the chain up to the last whole batch.
type place struct {
	pos     journal.Position // the last whole batch
	sum     *journal.Sum     // nil: not known yet
	partial []byte           // of the batch behind it, in parts
	parts   int              // how many these are
}

// Read implements journal.Journal.
func (l *log) Read(ctx context.Context, after journal.Position, fn func(journal.Position, []byte) error) error {
	l.Resolve(ctx)
	at := place{pos: after}
	for {
		p, err := l.page(ctx, at)
		if err != nil {
			return err
		}
		if err := l.Gone(p.upTo, at.pos); err != nil {
			return err
		}
		if at.sum == nil {
			at.sum = p.base
		}
		if at.sum == nil || len(p.parts) == 0 {
			return nil
		}
		for i := range p.parts {
			batch, whole, err := l.join(&at, &p.parts[i])
			if err != nil {
				return err
			}
			if whole {
				if err := fn(at.pos, batch); err != nil {
					return err
				}
			}
		}
	}
}

// page reads the rows behind a place.
func (l *log) page(ctx context.Context, at place) (p page, err error) {
	pos, row := at.pos, 1<<30 // behind all its parts
	if at.parts > 0 {
		pos, row = at.pos+1, at.parts-1
	}
	err = l.b.patiently(ctx, readBytes+partBytes, func(ctx context.Context, conn *pgx.Conn) error {
		p = page{}
		rows, err := conn.Query(ctx, pageSQL, l.id, int64(pos), row, readRows, readBytes)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := l.scan(rows, pos, &p); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err == nil && !p.found {
		err = l.deleted()
	}
	return p, err
}

// scan takes one row of a page.
func (l *log) scan(rows pgx.Rows, after journal.Position, p *page) error {
	var upToSum, base, sum, bytes []byte
	var written, gone int64
	var n *journal.Position
	var number, rest *int
	if err := rows.Scan(&p.upTo, &upToSum, &written, &gone, &base, &n, &number, &rest, &sum, &bytes); err != nil {
		return err
	}
	if p.found = true; base == nil && p.upTo == after {
		base = upToSum
	}
	if base != nil {
		p.base = new(journal.Sum)
		if err := l.sumOf(p.base, base, after); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.written, l.gone = max(l.written, written), max(l.gone, gone)
	l.mu.Unlock()
	if n == nil {
		return nil
	}
	x := part{pos: *n, n: *number, rest: *rest, bytes: bytes}
	p.parts = append(p.parts, x)
	return l.sumOf(&p.parts[len(p.parts)-1].sum, sum, x.pos)
}

// join takes the next row. whole: the row completes a batch, and the place is behind it.
func (l *log) join(at *place, p *part) (batch []byte, whole bool, err error) {
	if p.pos != at.pos+1 || p.n != at.parts {
		return nil, false, l.damaged(fmt.Sprintf("has no part %d of batch %d, but part %d of batch %d", at.parts, at.pos+1, p.n, p.pos))
	}
	if len(at.partial)+len(p.bytes) > journal.MaxBatchBytes {
		return nil, false, l.damaged(fmt.Sprintf("has a batch %d of more than %d bytes", p.pos, journal.MaxBatchBytes))
	}
	batch = p.bytes
	if p.rest > 0 || at.parts > 0 {
		at.partial = append(at.partial, p.bytes...)
		at.parts++
		batch = at.partial
	}
	if p.rest > 0 {
		return nil, false, nil
	}
	sum := at.sum.Next(p.pos, batch)
	if sum != p.sum {
		return nil, false, l.damaged(fmt.Sprintf("has a batch %d that does not follow the one before it: its sum does not match", p.pos))
	}
	if err := l.Learn(p.pos, sum); err != nil {
		return nil, false, err
	}
	*at = place{pos: p.pos, sum: &sum}
	return batch, true, nil
}

// errorIsNoRows says that a query found nothing.
func errorIsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
