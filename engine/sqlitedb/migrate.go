package sqlitedb

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
)

// migrate brings the file from a version to the newest one, in one transaction: one that is cut off leaves the file as it was. The row in
// table identity is written with it, as a log that begins has to hold that.
func (c *Conn) migrate(k *Kind, from uint32) error {
	if from == k.Version() {
		return nil
	}
	m, err := c.begunMark()
	if err != nil {
		return err
	}
	err = c.Tx(func() error {
		if m.found {
			if err := c.putRow(&m); err != nil {
				return err
			}
		}
		for _, sql := range k.Migrations[from-1:] {
			if err := c.Exec(sql); err != nil {
				return err
			}
		}
		return c.setVersion(k)
	})
	if err != nil {
		err = fmt.Errorf("migrate from version %d to %d: %w", from, k.Version(), err)
	}
	return err
}

func (c *Conn) setVersion(k *Kind) error {
	return c.Exec(fmt.Sprintf("PRAGMA user_version = %d", k.Version()))
}

// SQL opens the database at path through database/sql, with one connection, for reading all of a file that may be damaged; the caller
// closes it. It is not for anything that runs often.
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

// KeepLog holds the log of a file while SQL opens and closes it. Of a file that was in use when its server ended the next open asks
// for the log, which SQLite would delete when the other closes the file. Close ends it.
func KeepLog(path string) (*Conn, error) {
	c, err := dial(path, "mode=rw")
	if err != nil {
		return nil, err
	}
	m, err := c.mark() // SQLite opens the log when it is first read
	if err == nil && m.step != 0 {
		m.step = 0 // the other lets SQLite copy the log back by itself
		err = c.putRow(&m)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
