package sqlitedb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// owned makes a database that is in use, with n commits of a page each in its log, and copies it, as a kill would leave it.
func owned(t *testing.T, n int) (path string) { return ownedBy(t, n, func(*Conn) {}) }

// ownedBy is owned with a function that is called before each commit.
func ownedBy(t *testing.T, n int, before func(*Conn)) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	if err := Create(path, testKind, nil); err != nil {
		t.Fatal(err)
	}
	c := open(t, path, Options{Owner: &Owner{}, Alone: true})
	if _, err := c.Own(queue.Identity{Generation: 1}); err != nil {
		t.Fatal(err)
	}
	stmt := prepare1(t, c, "INSERT INTO thing (n, bytes) VALUES (?, ?)")
	for i := range n {
		before(c)
		if _, err := stmt.Exec(int64(i), fmt.Appendf(nil, "row %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	to := t.TempDir()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, "x.db"+suffix), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(to, "x.db")
}

// rows opens the database as its owner and counts its rows.
func rows(path string, o Owner) (int64, error) {
	c, err := Open(path, testKind, Options{Owner: &o})
	if err != nil {
		return 0, err
	}
	n, err := c.Int("SELECT count(*) FROM thing")
	return n, errors.Join(err, c.raw.Close())
}

const frameBytes = frameHeaderBytes + 4096

func editLog(t *testing.T, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+"-wal", change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// After a power cut neither the -shm file nor the end of the log can be relied on: a commit that is torn there was not acknowledged. A
// frame that is not sound is still damage if there is a commit behind the next one.
func TestLogAfterAPowerCut(t *testing.T) {
	t.Parallel()
	frame := func(n int) int { return logHeaderBytes + (n-1)*frameBytes }
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   int64 // rows; -1: refused
		relax  int64 // likewise, where commits are not synced
	}{
		"sound":                        {func(b []byte) []byte { return b }, 9, 9},
		"the last frame is torn":       {func(b []byte) []byte { return b[:len(b)-100] }, 8, 8},
		"the last frame is missing":    {func(b []byte) []byte { return b[:len(b)-frameBytes] }, 8, 8},
		"a bit of the last one":        {func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, 8, 8},
		"a bit of the one before":      {func(b []byte) []byte { b[len(b)-frameBytes-1] ^= 1; return b }, -1, 7},
		"a bit of an early one":        {func(b []byte) []byte { b[frame(4)+200] ^= 1; return b }, -1, 3},
		"the sum of an early one":      {func(b []byte) []byte { b[frame(4)+17] ^= 1; return b }, -1, 3},
		"an early one is nothing":      {func(b []byte) []byte { clear(b[frame(4):frame(5)]); return b }, -1, 3},
		"the header":                   {func(b []byte) []byte { b[20] ^= 1; return b }, -1, -1},
		"nothing is left":              {func([]byte) []byte { return nil }, -1, -1},
		"the header is left":           {func(b []byte) []byte { return b[:logHeaderBytes] }, -1, -1},
		"frames of an earlier log end": {func(b []byte) []byte { return append(b, otherSalt(b[frame(4):frame(6)])...) }, 9, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for relaxed, want := range map[bool]int64{false: c.want, true: c.relax} {
				path := owned(t, 9)
				if err := os.Remove(path + "-shm"); err != nil {
					t.Fatal(err)
				}
				anotherBoot(t, path)
				editLog(t, path, c.change)
				wantRows(t, path, Owner{Relaxed: relaxed}, want)
			}
		})
	}
}

// Without a power cut all writes are there, so any missing commit is noticed, also the last one.
func TestLogAfterAKill(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b []byte) []byte{
		"the last frame is torn":    func(b []byte) []byte { return b[:len(b)-100] },
		"the last frame is missing": func(b []byte) []byte { return b[:len(b)-frameBytes] },
		"a bit of the last one":     func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"another log":               func(b []byte) []byte { b[13]++; return b },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := owned(t, 9)
			editLog(t, path, change)
			wantRows(t, path, Owner{Relaxed: true}, -1)
		})
	}
	t.Run("sound", func(t *testing.T) {
		t.Parallel()
		path := owned(t, 9)
		wantRows(t, path, Owner{}, 9)
	})
}

