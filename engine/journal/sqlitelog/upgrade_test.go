package sqlitelog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// older makes the tables of a closed journal those of an older version.
func older(t *testing.T, path string, version int) {
	t.Helper()
	conn, err := sqlitedb.Open(path, kind, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sql := `BEGIN;
		CREATE TABLE former (n INTEGER PRIMARY KEY, crc INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
		INSERT INTO former SELECT n, crc, bytes FROM batch;
		DROP TABLE batch;
		ALTER TABLE former RENAME TO batch;
		ALTER TABLE trimmed DROP COLUMN sum;`
	if version == 1 {
		sql += "DROP TABLE identity;"
	}
	if err := errors.Join(conn.Exec(sql+fmt.Sprintf("PRAGMA user_version = %d; COMMIT", version)), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// A journal of version 1, which does not say where it belongs, is taken once and says so from then on. When all files of the directory have
// done so, one that does not is an older copy.
func TestVersion1(t *testing.T) {
	t.Parallel()
	path, ctx := filled(t, 5), t.Context()
	older(t, path, 1)
	id := queue.Identity{Directory: [16]byte{1}, Shard: 2, Generation: 9, Oldest: 8, Newest: 8}
	if _, err := Open(ctx, path, Options{Identity: id}); err == nil || !strings.Contains(err.Error(), "older copy") {
		t.Errorf("Open = %v; want that it is an older copy", err)
	}
	id.Oldest = 0
	for range 2 {
		l := open(t, path, Options{Identity: id})
		if n, err := count(l, 0); err != nil || n != 5 {
			t.Errorf("%d batches, %v; want 5", n, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		id = id.Opened()
	}
	if _, err := Open(ctx, path, Options{}); err == nil || !strings.Contains(err.Error(), "another data directory") {
		t.Errorf("Open by another directory = %v; want a refusal", err)
	}
}

// A journal of version 3, which has no chain, gets one: also one of which something was trimmed, or everything. Its batches are what they
// were, and others follow.
func TestVersion3(t *testing.T) {
	t.Parallel()
	for _, trimmed := range []journal.Position{0, 7, 300} {
		path := filled(t, 300)
		l := open(t, path, Options{})
		if err := errors.Join(l.Trim(t.Context(), trimmed), l.Close()); err != nil {
			t.Fatal(err)
		}
		older(t, path, 3)
		for round := range journal.Position(3) {
			l := open(t, path, Options{})
			if n, err := count(l, trimmed); err != nil || n != int(300+round-trimmed) {
				t.Errorf("trimmed to %d, start %d: %d batches, %v; want %d", trimmed, round, n, err, 300+round-trimmed)
			}
			add(t, l, 300+round)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A kill during the upgrade, wherever it comes, leaves the file of the version before, and the next start upgrades it.
func TestUpgradeCutOff(t *testing.T) {
	t.Parallel()
	path := filled(t, 200)
	older(t, path, 3)
	done := "BEGIN IMMEDIATE; PRAGMA user_version = 4"
	for _, step := range []string{
		"", "CREATE TABLE chained (n INTEGER PRIMARY KEY, crc INTEGER NOT NULL, sum BLOB NOT NULL, bytes BLOB NOT NULL) STRICT",
		"INSERT INTO chained SELECT n, crc, randomblob(16), CAST(bytes || zeroblob(100000) AS BLOB) FROM batch WHERE n < 100", "DROP TABLE batch",
	} {
		done += "; " + step
		conn, err := sqlitedb.Open(path, kind, sqlitedb.Options{CacheKiB: 16}) // so that what is not committed comes to the log
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Exec(done); err != nil {
			t.Fatal(err)
		}
		copied := copyFiles(t, path) // as a kill leaves them
		if err := errors.Join(conn.Exec("ROLLBACK"), conn.Close()); err != nil {
			t.Fatal(err)
		}
		l := open(t, copied, Options{})
		if n, err := count(l, 0); err != nil || n != 200 {
			t.Errorf("killed behind %q: %d batches, %v; want 200", step, n, err)
		}
		if version, err := l.conn.Int("PRAGMA user_version"); err != nil || version != 4 {
			t.Errorf("killed behind %q: version %d, %v; want 4", step, version, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A batch that was damaged before the upgrade is refused by who reads it afterwards, and those behind it stay where they are.
func TestUpgradeOfDamaged(t *testing.T) {
	t.Parallel()
	path := filled(t, 10)
	older(t, path, 3)
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(sound), string(content(4)), "the batch number 99999999", -1)), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, path, Options{})
	defer l.Close()
	if n, err := count(l, 0); err == nil || n != 0 || !strings.Contains(err.Error(), "damaged batch 4") {
		t.Errorf("%d batches, %v; want that batch 4 is damaged", n, err)
	}
	if n, err := count(l, 4); err != nil || n != 6 {
		t.Errorf("%d batches behind it, %v; want 6", n, err)
	}
}

// A batch that is whole but not the one that its chain is of is refused: a row of another journal, or of another time.
func TestBrokenChain(t *testing.T) {
	t.Parallel()
	path := filled(t, 10)
	l := open(t, path, Options{})
	defer l.Close()
	other := []byte("another batch at the same position")
	swap, err := l.conn.Prepare("UPDATE batch SET crc = ?, bytes = ? WHERE n = 6")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := swap.Exec(int64(l.checksum(6, other)), other); err != nil {
		t.Fatal(err)
	}
	if n, err := count(l, 0); err == nil || !strings.Contains(err.Error(), "batch 6 that does not follow") {
		t.Errorf("%d batches, %v; want that batch 6 does not follow the one before it", n, err)
	}
}

// A journal of version 2 has pages of 4,096 bytes. It is taken, killed or closed, and goes on with its pages.
func TestVersion2(t *testing.T) {
	t.Parallel()
	old := sqlitedb.Kind{Name: kind.Name, ApplicationID: kind.ApplicationID, Version: 4}
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := sqlitedb.Create(path, old, build); err != nil {
		t.Fatal(err)
	}
	older(t, path, 2)
	for starts := range 3 {
		l := open(t, path, Options{})
		if n, err := count(l, 0); err != nil || n != starts {
			t.Errorf("start %d: %d batches, %v", starts, n, err)
		}
		add(t, l, journal.Position(starts))
		for pragma, want := range map[string]int64{"page_size": 4096, "wal_autocheckpoint": 1000, "user_version": 4} {
			if got, err := l.conn.Int("PRAGMA " + pragma); err != nil || got != want {
				t.Errorf("start %d: %s = %d, %v; want %d", starts, pragma, got, err, want)
			}
		}
		killed := copyFiles(t, path)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if starts == 1 {
			path = killed
		}
	}
}

// A new journal has small pages, and the log of it is copied back after as many bytes as that of other files.
func TestPages(t *testing.T) {
	t.Parallel()
	l := open(t, filepath.Join(t.TempDir(), "journal.db"), Options{})
	defer l.Close()
	for pragma, want := range map[string]int64{"page_size": 2048, "wal_autocheckpoint": 2000} {
		if got, err := l.conn.Int("PRAGMA " + pragma); err != nil || got != want {
			t.Errorf("%s = %d, %v; want %d", pragma, got, err, want)
		}
	}
}
