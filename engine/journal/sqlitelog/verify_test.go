package sqlitelog

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Verify reports a batch that does not match its checksum, and a whole one that belongs to another history, also before
// the batches that a start reads.
func TestVerify(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sql  string
		want []int64
	}{
		"whole":             {"UPDATE batch SET n = n", nil},
		"a byte":            {"UPDATE batch SET bytes = x'00' WHERE n = 2", []int64{2}},
		"another history":   {"UPDATE batch SET sum = zeroblob(16) WHERE n = 2", []int64{2, 3}},
		"one is missing":    {"DELETE FROM batch WHERE n = 3", []int64{4}},
		"the first trimmed": {"DELETE FROM batch WHERE n = 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			path := filepath.Join(t.TempDir(), "journal.db")
			l, err := Open(ctx, path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range journal.Position(5) {
				if _, err := l.Append(ctx, i, []byte{byte(i), 7}); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			db, err := sqlitedb.SQL(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(test.sql); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			var found []int64
			if _, err := Verify(ctx, path, func(d sqlitedb.Damage) { found = append(found, d.Row) }); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(found, test.want) {
				t.Errorf("damaged are the batches %v, want %v", found, test.want)
			}
		})
	}
}
