package pg

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/quern-queue/quern/engine/journal"
)

// An append of 5 KB to one journal, and for comparison a synced INSERT of the same bytes into PostgreSQL. They alternate, so that other
// load on the machine hits both.
func BenchmarkAppend(b *testing.B) {
	backend := begin(b, Options{})
	l := openLog(b, backend, "j")
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	const table = "bare_insert"
	if _, err := conn.Exec(ctx, "CREATE TABLE "+table+" (n bigint PRIMARY KEY, bytes bytea NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	defer server.Exec(b, "DROP TABLE "+table)
	batch := make([]byte, 5000)
	appended, inserted := int64(0), int64(0)
	const turn = 200
	run := func(b *testing.B, one func() error) {
		for b.Loop() {
			for range turn {
				if err := one(); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(turn*b.N)/b.Elapsed().Seconds(), "per_s")
	}
	for range 3 {
		b.Run("append", func(b *testing.B) {
			run(b, func() error {
				at, err := l.Append(ctx, journal.Position(appended), batch)
				appended = int64(at)
				return err
			})
		})
		b.Run("insert", func(b *testing.B) {
			run(b, func() error {
				inserted++
				_, err := conn.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, $2)", inserted, batch)
				return err
			})
		})
	}
}
