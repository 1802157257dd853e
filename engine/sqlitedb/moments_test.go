package sqlitedb

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A main file that was copied before the log was copied back, and a log that was copied right after that, together are the database: the
// row that ends the log does not begin a new one.
func TestLogRightAfterItIsCopiedBack(t *testing.T) {
	t.Parallel()
	random, x := rand.New(rand.NewPCG(1, 1)), newCounting(t)
	x.commit(random, 20)
	c := x.copying(random)
	c.copyOne("", c.to)
	if whole, err := x.conn.copyBack(); err != nil || !whole {
		t.Fatalf("the log was copied back: %v, %v; want all of it", whole, err)
	}
	c.copyOne("-wal", c.to)
	c.copyOne("-shm", c.to)
	if c.check() {
		t.Error("the copy is refused; want it whole")
	}
}

// When another program copies the log back, SQLite begins the log again without a row that counts it. A main file that was copied before
// that lacks the pages that were copied back, so it is refused beside the new log.
func TestLogThatAnotherProgramCopiedBack(t *testing.T) {
	t.Parallel()
	random, x := rand.New(rand.NewPCG(1, 1)), newCounting(t)
	x.commit(random, 20)
	c := x.copying(random)
	c.copyOne("", c.to)
	other, err := dial(x.path, "mode=rw")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := other.copied()
	if err := errors.Join(err, other.Close()); err != nil || !whole {
		t.Fatalf("the other program copied the log back: %v, %v; want all of it", whole, err)
	}
	x.commit(random, 1)
	if index, err := x.conn.logIndex(); err != nil || index.frames > 2 {
		t.Fatalf("the log is %+v, %v; want one that began again", index, err)
	}
	c.history[x.n] = x.last
	c.copyOne("-wal", c.to)
	c.copyOne("-shm", c.to)
	if !c.check() {
		t.Error("the copy is taken, want it refused: no one can tell what its main file lacks")
	}
}

// A copy, or a kill, while a log begins finds only its head, or a part of its first frame. Such a log continues a main file that has all of
// the previous log, and no earlier one: the previous frames are still in the log's file, but are not used.
func TestLogThatIsBeingBegun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alone bool
		last  int // commits of the log before
	}{"a store": {false, 20}, "a journal": {true, 20}, "a short log of a store": {false, 1}, "a short log of a journal": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random, x := rand.New(rand.NewPCG(1, 1)), newCounting(t)
			if err := x.conn.Close(); err != nil {
				t.Fatal(err)
			}
			x.alone = c.alone
			x.own()
			var mains [][]byte
			for _, commits := range []int{20, c.last} {
				x.commit(random, commits)
				mains = append(mains, x.moment().main)
				if whole, err := x.conn.copyBack(); err != nil || !whole {
					t.Fatalf("the log was copied back: %v, %v; want all of it", whole, err)
				}
				mains = append(mains, x.moment().main)
			}
			log, want := x.moment().log, x.last
			x.commit(random, 1)
			begun := x.moment().log
			const torn = -1 // a power cut lost the head of the first frame, and left its page
			for _, there := range []int{logHeaderBytes, torn, logHeaderBytes + 8, logHeaderBytes + frameHeaderBytes + 2000} {
				if there == torn {
					copy(log[logHeaderBytes+frameHeaderBytes:], begun[logHeaderBytes+frameHeaderBytes:][:4096])
				} else {
					copy(log, begun[:there])
				}
				for i, main := range mains {
					path := filepath.Join(t.TempDir(), "x.db")
					for suffix, b := range map[string][]byte{"": main, "-wal": log, "-shm": make([]byte, indexBegunBytes)} {
						if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
							t.Fatal(err)
						}
					}
					got, err := rowsAt(path)
					if i < len(mains)-1 && c.last == 1 && there > logHeaderBytes+frameHeaderBytes {
						continue // nothing is left of the log before: no one can tell
					}
					if whole := i == len(mains)-1; whole != (err == nil) || whole && got != want {
						t.Errorf("main file %d of %d with %d bytes of the log that is begun: got %v, %v; want %v, or that it is refused",
							i+1, len(mains), there, got, err, want)
					}
				}
			}
		})
	}
}

// A close in good order copies the log back too. A main file that was copied before the close is refused beside the log of the next start,
// also while a reader keeps that log from being copied back.
func TestLogOfTheNextStart(t *testing.T) {
	t.Parallel()
	random, x := rand.New(rand.NewPCG(1, 1)), newCounting(t)
	x.commit(random, 20)
	c := x.copying(random)
	c.copyOne("", c.to)
	if err := x.conn.Close(); err != nil {
		t.Fatal(err)
	}
	release := x.pinned()
	x.own()
	c.copyOne("-wal", c.to)
	c.copyOne("-shm", c.to)
	if err := release(); err != nil {
		t.Error(err)
	}
	if !c.check() {
		t.Error("the copy is taken, want it refused: its main file lacks what the close copied back")
	}
}

// If a server is killed after the log got the row that ends it, and before the next commit, its next start ends the log with another row,
// and begins it again.
func TestKillBetweenTwoLogs(t *testing.T) {
	t.Parallel()
	x := newCounting(t)
	for range 3 {
		x.commit(rand.New(rand.NewPCG(1, 1)), 20)
		if whole, err := x.conn.copyBack(); err != nil || !whole {
			t.Fatalf("the log was copied back: %v, %v; want all of it", whole, err)
		}
		x.killed(t.TempDir())
		if index, err := x.conn.logIndex(); err != nil || index.frames != 1 || x.conn.back.pin != nil {
			t.Errorf("the log is %+v, %v, pinned %v; want one that began again", index, err, x.conn.back.pin != nil)
		}
		x.look()
	}
}
