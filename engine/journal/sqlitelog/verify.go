package sqlitelog

import (
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Verify reads all of a journal that no one has open, also batches that no start needs any
// more, and tells what is damaged: batches that are not what their checksums say, and such
// that do not follow the one before them. It returns how many batches it compared.
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

// verifyChain tells of batches that do not follow the one before them. Of the first one no one can say.
func verifyChain(ctx context.Context, path string, tell func(row int64)) {
	var last int64
	var before []byte
	_ = sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error { // what cannot be read was told of
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
