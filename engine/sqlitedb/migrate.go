package sqlitedb

import (
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
)

// SQL opens the database at path through database/sql, with one connection, for a migration tool; the caller closes it. It is
// not for anything that runs often.
func SQL(path string) (*sql.DB, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	name := url.URL{Scheme: "file", Path: full, RawQuery: "mode=rw&_synchronous=FULL&_txlock=immediate"}
	db, err := sql.Open("sqlite3", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// KeepLog holds the log of a file while a migration opens and closes it. Of a file that was in use when its server ended the next open asks
// for the log, which SQLite would delete when the migration closes the file. Close ends it.
func KeepLog(path string) (*Conn, error) {
	c, err := dial(path, "mode=rw")
	if err != nil {
		return nil, err
	}
	m, err := c.mark() // SQLite opens the log when it is first read
	if err == nil && m.step != 0 {
		err = c.writeStep(0) // the migration lets SQLite copy the log back by itself
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
