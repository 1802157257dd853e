package sqlitedb

import (
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
)

// Snapshot is a database as it was at one moment. Writers go on beside it; the log of the file cannot be cut short until Close.
type Snapshot struct{ conn *Conn }

// Prepare opens the database at path for a snapshot. It does not have its moment before Take.
func Prepare(path string, k Kind) (*Snapshot, error) {
	conn, err := Open(path, k, Options{ReadOnly: true})
	return &Snapshot{conn}, err
}

// Take makes now the moment of the snapshot: what is committed is in it.
func (s *Snapshot) Take() error {
	if err := s.conn.Exec("BEGIN"); err != nil {
		return err
	}
	_, err := s.conn.Int("SELECT count(*) FROM sqlite_schema") // SQLite takes its moment with the first read
	return err
}

// Int is the number in the first column of the first row, 0 when there is none.
func (s *Snapshot) Int(sql string) (int64, error) { return s.conn.Int(sql) }

// Close ends the snapshot.
func (s *Snapshot) Close() error { return s.conn.Close() }

// copyPages is how many pages are copied at once.
const copyPages = 64

// CopyTo makes a database of the snapshot at path, where no file may be: one of this identity, that was closed in good order. It is not
// synced: a caller that needs it after a power cut does that. pace is called after each few pages with how many bytes these were; an error
// of it ends the copy.
func (s *Snapshot) CopyTo(path string, id queue.Identity, pace func(bytes int) error) error {
	to, err := dialNew(path)
	if err != nil {
		return err
	}
	err = to.Exec("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF")
	if err == nil {
		err = s.copyPages(to, pace)
	}
	if err == nil {
		err = to.Assign(id)
	}
	return errors.Join(err, to.Close())
}

func (s *Snapshot) copyPages(to *Conn, pace func(bytes int) error) error {
	pageSize, err := s.conn.Int("PRAGMA page_size")
	if err != nil {
		return fmt.Errorf("sqlitedb: copy %s: %w", s.conn.path, err)
	}
	work, err := to.raw.Backup("main", s.conn.raw, "main")
	if err != nil {
		return fmt.Errorf("sqlitedb: copy %s: %w", s.conn.path, err)
	}
	for done := false; !done && err == nil; {
		if done, err = work.Step(copyPages); err == nil {
			err = pace(copyPages * int(pageSize))
		}
	}
	if err = errors.Join(err, work.Finish()); err != nil {
		return fmt.Errorf("sqlitedb: copy %s: %w", s.conn.path, damage(s.conn.path, err))
	}
	return nil
}

// Assign says that the file belongs to id, and was closed in good order by it.
func (c *Conn) Assign(id queue.Identity) error { return c.putRow(&mark{id: id}) }

// Assign makes the database at path, which is not in use and has no log, one of this identity that was closed in good order, durably.
func Assign(path string, id queue.Identity) error {
	c, err := dial(path, "mode=rw")
	if err != nil {
		return err
	}
	return errors.Join(c.Assign(id), c.Close())
}
