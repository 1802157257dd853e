package sqlitelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/journaltest"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	journaltest.Exercise(t, journaltest.Medium{
		Open: func(t *testing.T, dir string) journal.Journal {
			return open(t, filepath.Join(dir, "journal.db"), Options{})
		},
		Beside: func(t *testing.T, dir string) journal.Journal {
			return open(t, filepath.Join(dir, "journal.db"), Options{Shared: true})
		},
		Rewind: rewind,
		Fail: func(j journal.Journal, o journaltest.Outcome, tries int, made func()) {
			l := j.(*Log)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.fault = failing(o, tries, made)
		},
	})
}

// rewind takes the batches behind `to` from a journal, beneath its handles.
func rewind(t *testing.T, dir string, to journal.Position) {
	t.Helper()
	conn, err := sqlitedb.Open(filepath.Join(dir, "journal.db"), Kind, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Exec(fmt.Sprintf("DELETE FROM batch WHERE n > %d", to)), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// failing makes writes with an unknown outcome.
func failing(o journaltest.Outcome, tries int, made func()) func(write func() error) error {
	errFault, late := errors.New("test: the write was not answered"), false
	return func(write func() error) error {
		landed := late
		if late = false; landed {
			if err := write(); err != nil {
				return err
			}
		}
		if tries == 0 {
			return write()
		}
		tries--
		if made != nil {
			made()
		}
		switch o {
		case journaltest.Written:
			if err := write(); err != nil {
				return err
			}
		case journaltest.Late:
			late = !landed
		}
		return errFault
	}
}

func open(t testing.TB, path string, o Options) *Log {
	t.Helper()
	l, err := Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// filled makes a journal with n batches and returns its path, closed.
func filled(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	l := open(t, path, Options{})
	for i := range n {
		add(t, l, journal.Position(i))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func add(t *testing.T, l *Log, expect journal.Position) {
	t.Helper()
	if _, err := l.Append(context.Background(), expect, content(expect+1)); err != nil {
		t.Fatalf("Append(%d): %v", expect, err)
	}
}

func content(pos journal.Position) []byte { return fmt.Appendf(nil, "the batch number %08d", pos) }

func count(l *Log, after journal.Position) (n int, err error) {
	err = l.Read(context.Background(), after, func(pos journal.Position, b []byte) error {
		if n++; !bytes.Equal(b, content(pos)) {
			return fmt.Errorf("batch %d is %q", pos, b)
		}
		return nil
	})
	return n, err
}

// A journal is durable on return, and relaxed only when asked. The test asks SQLite for its setting.
func TestDurabilityIsSet(t *testing.T) {
	t.Parallel()
	l := open(t, filepath.Join(t.TempDir(), "journal.db"), Options{})
	defer l.Close()
	for i, want := range []int64{2, 1, 2} {
		if i > 0 {
			if err := l.SetDurability([]queue.Durability{queue.Full, queue.Relaxed, queue.Full}[i]); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := l.conn.Int("PRAGMA synchronous"); err != nil || got != want {
			t.Errorf("step %d: PRAGMA synchronous = %d, %v; want %d", i, got, err, want)
		}
	}
	relaxed := open(t, filepath.Join(t.TempDir(), "journal.db"), Options{Durability: queue.Relaxed})
	defer relaxed.Close()
	if got, err := relaxed.conn.Int("PRAGMA synchronous"); err != nil || got != 1 {
		t.Errorf("relaxed: PRAGMA synchronous = %d, %v; want 1", got, err)
	}
}

// Appended batches survive a process that ends right after the append: copies of the files, taken while the journal is
// open and before SQLite copied anything back from its log, open with every batch.
func TestCopyOfAnOpenJournalOpens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	l := open(t, path, Options{})
	defer l.Close()
	tail := journal.Position(0)
	for round := range 8 {
		for range 1 + round*round*10 {
			add(t, l, tail)
			tail++
		}
		trimmed := tail / 3
		if err := l.Trim(context.Background(), trimmed); err != nil {
			t.Fatal(err)
		}
		low := l.low
		copied := copyFiles(t, path)
		again := open(t, copied, Options{})
		if got, err := again.Tail(context.Background()); err != nil || got != tail {
			t.Errorf("round %d: Tail of the copy = %d, %v; want %d", round, got, err, tail)
		}
		if n, err := count(again, low); err != nil || n != int(tail-low) {
			t.Errorf("round %d: the copy has %d batches, %v; want %d", round, n, err, tail-low)
		}
		add(t, again, tail)
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// copyFiles copies a database as a kill -9 leaves it.
func copyFiles(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A crash at any point of the creation leaves nothing, or the whole; leftovers do not disturb the next start.
func TestLeftoversOfACreation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	for _, suffix := range []string{".new", ".new-journal", ".new-wal", ".new-shm"} {
		if err := os.WriteFile(path+suffix, bytes.Repeat([]byte("left over"), 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := open(t, path, Options{})
	add(t, l, 0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(path + "*")
	if err != nil || len(names) != 1 {
		t.Errorf("after the close there are %v, %v; want the journal alone", names, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("Stat = %v, %v; want mode 0600", info.Mode(), err)
	}
}

// A file that is no journal of ours, or of a later version, is refused with advice, and not one byte changes.
func TestForeignFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(b []byte) []byte
		want  string
	}{
		"empty":            {func([]byte) []byte { return nil }, "too short"},
		"short":            {func(b []byte) []byte { return b[:50] }, "too short"},
		"text":             {func([]byte) []byte { return []byte(strings.Repeat("not a database ", 500)) }, "not an SQLite database"},
		"flipped magic":    {func(b []byte) []byte { b[3] ^= 4; return b }, "not an SQLite database"},
		"another database": {func(b []byte) []byte { copy(b[68:], "XXXX"); return b }, "not a Quern journal"},
		"newer":            {func(b []byte) []byte { b[63] = 5; return b }, "version 5"},
		"much newer":       {func(b []byte) []byte { b[60] = 1; return b }, "version 16777217"},
		"unreleased":       {func(b []byte) []byte { copy(b[68:], "QrnJ"); b[63] = 4; return b }, "unreleased build"},
		"no version":       {func(b []byte) []byte { b[63] = 0; return b }, "without a version"},
		"cut off":          {func(b []byte) []byte { return b[:2048] }, "damaged"},
		"no schema":        {func(b []byte) []byte { clear(b[100:2048]); return b }, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filled(t, 3)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b = c.spoil(b)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, path, c.want, b)
		})
	}
}

// wantRefused expects that the journal cannot be opened or read, because of `reason`, and that the file stays as it is.
func wantRefused(t *testing.T, path, reason string, before []byte) {
	t.Helper()
	l, err := Open(context.Background(), path, Options{})
	if err == nil {
		_, err = count(l, 0)
		if closing := l.Close(); closing != nil {
			t.Errorf("Close: %v", closing)
		}
	}
	format, ok := errors.AsType[*queue.FormatError](err)
	if !ok {
		t.Fatalf("got %v; want a *queue.FormatError", err)
	}
	if format.Path != path || format.Advice == "" || !strings.Contains(err.Error(), reason) {
		t.Errorf("got %q; want the path %s, the reason %q and an advice", err, path, reason)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file changed from %d to %d bytes (%v); want it as it was", len(before), len(after), err)
	}
}

// A newer version that stands in the write-ahead log only is seen too, and neither file changes.
func TestNewerVersionInTheLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	l := open(t, path, Options{})
	defer l.Close()
	add(t, l, 0)
	if err := l.conn.Exec("PRAGMA user_version = 7"); err != nil {
		t.Fatal(err)
	}
	copied := copyFiles(t, path)
	log, err := os.ReadFile(copied + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	main, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, copied, "version 7", main)
	after, err := os.ReadFile(copied + "-wal")
	if err != nil || !bytes.Equal(log, after) {
		t.Errorf("the -wal changed from %d to %d bytes, %v", len(log), len(after), err)
	}
}

// A write-ahead log without its database is not swallowed by a new one.
func TestOrphanedLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path+"-wal", []byte("frames"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(context.Background(), path, Options{})
	if _, ok := errors.AsType[*queue.FormatError](err); !ok {
		t.Errorf("Open = %v; want a *queue.FormatError", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat = %v; want that no database was made", err)
	}
}

// Any flipped bit inside the stored batches is an error, never another content.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	path := filled(t, 200)
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(content(7)) {
		spoilt := content(7)
		spoilt[bit/8] ^= 1 << (bit % 8)
		b := bytes.ReplaceAll(sound, content(7), spoilt) // all: unused room has copies
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, path, "damaged batch 7", b)
	}
}

// A flipped bit anywhere in the file gives the right batches or an error.
//
//quern:sequential
func TestFlippedBitAnywhere(t *testing.T) {
	t.Parallel()
	path := filled(t, 60)
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(sound); at += 13 {
		b := bytes.Clone(sound)
		b[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(context.Background(), path, Options{})
		if err != nil {
			continue
		}
		tail, err := l.Tail(context.Background())
		n, reading := count(l, 0)
		if err == nil && reading == nil && n != int(tail) {
			t.Errorf("byte %d: %d batches were read without an error, the tail is %d", at, n, tail)
		}
		if reading == nil && tail != 60 {
			t.Errorf("byte %d: the journal seems to end at %d, want 60 or an error", at, tail)
		}
		l.Close() // may fail: the file is damaged
		os.Remove(path + "-wal")
		os.Remove(path + "-shm")
	}
}

// Batches that are missing in the middle or at the head are found.
func TestGaps(t *testing.T) {
	t.Parallel()
	for sql, reason := range map[string]string{
		"DELETE FROM batch WHERE n = 5":           "no batch 5",
		"DELETE FROM batch WHERE n = 1":           "begins with batch 2",
		"UPDATE batch SET n = 60 WHERE n = 10":    "no batch 10",
		"UPDATE trimmed SET upto = 3":             "begins with batch 1",
		"DELETE FROM trimmed":                     "lost its record",
		"UPDATE batch SET bytes = x'' WHERE n=3;": "damaged batch 3",
		"DROP TABLE batch":                        "no such table",
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			path := filled(t, 10)
			l := open(t, path, Options{})
			if err := l.conn.Exec(sql); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l, err := Open(context.Background(), path, Options{})
			if err == nil {
				_, err = count(l, 0)
				l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("got %v; want an error with %q", err, reason)
			}
		})
	}
}

// A full disk refuses appends without losing the count, and goes on by itself when there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	l := open(t, filepath.Join(t.TempDir(), "journal.db"), Options{MaxPages: 20})
	defer l.Close()
	ctx := context.Background()
	large, tail := bytes.Repeat([]byte("x"), 9000), journal.Position(0)
	for ; ; tail++ {
		if tail > 20 {
			t.Fatal("the disk never got full")
		}
		_, err := l.Append(ctx, tail, large)
		if err == nil {
			continue
		}
		if !errors.Is(err, journal.ErrFull) {
			t.Fatalf("Append = %v; want ErrFull", err)
		}
		break
	}
	if got, err := l.Tail(ctx); err != nil || got != tail {
		t.Errorf("Tail = %d, %v; want %d: a refused append is not there", got, err, tail)
	}
	if _, err := l.Append(ctx, tail, []byte("small")); err != nil {
		t.Errorf("Append of a small batch that still fits: %v", err)
	}
	tail++
	// Trimming alone makes room, because an append reclaims before it writes.
	if err := l.Trim(ctx, tail-1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(ctx, tail, large); err != nil {
		t.Errorf("Append after a trim: %v", err)
	}
	tail++
	for {
		if _, err := l.Append(ctx, tail, large); err != nil {
			break
		}
		tail++
	}
	if err := l.SetMaxPages(0); err != nil {
		t.Fatal(err)
	}
	if pos, err := l.Append(ctx, tail, large); err != nil || pos != tail+1 {
		t.Errorf("Append with room again = %d, %v; want %d", pos, err, tail+1)
	}
}

// The file is one writer's alone: a second writer is refused, and the first goes on.
func TestSecondOpenIsRefused(t *testing.T) {
	t.Parallel()
	path := filled(t, 2)
	a := open(t, path, Options{})
	defer a.Close()
	if b, err := Open(context.Background(), path, Options{}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the second Open = %v, %v; want that the file is in use", b, err)
	}
	add(t, a, 2)
	if n, err := count(a, 0); err != nil || n != 3 {
		t.Errorf("%d batches, %v; want 3", n, err)
	}
}

// A row that is there although this writer did not append it is noticed by the database, and known once it was read.
func TestForeignRow(t *testing.T) {
	t.Parallel()
	path, ctx := filled(t, 2), context.Background()
	l := open(t, path, Options{})
	defer l.Close()
	if err := l.write(3, l.sum.Next(3, content(3)), content(3)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(ctx, 2, []byte("too late")); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("Append = %v; want ErrConflict", err)
	}
	if tail, err := l.Tail(ctx); err != nil || tail != 3 {
		t.Errorf("Tail = %d, %v; want 3", tail, err)
	}
	if _, err := l.Append(ctx, 3, content(4)); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("Append behind a batch that was not read = %v; want ErrConflict", err)
	}
	if n, err := count(l, 0); err != nil || n != 3 {
		t.Errorf("%d batches, %v; want 3", n, err)
	}
	add(t, l, 3)
	if n, err := count(l, 0); err != nil || n != 4 {
		t.Errorf("%d batches, %v; want 4", n, err)
	}
}

// A trim is done slice by slice with the appends, the rest with Close.
func TestTrimInSlices(t *testing.T) {
	t.Parallel()
	path, ctx := filled(t, 100), context.Background()
	l := open(t, path, Options{})
	if err := l.Trim(ctx, 90); err != nil {
		t.Fatal(err)
	}
	for i, want := range []journal.Position{32, 64, 90, 90} {
		add(t, l, journal.Position(100+i))
		if l.low != want {
			t.Errorf("after append %d everything up to %d is gone; want %d", i+1, l.low, want)
		}
	}
	if err := l.Trim(ctx, 104); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, Options{})
	defer l.Close()
	if n, err := l.conn.Int("SELECT count(*) FROM batch"); err != nil || n != 0 || l.tail != 104 || l.low != 104 {
		t.Errorf("%d rows are left (%v), tail %d, low %d; want none, 104, 104", n, err, l.tail, l.low)
	}
}

// Large rows make a slice short: 1 MB at a time.
func TestTrimSlicesAreBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := open(t, filepath.Join(t.TempDir(), "journal.db"), Options{Durability: queue.Relaxed})
	defer l.Close()
	large := make([]byte, 400<<10)
	for i := range 8 {
		if _, err := l.Append(ctx, journal.Position(i), large); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Trim(ctx, 8); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(ctx, 8, nil); err != nil || l.low != 3 {
		t.Errorf("the first append reclaimed up to %d (%v); want 3, about 1 MB", l.low, err)
	}
}
