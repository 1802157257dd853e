package sqlitedb

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/quern-queue/quern/engine/queue"
)

var testKind = Kind{
	Name: "trial", ApplicationID: 0x51756554, Unreleased: 0x51726e54,
	Schema: "CREATE TABLE thing (n INTEGER PRIMARY KEY, name TEXT, bytes BLOB) STRICT;",
}

// create makes a database with one table at a new path.
func create(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a name with spaces, ? # % and ü.db")
	if err := Create(path, testKind, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string, o Options) *Conn {
	t.Helper()
	c, err := Open(path, testKind, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func prepare1(t *testing.T, c *Conn, sql string) *Stmt {
	t.Helper()
	s, err := c.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Failures get their classes however deep they are wrapped.
func TestClassOf(t *testing.T) {
	t.Parallel()
	for want, errs := range map[Class][]error{
		NoError:  {nil},
		Full:     {sqlite3.Error{Code: sqlite3.ErrFull, ExtendedCode: 13}},
		SyncLost: {sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrFsync}, sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrDirFsync}},
		Taken: {
			sqlite3.Error{Code: sqlite3.ErrConstraint, ExtendedCode: sqlite3.ErrConstraintPrimaryKey},
			sqlite3.Error{Code: sqlite3.ErrConstraint, ExtendedCode: sqlite3.ErrConstraintNotNull},
		},
		Damaged: {sqlite3.Error{Code: sqlite3.ErrCorrupt, ExtendedCode: 11}, sqlite3.Error{Code: sqlite3.ErrNotADB, ExtendedCode: 26}, &queue.FormatError{}},
		InUse:   {sqlite3.Error{Code: sqlite3.ErrBusy, ExtendedCode: 5}},
		Unclear: {
			errors.New("other"),
			// The log may have the commit already when there is no room for its index, so it is not certain that the commit is undone.
			sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrWrite, SystemErrno: syscall.ENOSPC},
		},
	} {
		for _, err := range errs {
			wrapped := err
			if err != nil {
				wrapped = fmt.Errorf("a: %w", fmt.Errorf("b: %w", err))
			}
			if got := ClassOf(wrapped); got != want {
				t.Errorf("ClassOf(%v) = %d; want %d", err, got, want)
			}
		}
	}
}

// After a failed sync the connection writes no more, and says why; it still reads.
func TestNothingIsWrittenAfterAFailedSync(t *testing.T) {
	t.Parallel()
	c := open(t, create(t), Options{})
	put := prepare1(t, c, "INSERT INTO thing (n) VALUES (?)")
	if _, err := put.Exec(int64(1)); err != nil {
		t.Fatal(err)
	}
	if err := c.failed(sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrFsync}); ClassOf(err) != SyncLost {
		t.Fatalf("failed = %v", err)
	}
	if _, err := put.Exec(int64(2)); ClassOf(err) != SyncLost {
		t.Errorf("Exec = %v; want the failed sync", err)
	}
	if err := c.Tx(func() error { t.Error("a transaction began"); return nil }); ClassOf(err) != SyncLost {
		t.Errorf("Tx = %v; want the failed sync", err)
	}
	if n, err := c.Int("SELECT count(*) FROM thing"); err != nil || n != 1 {
		t.Errorf("%d rows, %v; want 1", n, err)
	}
}

// A transaction is all or nothing: with an error of its function, of a statement in it, or of a full disk.
func TestTx(t *testing.T) {
	t.Parallel()
	c := open(t, create(t), Options{})
	put := prepare1(t, c, "INSERT INTO thing (n, bytes) VALUES (?, ?)")
	add := func(n int64, bytes int) error { _, err := put.Exec(n, make([]byte, bytes)); return err }
	stop := errors.New("stop")
	pages, err := c.Int("PRAGMA page_count")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetMaxPages(int(pages) + 10); err != nil {
		t.Fatal(err)
	}
	for name, step := range map[string]struct {
		run  func() error
		want func(error) bool
	}{
		"its own error": {func() error { return errors.Join(add(1, 10), stop) }, func(err error) bool { return errors.Is(err, stop) }},
		"a taken key":   {func() error { return errors.Join(add(1, 10), add(1, 10)) }, func(err error) bool { return ClassOf(err) == Taken }},
		"a full disk": {func() error {
			for n := int64(1); ; n++ {
				if err := add(n, 1000); err != nil {
					return err
				}
			}
		}, func(err error) bool { return ClassOf(err) == Full }},
	} {
		if err := c.Tx(step.run); !step.want(err) {
			t.Errorf("%s: Tx = %v", name, err)
		}
		if n, err := c.Int("SELECT count(*) FROM thing"); err != nil || n != 0 {
			t.Errorf("%s: %d rows are left, %v; want none", name, n, err)
		}
	}
	if err := c.Tx(func() error { return errors.Join(add(1, 10), add(2, 10)) }); err != nil {
		t.Errorf("Tx = %v", err)
	}
	if n, err := c.Int("SELECT count(*) FROM thing"); err != nil || n != 2 {
		t.Errorf("%d rows, %v; want 2", n, err)
	}
}

