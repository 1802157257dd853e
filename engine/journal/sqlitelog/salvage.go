package sqlitelog

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Batch is a batch as it stands in a file that may be damaged.
type Batch struct {
	Position journal.Position
	Bytes    []byte
	Damage   string // why it cannot be used; "": it is whole
}

// Salvage gives fn the batches behind a position, in order, of a journal that no one else
// has open and that may be damaged. Where SQLite cannot go on, fn gets one damaged batch,
// and then those that can be read from the journal's end backwards. A missing batch is not reported.
// The error is one of fn or of ctx.
func Salvage(ctx context.Context, path string, after journal.Position, fn func(Batch) error) error {
	for {
		var stop error
		err := sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error {
			b := Batch{Position: journal.Position(row.Int(0)), Bytes: row.Blob(2)}
			if b.Position <= after {
				return nil // a damaged page has it in a wrong place, as the query asked for later batches
			}
			if new(Log).checksum(b.Position, b.Bytes) != int32(row.Int(1)) {
				b.Damage = "its checksum does not match"
			}
			stop = fn(b)
			after = b.Position
			return stop
		}, "SELECT n, crc, bytes FROM batch WHERE n > ? ORDER BY n", int64(min(after, math.MaxInt64)))
		if stop = errors.Join(stop, ctx.Err()); err == nil || stop != nil {
			return stop
		}
		if err := fn(Batch{Position: after + 1, Damage: "cannot be read: " + err.Error()}); err != nil {
			return err
		}
		next := firstBehind(ctx, path, after+1)
		if next == 0 {
			return ctx.Err()
		}
		after = next - 1
	}
}

// firstBehind is the first batch behind a position that SQLite comes to from the journal's
// end; 0: there is none.
func firstBehind(ctx context.Context, path string, after journal.Position) (first journal.Position) {
	_ = sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error { // its error is that SQLite cannot read all of them
		first = journal.Position(row.Int(0))
		return nil
	}, "SELECT n FROM batch WHERE n > ? ORDER BY n DESC", int64(min(after, math.MaxInt64)))
	return first
}

// Verify reads a whole journal that no one has open, also batches that no start needs any more. It
// reports batches that do not match their checksums, and batches that do not follow the one before
// them. It returns how many batches it compared.
func Verify(ctx context.Context, path string, tell func(sqlitedb.Damage)) (batches int64, err error) {
	damaged := map[int64]bool{}
	batches, err = sqlitedb.Verify(ctx, path, []sqlitedb.Summed{{Table: "batch", Columns: "n, bytes"}},
		func(d sqlitedb.Damage) {
			damaged[d.Row] = true
			tell(d)
		})
	if err != nil || damaged[0] { // then SQLite itself cannot read it
		return batches, err
	}
	verifyChain(ctx, path, func(row int64) {
		if !damaged[row] {
			tell(sqlitedb.Damage{Table: "batch", Row: row,
				Detail: "does not follow the batch before it: its sum does not match"})
		}
	})
	return batches, ctx.Err()
}

// verifyChain reports batches that do not follow the one before them. The first one cannot be checked.
func verifyChain(ctx context.Context, path string, tell func(row int64)) {
	var last int64
	var before []byte
	_ = sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error { // unreadable rows were reported
		n, sum := row.Int(0), row.Blob(1)
		if last > 0 && len(before) == len(journal.Sum{}) {
			want := journal.Sum(before).Next(journal.Position(n), row.Blob(2))
			if n != last+1 || !slices.Equal(sum, want[:]) {
				tell(n)
			}
		}
		last, before = n, sum
		return nil
	}, "SELECT n, sum, bytes FROM batch ORDER BY n")
}
