// Package sqlitelog keeps a shard's journal in an SQLite database of its own: one row per
// batch, so that one append is one prepared INSERT and one sync of the write-ahead log.
// docs/formats/journal.md has the tables.
package sqlitelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// The bounds of what one Read takes out of the database at once while appends wait.
const (
	readRows  = 256
	readBytes = 1 << 20
)

const schema = `
CREATE TABLE batch (n INTEGER PRIMARY KEY, crc INTEGER NOT NULL, sum BLOB NOT NULL, bytes BLOB NOT NULL) STRICT;
CREATE TABLE trimmed (one INTEGER PRIMARY KEY CHECK (one = 1), upto INTEGER NOT NULL, sum BLOB NOT NULL) STRICT;
INSERT INTO trimmed (one, upto, sum) VALUES (1, 0, zeroblob(16));`

// Kind is the kind of the files of this package, "QueJ". An append writes whole pages to the log, and
// most have less than a kilobyte to say. Pages of 1,024 bytes write still less, but the appends of large
// calls take a quarter more processor time with them. A later version adds the step from the version
// before it to Migrations.
var Kind = sqlitedb.Kind{Name: "journal", ApplicationID: 0x5175654a, Unreleased: 0x51726e4a, Schema: schema,
	PageSize: 2048}

var _ journal.Journal = (*Log)(nil)

// Options say how a journal is opened.
type Options struct {
	Durability queue.Durability
	Identity   queue.Identity // that the file has, or gets if it has none
	MaxPages   int            // bound of the file in units of 4,096 bytes, 0 for none: how tests make a full disk
	// the file is not made this handle's own, but checked if there is an Identity: for reads before a
	// start, and for tests with two writers
	Shared bool
}

// Log is a journal in an SQLite file.
//
// The batches in the file, as the handle knows them:
//
//	  gone (reclaimed)      trimmed, not yet      readable             not known
//	                        reclaimed                                  to this handle
//	1 ────────────── low ─────────── trimmed ─────────────── tail ─ ─ ─ ─ ─ ─ ─ ►
//	                                     └ wanted may be ahead of it while a reader holds batches
//
// low <= trimmed <= tail. `sum` is the hash of the chain up to tail: the next append
// names it as its condition, and so fails if another writer was first. While `doubt`, the batch
// behind tail may or may not be in the file, and nothing is appended before that is known. mu
// guards all fields, and is held during every statement, because a connection of SQLite serves one
// at a time.
type Log struct {
	path string

	mu                                                           sync.Mutex // held during every statement
	conn                                                         *sqlitedb.Conn
	insert, read, before, sizes, remove, setLow, touch, extremes *sqlitedb.Stmt

	tail    journal.Position // the last batch that this handle knows, and the chain up to it
	sum     journal.Sum
	doubt   bool             // it is not known whether a batch behind it was written
	unknown journal.Sum      // then: of the chain with that batch
	low     journal.Position // rows up to here are gone; the next one is low+1
	trimmed journal.Position // batches up to here are not needed; low <= trimmed <= tail
	wanted  journal.Position // as Trim asked; trimmed is behind it while a reader holds batches
	holds   int              // how many readers hold batches
	closed  bool
	shared  bool
	// an append was refused: another writer may have the journal, and then that one trims it
	refused bool
	grown   chan struct{} // closed at the next append; nil: no one waits for it
	scratch [8]byte
	args    sumArgs

	fault func(write func() error) error // makes one try of an append, as a bad disk would; nil: it is just made
}

