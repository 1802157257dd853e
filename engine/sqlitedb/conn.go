package sqlitedb

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/quern-queue/quern/engine/queue"
)

const (
	roomPage = 4096 // the unit of Options.MaxPages, whatever the pages of the file
	// The log is copied back when it has this many bytes of pages: it is fast to overwrite a short log in place.
	autoCheckpoint = 1000 * 4096
	// The log is cut to this when it begins again from its start. It only becomes longer than this while a reader, such as a backup, keeps
	// it from being copied back.
	mostLog = 4 * autoCheckpoint
)

// Options say how a database is opened.
type Options struct {
	Durability queue.Durability
	ReadOnly   bool // for a second connection beside the writer's
	Alone      bool // no other connection or process may have the file open, which saves the locking of every transaction
	// for a connection that serves from the file: the file is checked more closely, and has a mark that it is in use until it is closed.
	// nil: a further connection
	Owner    *Owner
	CacheKiB int // page cache of the connection; 0: 2,000
	MaxPages int // the file may not grow past this many times 4,096 bytes; 0: no bound. Tests make a full disk with it
}

// Conn is one connection. Only one goroutine at a time may use it: the caller has the lock.
type Conn struct {
	raw                      *sqlite3.SQLiteConn
	path                     string
	pageSize                 int64 // of the file, in bytes
	stmts                    []*Stmt
	begin, commit, rollback  *Stmt
	putMark                  *Stmt           // nil until it is needed
	beginReading, endReading *Stmt           // nil until they are needed
	lost                     error           // the reason why nothing is written any more: a failed sync, or Lose
	owed                     *queue.Identity // that Own had no room to write; nil: nothing is owed
	owned                    bool            // the file has the mark that it is in use, which Close has to remove
	closed                   bool
	room                     logRoom
	shrinks                  bool // Kind.Shrinks
	cut                      bool // the file may be longer than the database, see CutFile
	back                     backCopying
}

// Open opens an existing database of this kind. An owner brings one of an older version up to date. A file that is not ours, is damaged, or
// has a version that this program does not know gives a *queue.FormatError and stays as it was.
func Open(path string, k Kind, o Options) (*Conn, error) {
	var main mark
	var version uint32
	if !o.ReadOnly {
		var err error
		if version, main, err = k.inspect(path, o.Owner); err != nil {
			return nil, err
		}
	}
	mode := "mode=rw"
	if o.ReadOnly {
		mode = "mode=ro"
	}
	c, err := dial(path, mode)
	if err != nil {
		return nil, fmt.Errorf("sqlitedb: open %s: %w", path, damage(path, err))
	}
	c.shrinks, c.cut = k.Shrinks, !o.ReadOnly
	c.back.wasOpen = main.open || main.torn
	err = c.setUp(o)
	if err == nil && o.Owner != nil {
		err = c.migrate(&k, version)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("sqlitedb: open %s: %w", path, damage(path, err))
	}
	return c, nil
}

func dial(path, mode string) (*Conn, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	name := url.URL{Scheme: "file", Path: full, RawQuery: mode + "&_synchronous=FULL&_busy_timeout=2000"}
	raw, err := (&sqlite3.SQLiteDriver{}).Open(name.String())
	if err != nil {
		return nil, err
	}
	return &Conn{raw: raw.(*sqlite3.SQLiteConn), path: path}, nil
}

func (c *Conn) setUp(o Options) error {
	o.CacheKiB = cmp.Or(o.CacheKiB, 2000)
	if err := c.Exec(fmt.Sprintf("PRAGMA cache_size = -%d; PRAGMA temp_store = MEMORY", o.CacheKiB)); err != nil {
		return err
	}
	if o.ReadOnly {
		return c.Exec("PRAGMA query_only = 1")
	}
	if mode, err := c.text("PRAGMA journal_mode = WAL"); err != nil || mode != "wal" {
		return errors.Join(err, fmt.Errorf("journal_mode is %q, want wal", mode))
	}
	if o.Alone {
		// Only now, after SQLite has read the log. If it were set before, the index of the log would be in our own memory. It must outlive
		// the process in the -shm file, where the next start sees how much was committed.
		if mode, err := c.text("PRAGMA locking_mode = EXCLUSIVE"); err != nil || mode != "exclusive" {
			return errors.Join(err, fmt.Errorf("locking_mode is %q, want exclusive", mode))
		}
	}
	if o.Owner != nil {
		c.back.own = !o.Alone
		if err := c.openIndex(); err != nil {
			return err
		}
	}
	if err := c.setPages(); err != nil {
		return err
	}
	if err := c.limitLog(mostLog); err != nil {
		return err
	}
	if err := c.SetDurability(o.Durability); err != nil {
		return err
	}
	if o.MaxPages > 0 {
		if err := c.SetMaxPages(o.MaxPages); err != nil {
			return err
		}
	}
	for sql, stmt := range map[string]**Stmt{"BEGIN IMMEDIATE": &c.begin, "COMMIT": &c.commit, "ROLLBACK": &c.rollback} {
		var err error
		if *stmt, err = c.Prepare(sql); err != nil {
			return err
		}
	}
	return nil
}

