package sqlitedb

import (
	"database/sql"
	"net/url"
	"path/filepath"
)

// Migrating opens the database at path through database/sql, with one connection, for a migration tool. It is not for
// anything that runs often.
func Migrating(path string, run func(db *sql.DB) error) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	name := url.URL{Scheme: "file", Path: full, RawQuery: "mode=rw&_synchronous=FULL&_txlock=immediate"}
	db, err := sql.Open("sqlite3", name.String())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	err = run(db)
	if closing := db.Close(); err == nil {
		err = closing
	}
	return damage(path, err)
}
