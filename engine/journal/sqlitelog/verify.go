package sqlitelog

import (
	"context"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Verify reads all of a journal that no one has open, and tells what is damaged. It returns how many batches it compared.
func Verify(ctx context.Context, path string, tell func(sqlitedb.Damage)) (batches int64, err error) {
	return sqlitedb.Verify(ctx, path, []sqlitedb.Summed{{Table: "batch", Columns: "n, bytes"}}, tell)
}