// Without the index no one knows how long the log was, so a log without it is refused, however sound it looks. One of the two copies of the
// head is enough, because a kill may have come between the two.
func TestIndexOfALogThatIsInUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   int64
	}{
		"as it was":       {func(b []byte) []byte { return b }, 9},
		"the first head":  {func(b []byte) []byte { b[20] ^= 1; return b }, 9},
		"the second head": {func(b []byte) []byte { b[indexHeadBytes+20] ^= 1; return b }, 9},
		"both heads":      {func(b []byte) []byte { b[20] ^= 1; b[indexHeadBytes+20] ^= 1; return b }, -1},
		"empty":           {func([]byte) []byte { return nil }, -1},
		"cut off":         {func(b []byte) []byte { return b[:indexHeadBytes] }, -1},
		"just begun":      {func(b []byte) []byte { return b[:indexBegunBytes] }, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := owned(t, 9)
			b, err := os.ReadFile(path + "-shm")
			if err == nil {
				err = os.WriteFile(path+"-shm", c.change(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			wantRows(t, path, Owner{}, c.want)
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		path := owned(t, 9)
		if err := os.Remove(path + "-shm"); err != nil {
			t.Fatal(err)
		}
		wantRows(t, path, Owner{}, -1)
	})
}

func wantRows(t *testing.T, path string, o Owner, want int64) {
	t.Helper()
	n, err := rows(path, o)
	switch format, refused := errors.AsType[*queue.FormatError](err); {
	case want < 0 && (!refused || !strings.Contains(format.Advice, "restore")):
		t.Errorf("relaxed %v: got %d rows, %v; want a refusal that says what to do", o.Relaxed, n, err)
	case want >= 0 && (err != nil || n != want):
		t.Errorf("relaxed %v: got %d rows, %v; want %d", o.Relaxed, n, err, want)
	}
}

// anotherBoot writes into the file that it was opened in an earlier boot of the machine.
func anotherBoot(t *testing.T, path string) {
	t.Helper()
	c, err := dial(path, alone)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.mark()
	if err := errors.Join(err, c.Close()); err != nil || m.boot == "" {
		t.Skipf("the machine does not tell its boots apart (%v)", err)
	}
	before := m.sum()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := m
	other.boot = strings.Repeat("0", len(m.boot))
	text := strings.Replace(string(b), m.boot, other.boot, 1)
	text = strings.Replace(text, string(binary.BigEndian.AppendUint32(nil, uint32(before))), string(binary.BigEndian.AppendUint32(nil, uint32(other.sum()))), 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file whose mark cannot be removed at its close keeps its log, and opens again with all that was written.
func TestCloseWithoutWriting(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*Conn) error{
		"no writes":   func(c *Conn) error { return c.Exec("PRAGMA query_only = 1") },
		"a lost sync": func(c *Conn) error { c.Lose(errors.New("lost")); return nil },
	} {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, owned %v", name, own), func(t *testing.T) {
				t.Parallel()
				path := owned(t, 3)
				c := open(t, path, Options{Owner: &Owner{}})
				if own {
					if _, err := c.Own(queue.Identity{Generation: 1}); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(stop(c), c.Close()); err != nil {
					t.Fatal(err)
				}
				wantRows(t, path, Owner{}, 3)
			})
		}
	}
}

func otherSalt(frames []byte) []byte {
	frames = append([]byte(nil), frames...)
	frames[11]--
	frames[frameBytes+11]--
	return frames
}

// Frames that a rolled-back transaction left in the log, behind newer frames, are no damage.
func TestLogAfterARollback(t *testing.T) {
	t.Parallel()
	path := owned(t, 3)
	c := open(t, path, Options{Owner: &Owner{}, CacheKiB: 10})
	if _, err := c.Own(queue.Identity{Generation: 1}); err != nil {
		t.Fatal(err)
	}
	stmt, stop := prepare1(t, c, "INSERT INTO thing (n, bytes) VALUES (?, ?)"), errors.New("stop")
	err := c.Tx(func() error {
		for i := range int64(200) { // more than the cache holds: it goes to the log before the commit
			if _, err := stmt.Exec(100+i, make([]byte, 4000)); err != nil {
				return err
			}
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	for i := range int64(3) {
		if _, err := stmt.Exec(10+i, []byte("after")); err != nil {
			t.Fatal(err)
		}
	}
	log, err := readLog(path, 4096)
	if err != nil || log.broken != 0 || log.torn != 0 || log.frames == 0 {
		t.Errorf("the log is %+v, %v; want nothing wrong", log, err)
	}
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() < 100*frameBytes {
		t.Errorf("the log has %v bytes (%v): the transaction did not reach it, and the test shows nothing", info, err)
	}
}

// A file is taken only by the directory and the shard that it belongs to, and not when it is older or newer than the others.
func TestIdentity(t *testing.T) {
	t.Parallel()
	mine := queue.Identity{Directory: [16]byte{1}, Shard: 3, Generation: 7, Oldest: 5, Newest: 6}
	for name, c := range map[string]struct {
		file queue.Identity
		want string
	}{
		"of the last start": {queue.Identity{Directory: [16]byte{1}, Shard: 3, Generation: 6}, ""},
		"cut off":           {queue.Identity{Directory: [16]byte{1}, Shard: 3, Generation: 5}, ""},
		"directory":         {queue.Identity{Directory: [16]byte{2}, Shard: 3, Generation: 6}, "another data directory"},
		"shard":             {queue.Identity{Directory: [16]byte{1}, Shard: 4, Generation: 6}, "belongs to shard 0004"},
		"older":             {queue.Identity{Directory: [16]byte{1}, Shard: 3, Generation: 4}, "older copy"},
		"newer":             {queue.Identity{Directory: [16]byte{1}, Shard: 3, Generation: 7}, "newer than the catalogue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := owned(t, 1)
			conn := open(t, path, Options{Owner: &Owner{}})
			if _, err := conn.Own(c.file); err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			conn, err := Open(path, testKind, Options{Owner: &Owner{Identity: &mine}})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if id, err := conn.Own(mine); err != nil || id != mine {
					t.Errorf("Own = %+v, %v; want %+v", id, err, mine)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if _, ok := errors.AsType[*queue.FormatError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open = %v; want a refusal with %q", err, c.want)
			}
		})
	}
}