// Open opens the journal at path, or creates an empty one. The file is this Log's alone until
// Close: opening it twice is an error, after two seconds of waiting. A file that is damaged,
// foreign or of a version that is not known is a *queue.FormatError and stays as it was.
func Open(ctx context.Context, path string, o Options) (*Log, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	exists, err := sqlitedb.Exists(path)
	switch {
	// a reload: an empty journal would replace acknowledged batches
	case err == nil && !exists && o.Identity.Oldest > 0:
		err = &queue.FormatError{Path: path, Reason: "is missing", Advice: sqlitedb.AdviceDamaged}
	case err == nil && !exists:
		err = sqlitedb.Create(path, Kind, nil)
	}
	if err != nil {
		return nil, wrap("open", err)
	}
	how := sqlitedb.Options{Durability: o.Durability, MaxPages: o.MaxPages}
	how.Alone = !o.Shared
	if !o.Shared || o.Identity != (queue.Identity{}) {
		how.Owner = &sqlitedb.Owner{Identity: &o.Identity, Relaxed: o.Durability == queue.Relaxed}
	}
	conn, err := sqlitedb.Open(path, Kind, how)
	if err != nil {
		return nil, wrap("open", err)
	}
	l := &Log{path: path, conn: conn, shared: o.Shared}
	if err := l.start(o.Identity); err != nil {
		conn.Close()
		return nil, wrap("open", err)
	}
	return l, nil
}

func (l *Log) start(id queue.Identity) error {
	for stmt, sql := range map[**sqlitedb.Stmt]string{
		&l.insert: insertSQL,
		&l.read:   "SELECT n, crc, sum, bytes FROM batch WHERE n > ? ORDER BY n LIMIT 256",
		&l.before: "SELECT sum FROM batch WHERE n = ?1 UNION ALL SELECT sum FROM trimmed WHERE upto = ?1",
		&l.sizes:  "SELECT n, length(bytes) FROM batch WHERE n <= ? ORDER BY n LIMIT " + strconv.Itoa(trimRows),
		&l.remove: "DELETE FROM batch WHERE n <= ?",
		&l.setLow: "UPDATE trimmed SET upto = ?1, sum = (SELECT sum FROM batch WHERE n = ?1) WHERE one = 1",
		&l.touch:  "UPDATE trimmed SET upto = upto WHERE one = 1", // changes nothing, but syncs the log
		&l.extremes: `SELECT upto, (SELECT min(n) FROM batch), (SELECT max(n) FROM batch),
			coalesce((SELECT sum FROM batch ORDER BY n DESC LIMIT 1), sum) FROM trimmed WHERE one = 1`,
	} {
		var err error
		if *stmt, err = l.conn.Prepare(sql); err != nil {
			return err
		}
	}
	x, err := l.locate()
	if err != nil {
		return err
	}
	l.low, l.trimmed, l.tail, l.sum = x.low, x.low, x.tail, x.sum
	if !l.shared {
		_, err = l.conn.Own(id)
	}
	return err
}

// extent is where a journal begins and ends.
type extent struct {
	low, tail journal.Position
	sum       journal.Sum // at the tail
}

func (l *Log) locate() (x extent, err error) {
	found := false
	err = l.extremes.Query(func(r sqlitedb.Row) (bool, error) {
		if r[0] == nil || r.Int(0) < 0 {
			return false, l.damaged("has lost its record of what is trimmed")
		}
		upTo, first, last := r.Int(0), r.Int(1), r.Int(2)
		if r[1] == nil {
			first, last = upTo+1, upTo
		}
		if first != upTo+1 {
			return false, l.damaged(fmt.Sprintf("begins with batch %d after everything up to %d was trimmed", first,
				upTo))
		}
		found = true
		x.low, x.tail = journal.Position(upTo), journal.Position(last)
		return false, l.sumOf(&x.sum, r.Blob(3), last)
	})
	if err == nil && !found {
		err = l.damaged("has lost its record of what is trimmed")
	}
	return x, err
}

// sumOf takes a sum out of a row.
func (l *Log) sumOf(sum *journal.Sum, b []byte, at int64) error {
	if copy(sum[:], b) != len(sum) || len(b) != len(sum) {
		return l.damaged(fmt.Sprintf("has no sum of its batches up to %d", at))
	}
	return nil
}

// sumAt is the sum of the chain up to a batch that is there, or that was the last one to
// be trimmed. false: there is none.
func (l *Log) sumAt(at journal.Position) (sum journal.Sum, found bool, err error) {
	err = l.before.Query(func(r sqlitedb.Row) (bool, error) {
		found = true
		return false, l.sumOf(&sum, r.Blob(0), int64(at))
	}, int64(at))
	return sum, found, err
}

