package sqlitedb

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quern-queue/quern/engine/queue"
)

const countedRows = 8

// counting is a database in use. Each commit raises the first row by one and gives another row the same number. Every row has its own page,
// so the structure of the database does not change, and no page depends on another.
type counting struct {
	t    *testing.T
	conn *Conn
	put  *Stmt
	path string
	// it is opened as a journal is, whose log SQLite copies back
	alone bool
	n     int64 // commits
	last  [countedRows]int64
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	x := &counting{t: t, path: create(t)}
	x.own()
	for row := range countedRows {
		if _, err := x.put.Exec(int64(row), "0", make([]byte, 3000)); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// own opens the database as its owner.
func (x *counting) own() {
	x.t.Helper()
	x.conn = open(x.t, x.path, Options{Durability: queue.Relaxed, Alone: x.alone, Owner: &Owner{Identity: &queue.Identity{Generation: 1, Newest: 1}}})
	if _, err := x.conn.Own(queue.Identity{Generation: 1, Newest: 1}); err != nil {
		x.t.Fatal(err)
	}
	x.put = prepare1(x.t, x.conn, "INSERT OR REPLACE INTO thing (n, name, bytes) VALUES (?, ?, ?)")
}

// commit makes some commits, at random rows but the first.
func (x *counting) commit(random *rand.Rand, times int) {
	x.t.Helper()
	for range times {
		x.n++
		row := 1 + random.IntN(countedRows-1)
		err := x.conn.Tx(func() error {
			for _, row := range []int{0, row} {
				x.last[row] = x.n
				b := make([]byte, 3000)
				b[0], b[1] = byte(x.n), byte(x.n>>8)
				if _, err := x.put.Exec(int64(row), "", b); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			x.t.Fatal(err)
		}
	}
}

// copyOne copies one of the files, as far as it is there.
func (x *counting) copyOne(suffix, to string) {
	x.t.Helper()
	b, err := os.ReadFile(x.path + suffix)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = os.WriteFile(to+suffix, b, 0o600)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// rowsAt are the numbers of the rows in a copy, which is opened as a start does.
func rowsAt(path string) (got [countedRows]int64, err error) {
	c, err := Open(path, testKind, Options{Owner: &Owner{Identity: &queue.Identity{Generation: 1, Newest: 1}}})
	if err != nil {
		return got, err
	}
	stmt, err := c.Prepare("SELECT n, bytes FROM thing")
	if err == nil {
		err = stmt.Query(func(r Row) (bool, error) {
			got[r.Int(0)] = int64(r.Blob(1)[0]) + int64(r.Blob(1)[1])<<8
			return true, nil
		})
	}
	return got, errors.Join(err, c.Close())
}

// copying copies the files of a database one after the other, while commits go on.
type copying struct {
	*counting
	random  *rand.Rand
	to      string
	history map[int64][countedRows]int64 // what the rows were after each commit since it began
}

func (x *counting) copying(random *rand.Rand) *copying {
	return &copying{x, random, filepath.Join(x.t.TempDir(), "x.db"), map[int64][countedRows]int64{x.n: x.last}}
}

// meanwhile makes up to `most` commits.
func (c *copying) meanwhile(most int) {
	for range c.random.IntN(2) * c.random.IntN(most) {
		c.commit(c.random, 1)
		c.history[c.n] = c.last
	}
}

// copySlowly copies the main file from its beginning to its end, with commits meanwhile.
func (c *copying) copySlowly() {
	c.t.Helper()
	c.copyOne("", c.to)
	early, err := os.ReadFile(c.to)
	if err != nil {
		c.t.Fatal(err)
	}
	c.meanwhile(60)
	c.copyOne("", c.to)
	f, err := os.OpenFile(c.to, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(early[:min(len(early), (3+c.random.IntN(countedRows))*4096)], 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// check opens the copy. It is refused, or is the database of one moment of the copying.
func (c *copying) check() (refused bool) {
	c.t.Helper()
	got, err := rowsAt(c.to)
	if err != nil {
		return true
	}
	if want, is := c.history[got[0]]; !is || got != want {
		c.t.Fatalf("the copy has %v; want one of the %d moments since the copying began, then it was %v", got, len(c.history), want)
	}
	return false
}

// pinned has a reader that keeps the log from beginning again.
func (x *counting) pinned() (release func() error) {
	x.t.Helper()
	s, err := Prepare(x.path, testKind)
	if err == nil {
		err = s.Take()
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return s.Close
}

// The files of a database that is written to, copied one after the other in any order, with any number of commits between, are refused, or
// are the database of one moment since the copying began. SQLite alone would take most of them: a main file from before a log began again,
// and the log from after, both lack the pages in between.
//
//quern:sequential
func TestCopiesOfDifferentMoments(t *testing.T) {
	t.Parallel()
	for _, order := range [][3]string{{"", "-wal", "-shm"}, {"", "-shm", "-wal"}, {"-wal", "", "-shm"}, {"-wal", "-shm", ""},
		{"-shm", "", "-wal"}, {"-shm", "-wal", ""}} {
		t.Run(strings.Join(order[:], ","), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random, x := rand.New(rand.NewPCG(seed, 1)), newCounting(t)
			x.conn.back.least, x.conn.back.due = 40, 40
			const rounds = 100
			refused := 0
			for range rounds {
				x.commit(random, random.IntN(30))
				release := func() error { return nil }
				if random.IntN(3) == 0 {
					release = x.pinned()
					x.commit(random, 25)
				}
				c := x.copying(random)
				for i, suffix := range order {
					if i == 0 && suffix == "" && random.IntN(2) == 0 {
						c.copySlowly()
					} else {
						c.copyOne(suffix, c.to)
					}
					if err := release(); err != nil {
						t.Fatal(err)
					}
					release = func() error { return nil }
					if i < 2 {
						c.meanwhile(60)
					}
				}
				if c.check() {
					refused++
				}
			}
			if refused == 0 || refused == rounds {
				t.Errorf("%d of %d copies were refused: the test shows nothing", refused, rounds)
			}
		})
	}
}

// look copies the files as a kill would leave them now, and opens the copy: all that was committed is in it.
func (x *counting) look() (killed string) {
	x.t.Helper()
	killed = filepath.Join(x.t.TempDir(), "x.db")
	again := filepath.Join(x.t.TempDir(), "x.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		x.copyOne(suffix, killed)
		x.copyOne(suffix, again)
	}
	if got, err := rowsAt(again); err != nil || got != x.last {
		x.t.Fatalf("got %v, %v; want %v", got, err, x.last)
	}
	return killed
}

// steps are the steps of copyBack, one by one.
func (x *counting) steps() []func() error {
	copied := func() error { _, err := x.conn.copied(); return err }
	return []func() error{
		x.conn.pinLog, copied,
		func() error { return x.conn.putStep(sealedStep) },
		x.conn.unpinLog, copied,
		func() error { x.conn.back.sealed = true; return x.conn.beginLog() },
	}
}

// Files that a kill leaves at any moment, also in the middle of copying the log back, open with all that was committed. So do files that a
// kill of the next start leaves.
func TestKillWhileTheLogIsCopiedBack(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random, x := rand.New(rand.NewPCG(seed, 1)), newCounting(t)
	x.conn.back.least, x.conn.back.due = 20, 20
	for range 60 {
		x.commit(random, 1)
		x.look()
	}
	for steps := range len(x.steps()) + 1 {
		x.commit(random, 1+random.IntN(8))
		x.conn.back.busy = true
		for _, step := range x.steps()[:steps] {
			if err := step(); err != nil {
				t.Fatal(err)
			}
			x.look()
		}
		killed := x.look()
		if err := x.conn.Close(); err != nil {
			t.Fatal(err)
		}
		x.path = killed
		x.own()
		x.look()
	}
	x.commit(random, 30)
	x.look()
}

// moment is a database and its files at one time.
type moment struct {
	main, log, index []byte
	n                int64
	rows             [countedRows]int64
}

func (x *counting) moment() (m moment) {
	x.t.Helper()
	for suffix, b := range map[string]*[]byte{"": &m.main, "-wal": &m.log, "-shm": &m.index} {
		var err error
		if *b, err = os.ReadFile(x.path + suffix); err != nil {
			x.t.Fatal(err)
		}
	}
	m.n, m.rows = x.n, x.last
	return m
}

// history makes commits and copies the log back step by step, while readers come and go. It returns every moment.
func (x *counting) history(random *rand.Rand) (all []moment) {
	x.t.Helper()
	readers := map[int]func() error{}
	x.conn.back.busy = true // only this function does the steps
	all = append(all, x.moment())
	for range 8 {
		steps := x.steps()
		for at := 0; at < len(steps); all = append(all, x.moment()) {
			switch slot := random.IntN(2); {
			case random.IntN(3) == 0 && readers[slot] == nil:
				readers[slot] = x.pinned()
			case random.IntN(3) == 0 && readers[slot] != nil:
				if err := readers[slot](); err != nil {
					x.t.Fatal(err)
				}
				delete(readers, slot)
			case at == 0 && random.IntN(4) > 0:
				x.commit(random, 1)
			default:
				at = x.step(steps, at)
			}
		}
	}
	for _, release := range readers {
		if err := release(); err != nil {
			x.t.Fatal(err)
		}
	}
	return all
}

// step takes one step, and returns the next one: readers may end the copying back before the log is sealed, or before it begins again.
func (x *counting) step(steps []func() error, at int) (next int) {
	x.t.Helper()
	index, err := x.conn.logIndex()
	next = at + 1
	switch {
	case at == 0 && index.whole(), at == 5 && !index.whole():
		return len(steps)
	case at == 2 && !index.whole():
		at, next = 3, len(steps)
	}
	if err := errors.Join(err, steps[at]()); err != nil {
		x.t.Fatal(err)
	}
	return next
}

// A copied main file, of which a part may be later than the rest, is beside a log that was copied later. They are refused, or are the
// database of the moment of the log. That holds in every step of copying the log back, wherever readers prevent it.
//
//quern:sequential
func TestLogOfALaterMoment(t *testing.T) {
	t.Parallel()
	refused, taken := 0, 0
	for range 4 {
		seed := rand.Uint64()
		random, x := rand.New(rand.NewPCG(seed, 1)), newCounting(t)
		all := x.history(random)
		for range 150 {
			i := random.IntN(len(all))
			j := i + random.IntN(min(len(all)-i, 40))
			k := i + random.IntN(j-i+1)
			main, pages := bytes.Clone(all[k].main), 4096*(3+random.IntN(countedRows))
			copy(main, all[i].main[:min(pages, len(all[i].main), len(main))])
			path := filepath.Join(t.TempDir(), "x.db")
			for suffix, b := range map[string][]byte{"": main, "-wal": all[j].log, "-shm": all[j].index} {
				if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := rowsAt(path)
			switch {
			case err != nil && i == j:
				t.Fatalf("seed %d: moment %d of %d is refused: %v", seed, i, len(all), err)
			case err != nil:
				refused++
			case got != all[j].rows:
				t.Fatalf("seed %d: main files of the moments %d and %d with the log of %d, of %d, have %v; want %v", seed, i, k, j, len(all), got,
					all[j].rows)
			default:
				taken++
			}
		}
	}
	if refused == 0 || taken == 0 {
		t.Errorf("%d were refused and %d taken: the test shows nothing", refused, taken)
	}
}

// If the row that ends a log cannot be written, as on a full disk, the log goes on: if it began again, a kill would leave a log that the
// main file does not know. The row is written as soon as possible.
func TestLogThatCannotBeEnded(t *testing.T) {
	t.Parallel()
	random, x := rand.New(rand.NewPCG(1, 1)), newCounting(t)
	x.conn.back.busy = true
	x.commit(random, 10)
	if err := x.conn.Exec("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	if whole, err := x.conn.copyBack(); err == nil || whole || x.conn.back.pin == nil {
		t.Fatalf("the log was copied back: %v, %v, pinned %v; want it to fail", whole, err, x.conn.back.pin != nil)
	}
	if err := x.conn.Exec("PRAGMA query_only = 0"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		x.look()
		x.commit(random, 1)
	}
	x.look()
	if whole, err := x.conn.copyBack(); err != nil || !whole || x.conn.back.pin != nil {
		t.Errorf("the log was copied back: %v, %v, pinned %v; want all of it", whole, err, x.conn.back.pin != nil)
	}
	x.commit(random, 5)
	x.look()
}

// While a database is open, its locks show that to other processes. Reading the index must not end them.
func TestIndexKeepsItsLocks(t *testing.T) {
	t.Parallel()
	x := newCounting(t)
	x.conn.back.least, x.conn.back.due = 5, 5
	x.commit(rand.New(rand.NewPCG(1, 1)), 20)
	f, err := os.OpenFile(x.path+"-shm", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	const deadManSwitch = 128 // the byte that SQLite locks for as long as a connection is open
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: deadManSwitch, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if lock.Type != unix.F_RDLCK {
		t.Errorf("the lock of an open database is of type %d, want that of a reader, %d", lock.Type, unix.F_RDLCK)
	}
}
