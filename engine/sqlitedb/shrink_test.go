package sqlitedb

import (
	"os"
	"testing"
)

// A file gives back the room of deleted rows, whichever rows stay. A reader that began before still sees its moment, and the rows that stay
// are unchanged. A file of a kind that does not shrink does so too once it holds little, and is left alone until then.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	shrinks := testKind
	shrinks.Shrinks = true
	for name, c := range map[string]struct {
		made      Kind
		rows      int // of 100,000 bytes each, of which every third stays
		stay      int // of the last ones
		sameAfter bool
	}{
		"little stays":                {made: shrinks, rows: 300, stay: 3},
		"much stays":                  {made: shrinks, rows: 300, stay: 90},
		"another kind, little stays":  {made: testKind, rows: 300, stay: 3},
		"another kind, much stays":    {made: testKind, rows: 300, stay: 90, sameAfter: true},
		"another kind, nothing stays": {made: testKind, rows: 300},
		"a new file in which is room": {made: shrinks, rows: 1, stay: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/file.db"
			if err := Create(path, c.made, nil); err != nil {
				t.Fatal(err)
			}
			w, r := openKind(t, path, c.made, Options{}), openKind(t, path, c.made, Options{ReadOnly: true})
			insert := prepare1(t, w, "INSERT INTO thing (name, bytes) VALUES ('x', randomblob(100000))")
			for range c.rows {
				if _, err := insert.Exec(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := prepare1(t, w, "DELETE FROM thing WHERE n <= ?").Exec(int64(c.rows - c.stay)); err != nil {
				t.Fatal(err)
			}
			const sumSQL = "SELECT coalesce(sum(n) + sum(length(bytes)) + sum(unicode(hex(bytes))), 0) FROM thing"
			want := number(t, w, sumSQL)
			if err := w.CutFile(); err != nil {
				t.Fatal(err)
			}
			full := fileSize(t, path)
			if err := r.Exec("BEGIN"); err != nil {
				t.Fatal(err)
			}
			if got := number(t, r, sumSQL); got != want {
				t.Fatalf("the reader sees %d, want %d", got, want)
			}
			for more, n := true, 0; more; n++ {
				var err error
				if _, free, _ := w.Usage(); free == 0 {
					break
				}
				if more, err = w.GiveBack(4 << 20); err != nil {
					t.Fatal(err)
				}
				if n > 20 {
					t.Fatalf("%d slices of 4 MiB did not give back a file of %d bytes", n, full)
				}
			}
			if got := number(t, r, sumSQL); got != want {
				t.Errorf("the reader sees %d after the file was written again, want %d", got, want)
			}
			if err := r.Exec("COMMIT"); err != nil {
				t.Fatal(err)
			}
			if err := w.CutFile(); err != nil {
				t.Fatal(err)
			}
			used, free, err := w.Usage()
			size := fileSize(t, path)
			if c.sameAfter {
				if size != full {
					t.Errorf("a file of %d bytes has %d, want it untouched", full, size)
				}
			} else if err != nil || free != 0 || size != used || used > int64(c.stay+1)*110_000 {
				t.Errorf("a file of %d bytes has %d, %d of them used and %d free (%v), for %d rows of 100,000", full, size, used, free, err,
					c.stay)
			}
			for _, conn := range []*Conn{w, r} {
				if got := number(t, conn, sumSQL); got != want {
					t.Errorf("the rows sum up to %d, want %d", got, want)
				}
			}
			if err := w.checkPages(); err != nil {
				t.Error(err)
			}
		})
	}
}

func openKind(t *testing.T, path string, k Kind, o Options) *Conn {
	t.Helper()
	c, err := Open(path, k, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func number(t *testing.T, c *Conn, sql string) int64 {
	t.Helper()
	n, err := c.Int(sql)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A log that became long because a reader kept it from being copied back is cut when it begins again.
func TestLongLogIsCut(t *testing.T) {
	t.Parallel()
	path := create(t)
	w, r := open(t, path, Options{}), open(t, path, Options{ReadOnly: true})
	insert := prepare1(t, w, "INSERT INTO thing (bytes) VALUES (randomblob(1000000))")
	write := func(rows int) {
		for range rows {
			if _, err := insert.Exec(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.Exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	number(t, r, "SELECT count(*) FROM thing")
	write(8 * autoCheckpoint / 1_000_000)
	if size := fileSize(t, path+"-wal"); size < 8*autoCheckpoint*9/10 {
		t.Fatalf("the log has %d bytes beside a reader: the test must make a long one", size)
	}
	if err := r.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	write(3)
	if size := fileSize(t, path+"-wal"); size > 4*autoCheckpoint {
		t.Errorf("the log has %d bytes when no one reads from it any more, want %d at most", size, 4*autoCheckpoint)
	}
}