// Values come back as they went in; nil bytes are empty bytes; a query stops when it is told to.
func TestValues(t *testing.T) {
	t.Parallel()
	c := open(t, create(t), Options{})
	put, get := prepare1(t, c, "INSERT INTO thing VALUES (?, ?, ?)"), prepare1(t, c, "SELECT n, name, bytes FROM thing WHERE n >= ? ORDER BY n")
	for n, b := range [][]byte{nil, {}, {0}, bytes.Repeat([]byte("long"), 10000)} {
		if changes, err := put.Exec(int64(n)-1, fmt.Sprint("näme\x00", n), b); err != nil || changes != 1 {
			t.Fatalf("Exec = %d, %v; want 1", changes, err)
		}
		b = append([]byte{}, b...)
		err := get.Query(func(r Row) (bool, error) {
			if r.Int(0) != int64(n)-1 || r.Text(1) != fmt.Sprint("näme\x00", n) || r.Blob(2) == nil || !bytes.Equal(r.Blob(2), b) {
				t.Errorf("row %d = %d, %q, %d bytes; want what was put", n, r.Int(0), r.Text(1), len(r.Blob(2)))
			}
			return false, nil
		}, int64(n)-1)
		if err != nil {
			t.Error(err)
		}
	}
	seen, stop := 0, errors.New("stop")
	if err := get.Query(func(Row) (bool, error) { seen++; return seen < 3, nil }, int64(-9)); err != nil || seen != 3 {
		t.Errorf("Query gave %d rows, %v; want 3", seen, err)
	}
	if err := get.Query(func(Row) (bool, error) { return true, stop }, int64(-9)); !errors.Is(err, stop) {
		t.Errorf("Query = %v; want the caller's error", err)
	}
	if _, err := put.Exec(int64(1)); err == nil {
		t.Error("Exec took too few arguments")
	}
	if _, err := c.Prepare("SELECT nonsense FROM nowhere"); err == nil {
		t.Error("Prepare took nonsense")
	}
}

// A reading connection cannot write, and sees what is committed at once.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := create(t)
	w, r := open(t, path, Options{}), open(t, path, Options{ReadOnly: true})
	put := prepare1(t, w, "INSERT INTO thing (n) VALUES (?)")
	count := prepare1(t, r, "SELECT count(*) FROM thing")
	for n := range int64(3) {
		if _, err := put.Exec(n); err != nil {
			t.Fatal(err)
		}
		got := int64(-1)
		if err := count.Query(func(row Row) (bool, error) { got = row.Int(0); return true, nil }); err != nil || got != n+1 {
			t.Errorf("the reader sees %d rows, %v; want %d", got, err, n+1)
		}
	}
	if err := r.Exec("DELETE FROM thing"); err == nil {
		t.Error("a reading connection wrote")
	}
}

// The settings that performance and durability rest on are what they should be.
func TestSettings(t *testing.T) {
	t.Parallel()
	c := open(t, create(t), Options{})
	for pragma, want := range map[string]int64{"page_size": 4096, "wal_autocheckpoint": 1000, "synchronous": 2, "application_id": 0x51756554, "user_version": 1} {
		if got, err := c.Int("PRAGMA " + pragma); err != nil || got != want {
			t.Errorf("%s = %d, %v; want %d", pragma, got, err, want)
		}
	}
	if mode, err := c.text("PRAGMA journal_mode"); err != nil || mode != "wal" {
		t.Errorf("journal_mode = %q, %v; want wal", mode, err)
	}
	if err := c.SetDurability(queue.Relaxed); err != nil {
		t.Error(err)
	}
	if got, err := c.Int("PRAGMA synchronous"); err != nil || got != 1 {
		t.Errorf("relaxed: synchronous = %d, %v; want 1", got, err)
	}
}

// A creation that fails leaves nothing under the name.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	nonsense := testKind
	nonsense.Schema += "CREATE TABLE nonsense;"
	for name, c := range map[string]struct {
		kind Kind
		fill func(string) error
	}{
		"error":    {testKind, func(string) error { return errors.New("stop") }},
		"no table": {nonsense, nil},
		"removed":  {testKind, os.Remove},
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		if err := Create(path, c.kind, c.fill); err == nil {
			t.Errorf("%s: Create succeeded", name)
		}
		if exists, err := Exists(path); exists || err != nil {
			t.Errorf("%s: Exists = %v, %v; want nothing", name, exists, err)
		}
		if _, err := Open(path, testKind, Options{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: Open = %v; want that there is no file", name, err)
		}
	}
	if err := Create(filepath.Join(t.TempDir(), "missing", "x.db"), testKind, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create in a missing folder = %v", err)
	}
}

// Size counts the log too.
func TestSize(t *testing.T) {
	t.Parallel()
	path := create(t)
	closed := Size(path)
	c := open(t, path, Options{})
	if _, err := prepare1(t, c, "INSERT INTO thing (bytes) VALUES (?)").Exec(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if got := Size(path); closed < 4096 || got < closed+100_000 {
		t.Errorf("Size = %d, then %d with 100,000 bytes more", closed, got)
	}
	if got := Size(path + "nowhere"); got != 0 {
		t.Errorf("Size of nothing = %d", got)
	}
}
