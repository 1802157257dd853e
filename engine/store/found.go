package store

import (
	"context"
	"errors"
	"math"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Found is what a store that may be damaged has of submissions: one that is open, some that ended, or why something cannot be read.
type Found struct {
	Open   checkpoint.Row // with an id
	Ended  []checkpoint.Ended
	Damage string // with the table and the row; "": none
}

// Submissions gives fn what the store at path, which no one else has open and which may be damaged, has of submissions. Where SQLite
// cannot go on, fn is told of it, and gets what can be read from the table's end backwards. The error is one of fn or of ctx.
func Submissions(ctx context.Context, path string, fn func(Found) error) error {
	err := around(ctx, path, "SELECT s.seq, s.id, s.crc, s.spec, p.crc, p.state FROM submission s LEFT JOIN progress p USING (seq) "+
		"WHERE s.seq > ? ORDER BY s.seq", func(row sqlitedb.Row, damage string) error {
		if damage != "" {
			return fn(Found{Damage: "table submission: " + damage})
		}
		r, err := (&Store{path: path}).rowOf(row)
		if err != nil {
			return fn(Found{Open: r, Damage: err.Error()})
		}
		return fn(Found{Open: r})
	})
	if err != nil {
		return err
	}
	gone := map[int64][]byte{}
	_ = sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error { // without a span all of its page is told
		if s, err := readSpan(row.Int(0), row.Blob(1)); err == nil {
			gone[s.page] = s.gone
		}
		return nil
	}, "SELECT n, bytes FROM history_span")
	return around(ctx, path, "SELECT n, crc, bytes FROM history_page WHERE n > ? ORDER BY n", func(row sqlitedb.Row, damage string) error {
		if damage != "" {
			return fn(Found{Damage: "table history_page: " + damage})
		}
		s := Found{}
		list, err := endedPage(row.Blob(2))
		switch {
		case sum(0).number(row.Int(0)).bytes(row.Blob(2)).stored() != row.Int(1):
			s.Damage = (&Store{path: path}).damaged("history_page", row.Int(0)).Error()
		case err != nil:
			s.Damage = err.Error()
		default:
			bits := gone[row.Int(0)]
			for i := range list {
				if i/8 >= len(bits) || bits[i/8]&(1<<(i%8)) == 0 {
					s.Ended = append(s.Ended, list[i])
				}
			}
		}
		return fn(s)
	})
}

// around calls fn for the rows of a query by their first column. Where it cannot go on, fn is told why, once.
func around(ctx context.Context, path, query string, fn func(row sqlitedb.Row, damage string) error) error {
	var stop error
	after := int64(math.MinInt64)
	err := sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error {
		after = row.Int(0)
		stop = fn(row, "")
		return stop
	}, query, after)
	if stop = errors.Join(stop, ctx.Err()); err == nil || stop != nil {
		return stop
	}
	if err := fn(nil, "cannot be read: "+err.Error()); err != nil {
		return err
	}
	_ = sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error { // its error is that SQLite cannot read all of them
		stop = fn(row, "")
		return stop
	}, query+" DESC", after)
	return errors.Join(stop, ctx.Err())
}