// checksum covers the position too, so that a batch in another's place is found. It is
// signed because SQLite stores small signed numbers in four bytes.
func (l *Log) checksum(pos journal.Position, batch []byte) int32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint64(l.scratch[:], uint64(pos))
	return int32(crc32.Update(crc32.Checksum(l.scratch[:], table), table, batch))
}

// entry is a batch that was read, and the chain up to it.
type entry struct {
	pos   journal.Position
	sum   journal.Sum
	batch []byte
}

// Read implements journal.Journal.
func (l *Log) Read(ctx context.Context, after journal.Position, fn func(journal.Position, []byte) error) error {
	var slice []entry
	var last *journal.Sum
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if slice, err = l.readSome(slice[:0], after, last); err != nil || len(slice) == 0 {
			return err
		}
		for i := range slice {
			if err := fn(slice[i].pos, slice[i].batch); err != nil {
				return err
			}
			after = slice[i].pos
		}
		last = &journal.Sum{}
		*last = slice[len(slice)-1].sum
	}
}

// readSome reads some batches behind `after`, where the sum of the chain is `before`; nil:
// it is to be looked up.
//
// The lock is held for one slice of rows only. A replay of a large journal would otherwise stop all
// appends, for example while a backup reads.
func (l *Log) readSome(slice []entry, after journal.Position, before *journal.Sum) ([]entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after < l.trimmed {
		return nil, fmt.Errorf("sqlitelog: read: batch %d: %w", after+1, journal.ErrTrimmed)
	}
	sum, bytes := journal.Sum{}, 0
	if before != nil {
		sum = *before
	} else if at, found, err := l.sumAt(after); err != nil || !found { // nothing can be behind a missing batch
		return nil, wrap("read", err)
	} else {
		sum = at
	}
	err := l.read.Query(func(r sqlitedb.Row) (bool, error) {
		x := entry{pos: journal.Position(r.Int(0)), batch: r.Blob(3)}
		if want := after + journal.Position(len(slice)) + 1; x.pos != want {
			return false, l.damaged(fmt.Sprintf("has no batch %d, but a batch %d", want, x.pos))
		}
		if l.checksum(x.pos, x.batch) != int32(r.Int(1)) {
			return false, l.damaged(fmt.Sprintf("has a damaged batch %d: its checksum does not match", x.pos))
		}
		if err := l.sumOf(&x.sum, r.Blob(2), r.Int(0)); err != nil {
			return false, err
		}
		if sum = sum.Next(x.pos, x.batch); sum != x.sum {
			return false, l.damaged(fmt.Sprintf("has a batch %d that does not follow the one before it: its sum does "+
				"not match", x.pos))
		}
		slice = append(slice, x)
		bytes += len(x.batch)
		return bytes < readBytes && len(slice) < readRows, l.learn(x.pos, x.sum)
	}, int64(after))
	if errors.Is(err, journal.ErrConflict) {
		return nil, err
	}
	return slice, wrap("read", err)
}

// learn notes that the journal has a batch. It is a conflict if this handle knows another one there.
func (l *Log) learn(at journal.Position, sum journal.Sum) error {
	switch {
	case at == l.tail && sum != l.sum:
		return fmt.Errorf("sqlitelog: read: batch %d is another one: %w", at, journal.ErrConflict)
	case at > l.tail:
		l.tail, l.sum, l.doubt = at, sum, false
	}
	return nil
}

// Trimmed implements journal.Journal.
func (l *Log) Trimmed() journal.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trimmed
}

// Tail implements journal.Journal.
func (l *Log) Tail(ctx context.Context) (journal.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x, err := l.locate()
	return x.tail, wrap("tail", err)
}

// waitShared is how often a waiting caller looks at a journal that others may append to.
const waitShared = 20 * time.Millisecond

