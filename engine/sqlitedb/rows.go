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
	return errors.Join(eachRow(ctx, db, fn, query, args), db.Close())
}

// StillRows is Rows for a database as it was when its log was last copied back. It writes nothing, also no file beside it.
func StillRows(ctx context.Context, path string, fn func(Row) error, query string, args ...any) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: full, RawQuery: "mode=ro&immutable=1"}).String())
	if err != nil {
		return err
	}
	return errors.Join(eachRow(ctx, db, fn, query, args), db.Close())
}

func eachRow(ctx context.Context, db *sql.DB, fn func(Row) error, query string, args []any) error {
	list, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer list.Close()
	names, err := list.Columns()
	if err != nil {
		return err
	}
	for list.Next() {
		row, into := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		if err := list.Scan(into...); err != nil {
			return err
		}
		values := make(Row, len(row))
		for i := range row {
			values[i] = row[i]
		}
		if err := fn(values); err != nil {
			return err
		}
	}
	return list.Err()
}
