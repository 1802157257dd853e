package pg

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/quern-queue/quern/engine/cluster"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate makes the schema, or brings it to the version of this program. If several nodes start at once, one does it, and the others wait.
func (b *Backend) migrate(ctx context.Context) error {
	conn, err := b.small.Acquire(ctx)
	if err != nil {
		return explain(err)
	}
	defer conn.Release()
	defer conn.Conn().Close(context.WithoutCancel(ctx)) // gives the lock back
	key := fnv.New64a()
	_, _ = key.Write([]byte("quern " + b.o.Schema))
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(key.Sum64())); err != nil {
		return explain(err)
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regnamespace($1) IS NOT NULL", b.o.Schema).Scan(&exists); err != nil {
		return explain(err)
	}
	if !exists { // IF NOT EXISTS needs the right to create even if nothing is created
		if _, err := conn.Exec(ctx, "CREATE SCHEMA "+b.o.Schema); err != nil {
			return explain(err)
		}
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("pg: %w", err)
	}
	db := stdlib.OpenDBFromPool(b.pool)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("pg: %w", err)
	}
	has, known, err := provider.GetVersions(ctx)
	if err != nil {
		return explain(err)
	}
	if has > known {
		return fmt.Errorf("%w: The schema %s has version %d, and this Quern knows versions up to %d: start the newer Quern that made it",
			cluster.ErrPromise, b.o.Schema, has, known)
	}
	if has < known {
		if _, err := provider.Up(ctx); err != nil {
			return explain(err)
		}
	}
	return nil
}
