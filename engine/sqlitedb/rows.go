package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
)

// Rows runs a query on a database that no one has open, and calls fn for each row until an error.
func Rows(ctx context.Context, path string, fn func(Row) error, query string, args ...any) error {
	db, err := SQL(path)
	if err != nil {
		return err
	}
	return errors.Join(EachRow(ctx, db, fn, query, args...), db.Close())
}

// StillRows is Rows for a database as it was when its log was last copied back. It writes nothing, and no file beside the database.
func StillRows(ctx context.Context, path string, fn func(Row) error, query string, args ...any) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: full, RawQuery: "mode=ro&immutable=1"}).String())
	if err != nil {
		return err
	}
	return errors.Join(EachRow(ctx, db, fn, query, args...), db.Close())
}

// Asked is a database, or a transaction of one.
type Asked interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// EachRow runs a query and calls fn for each row until an error.
func EachRow(ctx context.Context, db Asked, fn func(Row) error, query string, args ...any) error {
	return eachRow(ctx, db, func(_ []string, row Row) error { return fn(row) }, query, args...)
}

// eachRow is EachRow with the names of the columns. fn may keep the row.
func eachRow(ctx context.Context, db Asked, fn func(columns []string, row Row) error, query string, args ...any) error {
	list, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer list.Close()
	names, err := list.Columns()
	if err != nil {
		return err
	}
	into := make([]any, len(names))
	for list.Next() {
		row := make(Row, len(names))
		for i := range row {
			into[i] = (*any)(&row[i])
		}
		if err := list.Scan(into...); err != nil {
			return err
		}
		if err := fn(names, row); err != nil {
			return err
		}
	}
	return list.Err()
}