// setPages reads the size of the file's pages, and sets when its log is copied back accordingly.
func (c *Conn) setPages() (err error) {
	if c.pageSize, err = c.Int("PRAGMA page_size"); err != nil {
		return err
	}
	want := autoCheckpoint / c.pageSize
	if c.back.own {
		c.back.least, want = uint32(want), 0
		c.back.due = c.back.least
	}
	pages, err := c.Int(fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", want))
	if err != nil || pages != want {
		return errors.Join(err, fmt.Errorf("wal_autocheckpoint is %d, want %d", pages, want))
	}
	return nil
}

// limitLog has the log cut to this many bytes when it begins again; -1: it is never cut.
func (c *Conn) limitLog(bytes int64) error {
	_, err := c.Int(fmt.Sprintf("PRAGMA journal_size_limit = %d", bytes))
	return err
}

// SetDurability sets whether a commit waits for the disk, and reads it back: the driver's own default in WAL mode is the
// weaker one, silently.
func (c *Conn) SetDurability(d queue.Durability) error {
	want := int64(2) // FULL: the log is synced at every commit
	if d == queue.Relaxed {
		want = 1 // NORMAL: it is synced before it is copied back
	}
	if err := c.Exec(fmt.Sprintf("PRAGMA synchronous = %d", want)); err != nil {
		return fmt.Errorf("sqlitedb: set durability: %w", err)
	}
	got, err := c.Int("PRAGMA synchronous")
	if err != nil {
		return fmt.Errorf("sqlitedb: set durability: %w", err)
	}
	if got != want {
		return fmt.Errorf("sqlitedb: set durability: synchronous is %d after it was set to %d", got, want)
	}
	return nil
}

// SetMaxPages bounds the file to n times 4,096 bytes, or to its present size if that is more; 0 lifts the bound. Tests make a full disk
// with it.
func (c *Conn) SetMaxPages(n int) error {
	pages := int64(0xfffffffe)
	if n > 0 {
		pages = int64(n) * roomPage / c.pageSize
	}
	_, err := c.Int(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
	return err
}

// Path is the file.
func (c *Conn) Path() string { return c.path }

// Size is the room of the database and its write-ahead log on disk, in bytes.
func Size(path string) (size int64) {
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(path + suffix); err == nil {
			size += info.Size()
		}
	}
	return size
}

// Exec runs statements without arguments, once. It is for set-up: statements that run often are prepared.
func (c *Conn) Exec(sql string) error {
	_, err := c.raw.Exec(sql, nil)
	return err
}

// Function makes fn a function of SQL, on this connection. It gets NULL, numbers, texts and blobs as nil, int64,
// float64, string and []byte, and its result may depend on nothing else.
func (c *Conn) Function(name string, fn func(args ...any) int64) error {
	return c.raw.RegisterFunc(name, fn, true)
}

// Int is the number in the first column of the first row, 0 when there is none.
func (c *Conn) Int(sql string) (n int64, err error) {
	err = c.first(sql, func(r Row) { n = r.Int(0) })
	return n, err
}

func (c *Conn) text(sql string) (text string, err error) {
	err = c.first(sql, func(r Row) { text = r.Text(0) })
	return text, err
}

func (c *Conn) first(sql string, fn func(Row)) error {
	rows, err := c.raw.Query(sql, nil)
	if err != nil {
		return err
	}
	values := make(Row, len(rows.Columns()))
	err = rows.Next(values)
	if err == nil {
		fn(values)
	} else if err == io.EOF {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// Tx runs fn in a transaction. An error of fn, or of the commit, rolls everything back and is returned.
func (c *Conn) Tx(fn func() error) error {
	if _, err := c.begin.Exec(); err != nil {
		return err
	}
	err := fn()
	if err == nil {
		if _, err = c.commit.Exec(); err == nil {
			return nil
		}
	}
	if !c.raw.AutoCommit() { // some failures have rolled back already
		if _, undo := c.rollback.Exec(); undo != nil {
			return fmt.Errorf("%v; rolling back failed: %w", err, undo) // the second failure decides the outcome
		}
	}
	return err
}

// Reading runs fn, which only reads. With several queries it uses one transaction, because SQLite locks and unlocks the log for each
// transaction, which takes as long as a short query.
func (c *Conn) Reading(several bool, fn func() error) error {
	if !several {
		return fn()
	}
	if c.beginReading == nil {
		for sql, stmt := range map[string]**Stmt{"BEGIN": &c.beginReading, "COMMIT": &c.endReading} {
			var err error
			if *stmt, err = c.Prepare(sql); err != nil {
				return err
			}
		}
	}
	if _, err := c.beginReading.Exec(); err != nil {
		return err
	}
	err := fn()
	_, ended := c.endReading.Exec()
	return errors.Join(err, ended)
}

// errClosed is the error of a statement of a closed connection. Without it, SQLite would read freed memory.
var errClosed = errors.New("sqlitedb: the connection is closed")

// Close ends the connection and its statements. The last connection to close copies the log back; an owner has to be the last. A second
// Close does nothing.
func (c *Conn) Close() error {
	if c.closed {
		return nil
	}
	c.disown()
	c.closed = true
	var problems []error
	for _, s := range c.stmts {
		problems = append(problems, s.raw.Close())
	}
	c.stmts = nil
	problems = append(problems, c.closePin())
	if c.room.file != nil {
		problems = append(problems, c.room.file.Close())
	}
	problems = append(problems, c.raw.Close())
	if c.back.index != nil {
		problems = append(problems, c.back.index.Close())
	}
	return errors.Join(problems...)
}

// Prepare prepares one statement; the connection closes it.
func (c *Conn) Prepare(sql string) (*Stmt, error) {
	raw, err := c.raw.Prepare(sql)
	if err != nil {
		return nil, fmt.Errorf("sqlitedb: prepare %q: %w", sql, damagedSchema(c.path, err))
	}
	s := &Stmt{conn: c, raw: raw.(*sqlite3.SQLiteStmt)}
	s.args = make([]driver.NamedValue, s.raw.NumInput())
	for i := range s.args {
		s.args[i].Ordinal = i + 1
	}
	c.stmts = append(c.stmts, s)
	return s, nil
}

// Stmt is a prepared statement of one connection.
type Stmt struct {
	conn *Conn
	raw  *sqlite3.SQLiteStmt
	args []driver.NamedValue // used again by every call
	row  Row
}

func (s *Stmt) bind(args []any) error {
	if len(args) != len(s.args) {
		return fmt.Errorf("sqlitedb: %d arguments for a statement that takes %d", len(args), len(s.args))
	}
	for i, a := range args {
		if b, ok := a.([]byte); ok && b == nil {
			a = []byte{} // an empty blob is not NULL
		}
		s.args[i].Value = a
	}
	return nil
}

// release forgets the arguments, so that large blobs are not kept alive by a statement.
func (s *Stmt) release() {
	for i := range s.args {
		s.args[i].Value = nil
	}
}

// Exec runs a statement that returns no rows. Arguments are int64, string, []byte or nil (NULL); they are not kept. Outside of Tx it is its
// own transaction, and durable when Exec returns, as far as the durability promises.
func (s *Stmt) Exec(args ...any) (changes int64, err error) {
	if err := s.conn.writable(); err != nil {
		return 0, err
	}
	if err := s.bind(args); err != nil {
		return 0, err
	}
	// Never a context that can be cancelled: the driver would start a goroutine per call, and an interrupted commit is neither
	// done nor not done.
	result, err := s.raw.ExecContext(context.Background(), s.args)
	s.release()
	if err != nil {
		return 0, s.conn.failed(err)
	}
	if s.conn.back.own && s.conn.raw.AutoCommit() {
		s.conn.copyLongBack()
	}
	return result.RowsAffected()
}

// writable says whether the connection may write. It first writes the identity and the number of the log, if the file must have them before
// any other write.
func (c *Conn) writable() error {
	switch {
	case c.lost != nil:
		return c.lost
	case c.closed:
		return errClosed
	case c.owed != nil:
		return c.ownOwed()
	case c.back.sealed:
		return c.beginLog()
	}
	return nil
}

// failed notes a failed sync. SQLite itself would simply go on, and the next sync may succeed although the pages of the failed one never
// reached the disk. So this connection writes no more.
func (c *Conn) failed(err error) error {
	if ClassOf(err) == SyncLost {
		c.lost = err
	}
	return damage(c.path, err)
}

// Lose makes every further write fail with this error.
func (c *Conn) Lose(cause error) {
	c.lost = cmp.Or(c.lost, cause)
}

// Query runs a statement and calls fn for each row until it returns false or an error. The row is valid during the call;
// blobs and texts in it are copies that may be kept. fn must not use the statement.
func (s *Stmt) Query(fn func(Row) (more bool, err error), args ...any) error {
	if s.conn.closed {
		return errClosed
	}
	if err := s.bind(args); err != nil {
		return err
	}
	rows, err := s.raw.QueryContext(context.Background(), s.args)
	s.release()
	if err != nil {
		return damage(s.conn.path, err)
	}
	if s.row == nil {
		s.row = make(Row, len(rows.Columns()))
	}
	for more := true; more && err == nil; {
		if err = rows.Next(s.row); err == io.EOF {
			err = nil
			break
		} else if err == nil {
			more, err = fn(s.row)
		}
	}
	clear(s.row)
	if closing := rows.Close(); err == nil {
		err = closing
	}
	return damage(s.conn.path, err)
}

// Row is one row of a result.
type Row []driver.Value

// Int is column i as a number, 0 for NULL.
func (r Row) Int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

// Blob is column i as bytes, nil for NULL.
func (r Row) Blob(i int) []byte {
	b, _ := r[i].([]byte)
	return b
}

// Text is column i as a text, "" for NULL.
func (r Row) Text(i int) string {
	text, _ := r[i].(string)
	return text
}
