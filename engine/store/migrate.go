package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

//go:embed migrations
var migrations embed.FS

// What the two files are: "QrnS" and "QrnC", each at the version that its last migration sets as user_version.
var (
	storeKind     = sqlitedb.Kind{Name: "store", ApplicationID: 0x51726e53, Version: 10, Shrinks: true}
	catalogueKind = sqlitedb.Kind{Name: "catalogue", ApplicationID: 0x51726e43, Version: 11, Shrinks: true}
)

// ensure makes the database at path if there is none and brings an older one up to date. goose runs only then: an ordinary
// start reads one number from the file's header.
func ensure(ctx context.Context, path string, kind sqlitedb.Kind, by sqlitedb.Owner, steps fs.FS) error {
	exists, err := sqlitedb.Exists(path)
	if err != nil {
		return err
	}
	if !exists {
		return sqlitedb.Create(path, kind, func(temporary string) error { return migrate(ctx, temporary, steps) })
	}
	version, err := sqlitedb.Version(path, kind, by)
	if err != nil || version == kind.Version {
		return err
	}
	kept, err := sqlitedb.KeepLog(path)
	if err != nil {
		return err
	}
	if err := errors.Join(migrate(ctx, path, steps), kept.Close()); err != nil {
		return fmt.Errorf("migrate %s from version %d to %d: %w", path, version, kind.Version, err)
	}
	if version, err = sqlitedb.Version(path, kind, by); err == nil && version != kind.Version {
		err = fmt.Errorf("migrate %s: it is at version %d afterwards, want %d", path, version, kind.Version)
	}
	return err
}

// migrate runs the steps that the database has not seen, each in a transaction of its own.
func migrate(ctx context.Context, path string, steps fs.FS) error {
	db, err := sqlitedb.SQL(path)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, steps)
	if err == nil {
		_, err = provider.Up(ctx)
	}
	return errors.Join(err, db.Close())
}

func stepsOf(kind sqlitedb.Kind) (fs.FS, error) {
	steps, err := fs.Sub(migrations, "migrations/"+kind.Name)
	if err != nil {
		return nil, errors.Join(errors.New("the migrations are not in the program"), err)
	}
	return steps, nil
}
