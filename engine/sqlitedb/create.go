package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
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

// Create makes a database at path, where none may be (see Exists): it appears whole, with its tables and version, or not at all. The
// work happens under a temporary name, where `fill`, unless it is nil, may write into the tables; then everything is
// synced, renamed and the folder synced again. Without the detour a crash could leave the rollback journal of the switch to
// WAL behind, which would undo everything that was written since.
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

// dialNew opens a database where no file may be. SQLite would make the file readable for everybody; it takes the mode of the one that is
// there, and gives it to the -wal.
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
