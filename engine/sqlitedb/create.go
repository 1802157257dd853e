package sqlitedb

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// Exists says whether there is a file at path. A write-ahead log without its database is a *queue.FormatError: a new database beside
// it would swallow the old log.
func Exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return false, &queue.FormatError{
			Path: path, Reason: "is missing, but its write-ahead log " + filepath.Base(path) + "-wal is there",
			Advice: "Restore both from a backup, or move the -wal file away to start with nothing",
		}
	}
	return false, nil
}

// Create makes a database at path, where none may be (see Exists). It appears whole, with its tables and version, or not at all. Create
// works under a temporary name, where `fill`, unless it is nil, may write into the tables. Then it syncs the file, renames it, and syncs
// the folder. Otherwise a crash could leave the rollback journal of the switch to WAL, which would undo everything that was written since.
func Create(path string, k Kind, fill func(temporary string) error) error {
	temporary := path + ".new"
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(temporary + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sqlitedb: create: %w", err)
		}
	}
	if err := prepare(temporary, &k, fill); err != nil {
		return fmt.Errorf("sqlitedb: create %s: %w", path, err)
	}
	if err := publish(temporary, path); err != nil {
		return fmt.Errorf("sqlitedb: create %s: %w", path, err)
	}
	return nil
}

// OpenUnfinished opens the database that Create is making, for its `fill`: nothing is checked yet.
func OpenUnfinished(temporary string) (*Conn, error) { return dial(temporary, "mode=rw") }

// dialNew opens a database where no file may be. SQLite would make the file readable for everybody. If the file is there, SQLite keeps its
// mode, and gives it to the -wal.
func dialNew(path string) (*Conn, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return dial(path, "mode=rw")
}

func prepare(temporary string, k *Kind, fill func(string) error) error {
	c, err := dialNew(temporary)
	if err != nil {
		return err
	}
	vacuum := "NONE" // which costs nothing
	if k.Shrinks {
		vacuum = "INCREMENTAL"
	}
	err = c.Exec(fmt.Sprintf("PRAGMA page_size = %d; PRAGMA auto_vacuum = %s; PRAGMA application_id = %d; PRAGMA journal_mode = WAL",
		k.pageSize(), vacuum, int32(k.ApplicationID)))
	for _, sql := range slices.Concat([]string{"BEGIN; " + identityTable, k.Schema}, k.Migrations) {
		if err == nil {
			err = c.Exec(sql)
		}
	}
	if err == nil {
		err = c.setVersion(k)
	}
	if err == nil {
		err = c.Exec("COMMIT")
	}
	if err = errors.Join(err, c.Close()); err != nil || fill == nil {
		return err
	}
	return fill(temporary)
}

func publish(temporary, path string) error {
	f, err := os.OpenFile(temporary, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := syncFolder(path); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncFolder(path)
}

func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// migrate brings the file from a version to the newest one, in one transaction: one that is cut off leaves the file as it was. The
// transaction also writes the row in table identity, which each new log must have.
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

// KeepLog holds the log of a file while SQL opens and closes the file. If the file was in use when its server ended, the next open needs
// the log, which SQLite would delete when SQL closes the file. Close ends the hold.
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