// Wait implements journal.Journal.
func (l *Log) Wait(ctx context.Context, after journal.Position) error {
	for {
		tail, err := l.Tail(ctx)
		if err != nil || tail > after {
			return err
		}
		l.mu.Lock()
		if l.grown == nil {
			l.grown = make(chan struct{})
		}
		grown, mine := l.grown, l.tail
		l.mu.Unlock()
		if mine > after {
			continue // it was appended just now
		}
		var others <-chan time.Time
		if l.shared {
			others = time.After(waitShared)
		}
		select {
		case <-ctx.Done():
		case <-grown:
		case <-others:
		}
	}
}

// Trim implements journal.Journal.
func (l *Log) Trim(ctx context.Context, upTo journal.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	l.wanted = max(l.wanted, min(upTo, l.tail))
	l.trim()
	return nil
}

// trim lets go of batches that are not needed, unless a reader holds them.
func (l *Log) trim() {
	if l.holds == 0 {
		l.trimmed = max(l.trimmed, l.wanted)
	}
}

// Hold implements journal.Journal.
func (l *Log) Hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holds--
		l.trim()
	})
}

// SetDurability implements journal.Journal.
func (l *Log) SetDurability(d queue.Durability) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return wrap("set durability", l.conn.SetDurability(d))
}

// SetMaxPages bounds the file to n times 4,096 bytes from now on, 0 for no bound: how
// tests fill a disk and make room again.
func (l *Log) SetMaxPages(n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return wrap("set max pages", l.conn.SetMaxPages(n))
}

// Size implements journal.Journal.
func (l *Log) Size() int64 { return sqlitedb.Size(l.path) }

// Close implements journal.Journal.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for err == nil && l.low < l.trimmed && !l.doubt && !l.refused && !l.closed {
		before, low := l.low, l.low
		if err = l.conn.Tx(func() (err error) { low, err = l.reclaim(); return err }); err == nil {
			l.low = low
		}
		if low == before {
			break
		}
	}
	if err == nil && !l.doubt && !l.refused && !l.shared && !l.closed {
		l.shrink()
	}
	l.closed = true
	l.tellGrown() // a waiting caller learns that the log is closed
	return wrap("close", errors.Join(err, l.conn.Close()))
}

// keepFree is how many free bytes the file keeps for the batches to come: about twice the batches
// between two checkpoints.
const keepFree = 32 << 20

// shrink gives back to the disk the room that the file took while it could not be trimmed, as when no
// checkpoint succeeded. Only Close does it, as appends would have to wait. A failure leaves the file as
// it was: it is only too long.
func (l *Log) shrink() {
	if _, free, err := l.conn.Usage(); err == nil && free > keepFree {
		_, _ = l.conn.GiveBack(free)
	}
}

func (l *Log) damaged(reason string) error {
	return &queue.FormatError{Path: l.path, Reason: reason, Advice: sqlitedb.AdviceDamaged}
}

// wrap turns a failure of the database into the journal's.
//
// Any failure of an append that is not a certain refusal counts as unknown: a caller that hears "not
// done" may do the work again elsewhere.
func wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	var meaning error
	switch sqlitedb.ClassOf(err) {
	case sqlitedb.Damaged:
		if format, ok := errors.AsType[*queue.FormatError](err); ok {
			return format
		}
		meaning = journal.ErrUnknown
	case sqlitedb.Full:
		meaning = journal.ErrFull
	case sqlitedb.SyncLost:
		meaning = journal.ErrSync
	case sqlitedb.Taken:
		meaning = journal.ErrConflict
	case sqlitedb.Refused: // certainly, and it would be again
		return fmt.Errorf("sqlitelog: %s: %w", operation, err)
	case sqlitedb.InUse:
		return fmt.Errorf("sqlitelog: %s: the file is in use, by another process or by a journal that was not "+
			"closed: %w", operation, err)
	default:
		if operation != "append" {
			return fmt.Errorf("sqlitelog: %s: %w", operation, err)
		}
		meaning = journal.ErrUnknown
	}
	return fmt.Errorf("sqlitelog: %s: %w: %w", operation, meaning, err)
}
