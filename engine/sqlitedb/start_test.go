package sqlitedb

import (
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
)

// killed goes on with the files that a kill leaves in the folder.
func (x *counting) killed(folder string) {
	x.t.Helper()
	to := filepath.Join(folder, "x.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		x.copyOne(suffix, to)
	}
	if err := x.conn.Close(); err != nil {
		x.t.Fatal(err)
	}
	x.path = to
	x.own()
}

// A server that is killed after each start, before it writes anything else, does not make its files longer.
func TestKilledStartsTakeNoRoom(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	x := newCounting(t)
	x.commit(rand.New(rand.NewPCG(seed, 1)), 20)
	x.killed(t.TempDir())
	before := Size(x.path)
	for range 20 {
		x.killed(t.TempDir())
	}
	if after := Size(x.path); after != before {
		t.Errorf("the file and its log have %d bytes after 20 more starts, want %d as before them", after, before)
	}
	x.look()
}

// On a disk that is nearly full, a start copies a log back only if that does not make the file longer. Otherwise the log goes on, and is
// copied back when there is room.
func TestCopyingBackOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no file system of its own can be mounted here: %v", err)
	}
	x := newCounting(t)
	t.Cleanup(func() {
		if err := x.conn.Close(); err != nil {
			t.Error(err)
		}
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	random := rand.New(rand.NewPCG(1, 1))
	x.commit(random, 20)
	x.killed(disk)
	if index, err := x.conn.logIndex(); err != nil || !x.conn.back.spared || index.whole() {
		t.Fatalf("a log that makes the file longer: %+v, %v, spared %v; want it not to be copied back", index, err, x.conn.back.spared)
	}
	x.killed(t.TempDir()) // where there is room
	if index, err := x.conn.logIndex(); err != nil || x.conn.back.spared || index.frames != 1 {
		t.Fatalf("a log with enough room: %+v, %v, spared %v; want it to begin again", index, err, x.conn.back.spared)
	}
	x.commit(random, 20)
	x.killed(disk)
	if index, err := x.conn.logIndex(); err != nil || x.conn.back.spared || index.frames != 1 {
		t.Errorf("a log that does not make the file longer: %+v, %v, spared %v; want it to begin again", index, err, x.conn.back.spared)
	}
	x.look()
	made := &counting{t: t, path: filepath.Join(disk, "made.db")}
	if err := Create(made.path, testKind, nil); err != nil {
		t.Fatal(err)
	}
	if made.own(); made.conn.back.spared {
		t.Error("the log of a file that was just made is not copied back, so the file does not say that it is in use")
	}
	if err := made.conn.Close(); err != nil {
		t.Error(err)
	}
}
