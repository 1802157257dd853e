package sqlitedb

import (
	"database/sql"
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
