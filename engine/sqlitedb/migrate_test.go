package sqlitedb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// migrated is testKind two versions later.
func migrated() Kind {
	k := testKind
	k.Migrations = []string{"ALTER TABLE thing ADD COLUMN size INTEGER; UPDATE thing SET size = length(bytes)", "CREATE TABLE other (n INTEGER PRIMARY KEY) STRICT"}
	return k
}

// copied is a copy of a database as the end of the process would leave it now.
func copied(t *testing.T, path string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "x.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err = errors.Join(err, os.WriteFile(to+suffix, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A file of version 1, closed in good order or left by a kill, is migrated by the program that knows version 3 when its owner opens it, and
// keeps what it has. A kill after the migration, before the file has its owner's mark, leaves a file that opens. The program that knows
// version 1 then refuses it, and names both versions.
func TestOwnerMigrates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ killed, alone bool }{"closed": {}, "killed": {killed: true}, "alone": {alone: true}, "alone, killed": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := queue.Identity{Generation: 1, Newest: 1}
			options := Options{Owner: &Owner{Identity: &id}, Alone: c.alone}
			path := create(t)
			old := open(t, path, options)
			if _, err := old.Own(id); err != nil {
				t.Fatal(err)
			}
			if _, err := prepare1(t, old, "INSERT INTO thing (n, bytes) VALUES (7, x'010203')").Exec(); err != nil {
				t.Fatal(err)
			}
			if c.killed {
				path = copied(t, path)
			} else if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			if other := openKind(t, path, migrated(), Options{}); number(t, other, "PRAGMA user_version") != 1 {
				t.Error("a connection that is not the owner's migrated the file")
			} else if err := other.Close(); err != nil {
				t.Error(err)
			}
			first := openKind(t, path, migrated(), options)
			path = copied(t, path)
			if err := first.Close(); err != nil {
				t.Error(err)
			}
			for range 2 {
				again := openKind(t, path, migrated(), options)
				if _, err := again.Own(id); err != nil {
					t.Fatal(err)
				}
				if got := number(t, again, "SELECT n * size + (SELECT count(*) FROM other) FROM thing"); got != 21 || number(t, again, "PRAGMA user_version") != 3 {
					t.Errorf("7 times a size of 3 is %d, at version %d", got, number(t, again, "PRAGMA user_version"))
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}
			_, err := Open(path, testKind, options)
			if format, is := errors.AsType[*queue.FormatError](err); !is || !format.Unread || !strings.Contains(err.Error(), "version 3; this program knows versions up to 1") {
				t.Errorf("the program before it: Open = %v; want a refusal that names both versions", err)
			}
		})
	}
}

// A new file is the same as a migrated one.
func TestNewFileHasAllMigrations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	if err := Create(path, migrated(), nil); err != nil {
		t.Fatal(err)
	}
	c := openKind(t, path, migrated(), Options{})
	if got := number(t, c, "SELECT count(*) FROM pragma_table_info('thing') WHERE name = 'size'"); got != 1 || number(t, c, "PRAGMA user_version") != 3 {
		t.Errorf("%d columns are named size, at version %d", got, number(t, c, "PRAGMA user_version"))
	}
}

// A migration that fails in its second step leaves the file as it was before the first.
func TestMigrationFails(t *testing.T) {
	t.Parallel()
	path, wrong := create(t), migrated()
	wrong.Migrations[1] = "CREATE TABLE nonsense"
	if _, err := Open(path, wrong, Options{Owner: &Owner{}}); err == nil || !strings.Contains(err.Error(), "from version 1 to 3") {
		t.Errorf("Open = %v; want that the migration from version 1 to 3 failed", err)
	}
	if c := openKind(t, path, migrated(), Options{Owner: &Owner{}}); number(t, c, "PRAGMA user_version") != 3 {
		t.Error("the next program did not migrate it")
	}
}

// A file that an unreleased build made, whatever its version, is refused by name, and stays as it was.
func TestUnreleased(t *testing.T) {
	t.Parallel()
	for version := range uint32(12) {
		path := create(t)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint32(b[60:], version)
		binary.BigEndian.PutUint32(b[68:], testKind.Unreleased)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Open(path, testKind, Options{Owner: &Owner{}})
		if format, is := errors.AsType[*queue.FormatError](err); !is || !format.Unread || !strings.Contains(err.Error(), "unreleased build of Quern made") {
			t.Errorf("version %d: Open = %v; want that an unreleased build made it", version, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, b) {
			t.Errorf("version %d: the file changed, %v", version, err)
		}
	}
}
