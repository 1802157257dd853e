// Package sqlitelog keeps a shard's journal in an SQLite database of its own: one row per batch, so that one append is one
// prepared INSERT and one sync of the write-ahead log. docs/formats/journal.md has the tables.
package sqlitelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

const (
	// What one append reclaims at most: enough to keep ahead of the appends, little enough not to be felt by who waits for it.
	trimRows  = 32
	trimBytes = 1 << 20
	// What one Read takes out of the database at once while appends wait.
	readRows  = 256
	readBytes = 1 << 20
)

const schema = `
CREATE TABLE batch (n INTEGER PRIMARY KEY, crc INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
CREATE TABLE trimmed (one INTEGER PRIMARY KEY CHECK (one = 1), upto INTEGER NOT NULL) STRICT;
INSERT INTO trimmed (one, upto) VALUES (1, 0);
` + toVersion2 + toVersion3

const (
	// toVersion2 is what version 1 did not have.
	toVersion2 = sqlitedb.IdentityTable
	// Up to version 2 all files had pages of 4,096 bytes, and programs that know no later version take a log of others for a damaged one.
	toVersion3 = `
PRAGMA user_version = 3;`
)

// kind is what the files of this package are: "QrnJ". An append writes whole pages to the log, and most have less than a kilobyte to say.
// Pages of 1,024 bytes write still less, but the appends of large calls take a quarter more processor time with them.
var kind = sqlitedb.Kind{Name: "journal", ApplicationID: 0x51726e4a, Version: 3, PageSize: 2048}

var _ journal.Journal = (*Log)(nil)

// Options say how a journal is opened.
type Options struct {
	Durability queue.Durability
	Identity   queue.Identity // that the file has, or gets if it has none
	MaxPages   int            // bound of the file in units of 4,096 bytes, 0 for none: how tests make a full disk
}

// Log is a journal in an SQLite file.
type Log struct {
	path string

	mu                                            sync.Mutex // held during every statement
	conn                                          *sqlitedb.Conn
	insert, read, sizes, remove, setLow, extremes *sqlitedb.Stmt

	tail    journal.Position
	low     journal.Position // rows up to here are gone; the next one is low+1
	trimmed journal.Position // batches up to here are not needed; low <= trimmed <= tail
	wanted  journal.Position // what Trim was told; trimmed is behind it while a reader holds what it reads
	holds   int              // readers that do
	doubt   bool             // an append ended in ErrUnknown: the database knows the tail, we do not
	scratch [8]byte
}

// Open opens the journal at path, or creates an empty one. The file is this Log's alone until Close: opening it twice is an
// error, after two seconds of waiting. A file that is damaged, foreign or of a newer version is a *journal.FormatError and
// stays as it was.
func Open(ctx context.Context, path string, o Options) (*Log, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	exists, err := sqlitedb.Exists(path)
	switch {
	case err == nil && !exists && o.Identity.Oldest > 0: // a reload: an empty journal would take the place of what was acknowledged
		err = &sqlitedb.FormatError{Path: path, Reason: "is missing", Advice: sqlitedb.AdviceDamaged}
	case err == nil && !exists:
		err = sqlitedb.Create(path, kind, build)
	}
	if err != nil {
		return nil, wrap("open", err)
	}
	conn, err := sqlitedb.Open(path, kind, sqlitedb.Options{
		Durability: o.Durability, MaxPages: o.MaxPages, Alone: true,
		Owner: &sqlitedb.Owner{Identity: &o.Identity, Relaxed: o.Durability == queue.Relaxed},
	})
	if err != nil {
		return nil, wrap("open", err)
	}
	l := &Log{path: path, conn: conn}
	if err := l.start(o.Identity); err != nil {
		conn.Close()
		return nil, wrap("open", err)
	}
	return l, nil
}

func build(temporary string) error {
	conn, err := sqlitedb.OpenUnfinished(temporary)
	if err != nil {
		return err
	}
	return errors.Join(conn.Exec("BEGIN; "+schema+" COMMIT"), conn.Close())
}

func (l *Log) start(id queue.Identity) error {
	if err := l.upgrade(); err != nil {
		return err
	}
	for stmt, sql := range map[**sqlitedb.Stmt]string{
		&l.insert:   "INSERT INTO batch (n, crc, bytes) VALUES (?, ?, ?)",
		&l.read:     "SELECT n, crc, bytes FROM batch WHERE n > ? ORDER BY n LIMIT 256",
		&l.sizes:    "SELECT n, length(bytes) FROM batch WHERE n <= ? ORDER BY n LIMIT " + strconv.Itoa(trimRows),
		&l.remove:   "DELETE FROM batch WHERE n <= ?",
		&l.setLow:   "UPDATE trimmed SET upto = ? WHERE one = 1",
		&l.extremes: "SELECT (SELECT upto FROM trimmed WHERE one = 1), (SELECT min(n) FROM batch), (SELECT max(n) FROM batch)",
	} {
		var err error
		if *stmt, err = l.conn.Prepare(sql); err != nil {
			return err
		}
	}
	if err := l.locate(); err != nil {
		return err
	}
	_, err := l.conn.Own(id)
	return err
}

// upgrade brings a file of an older version up to date.
func (l *Log) upgrade() error {
	version, err := l.conn.Int("PRAGMA user_version")
	if err != nil || version >= int64(kind.Version) {
		return err
	}
	steps := toVersion3
	if version < 2 {
		steps = toVersion2 + steps
	}
	return l.conn.Exec("BEGIN IMMEDIATE; " + steps + " COMMIT")
}

// locate reads where the journal begins and ends.
func (l *Log) locate() error {
	found := false
	err := l.extremes.Query(func(r sqlitedb.Row) (bool, error) {
		if r[0] == nil || r.Int(0) < 0 {
			return false, l.damaged("has lost its record of what is trimmed")
		}
		upTo, first, last := r.Int(0), r.Int(1), r.Int(2)
		if r[1] == nil {
			first, last = upTo+1, upTo
		}
		if first != upTo+1 {
			return false, l.damaged(fmt.Sprintf("begins with batch %d after everything up to %d was trimmed", first, upTo))
		}
		found = true
		l.low, l.tail = journal.Position(upTo), journal.Position(last)
		l.trimmed = max(l.trimmed, l.low)
		l.doubt = false
		return false, nil
	})
	if err == nil && !found {
		err = l.damaged("has lost its tables' rows")
	}
	return err
}

// Append implements journal.Journal.
func (l *Log) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(batch) > journal.MaxBatchBytes {
		return 0, fmt.Errorf("sqlitelog: append: a batch of %d bytes; at most %d are taken", len(batch), journal.MaxBatchBytes)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubt {
		if err := l.locate(); err != nil {
			return 0, wrap("append", err)
		}
	}
	if expect != l.tail {
		return 0, fmt.Errorf("sqlitelog: append: the tail is %d, not %d: %w", l.tail, expect, journal.ErrConflict)
	}
	next, low := expect+1, l.low
	var err error
	if l.trimmed == l.low {
		err = l.write(next, batch)
	} else {
		err = l.conn.Tx(func() (err error) {
			// Reclaimed first, so that the new row can take the room.
			if low, err = l.reclaim(); err != nil {
				return err
			}
			return l.write(next, batch)
		})
	}
	if err != nil {
		return 0, l.failed(err)
	}
	l.tail, l.low = next, low
	return next, nil
}

func (l *Log) write(pos journal.Position, batch []byte) error {
	_, err := l.insert.Exec(int64(pos), int64(l.checksum(pos, batch)), batch)
	return err
}

// checksum covers the position too, so that a batch in another's place is found. It is signed because SQLite stores small
// signed numbers in four bytes.
func (l *Log) checksum(pos journal.Position, batch []byte) int32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint64(l.scratch[:], uint64(pos))
	return int32(crc32.Update(crc32.Checksum(l.scratch[:], table), table, batch))
}

// reclaim deletes one slice of the trimmed rows and returns the new low. It runs in a transaction; the caller sets l.low after
// the commit.
func (l *Log) reclaim() (low journal.Position, err error) {
	low = l.low
	room := int64(trimBytes)
	err = l.sizes.Query(func(r sqlitedb.Row) (bool, error) {
		low = journal.Position(r.Int(0))
		room -= r.Int(1)
		return room > 0, nil
	}, int64(l.trimmed))
	if err != nil || low == l.low {
		return low, err
	}
	if _, err = l.remove.Exec(int64(low)); err != nil {
		return low, err
	}
	_, err = l.setLow.Exec(int64(low))
	return low, err
}

// failed sorts the failure of an append.
func (l *Log) failed(err error) error {
	switch sqlitedb.ClassOf(err) {
	case sqlitedb.Full:
	case sqlitedb.Taken:
		l.doubt = true // another writer appended: look again before the next one
	default:
		l.doubt = true
	}
	return wrap("append", err)
}

// Read implements journal.Journal.
func (l *Log) Read(ctx context.Context, after journal.Position, fn func(journal.Position, []byte) error) error {
	type entry struct {
		pos   journal.Position
		batch []byte
	}
	var slice []entry
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		slice = slice[:0]
		bytes := 0
		l.mu.Lock()
		trimmed, err := l.trimmed, error(nil)
		if after >= trimmed {
			err = l.read.Query(func(r sqlitedb.Row) (bool, error) {
				pos, batch := journal.Position(r.Int(0)), r.Blob(2)
				if want := after + journal.Position(len(slice)) + 1; pos != want {
					return false, l.damaged(fmt.Sprintf("has no batch %d, but a batch %d", want, pos))
				}
				if l.checksum(pos, batch) != int32(r.Int(1)) {
					return false, l.damaged(fmt.Sprintf("has a damaged batch %d: its checksum does not match", pos))
				}
				slice = append(slice, entry{pos, batch})
				bytes += len(batch)
				return bytes < readBytes && len(slice) < readRows, nil
			}, int64(after))
		}
		l.mu.Unlock()
		if after < trimmed {
			return fmt.Errorf("sqlitelog: read: batch %d: %w", after+1, journal.ErrTrimmed)
		}
		if err != nil {
			return wrap("read", err)
		}
		if len(slice) == 0 {
			return nil
		}
		for _, e := range slice {
			if err := fn(e.pos, e.batch); err != nil {
				return err
			}
			after = e.pos
		}
	}
}

// Tail implements journal.Journal.
func (l *Log) Tail(ctx context.Context) (journal.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubt {
		if err := l.locate(); err != nil {
			return 0, wrap("tail", err)
		}
	}
	return l.tail, nil
}

// Trim implements journal.Journal.
func (l *Log) Trim(ctx context.Context, upTo journal.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubt {
		if err := l.locate(); err != nil {
			return wrap("trim", err)
		}
	}
	l.wanted = max(l.wanted, min(upTo, l.tail))
	l.trim()
	return nil
}

// trim lets go of what is not needed, unless a reader holds it.
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

// SetMaxPages bounds the file to n times 4,096 bytes from now on, 0 for no bound: how tests fill a disk and make room again.
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
	for err == nil && l.low < l.trimmed && !l.doubt {
		before, low := l.low, l.low
		if err = l.conn.Tx(func() (err error) { low, err = l.reclaim(); return err }); err == nil {
			l.low = low
		}
		if low == before {
			break
		}
	}
	return wrap("close", errors.Join(err, l.conn.Close()))
}

func (l *Log) damaged(reason string) error {
	return &sqlitedb.FormatError{Path: l.path, Reason: reason, Advice: sqlitedb.AdviceDamaged}
}

// wrap turns a failure of the database into the journal's.
func wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	var meaning error
	switch sqlitedb.ClassOf(err) {
	case sqlitedb.Damaged:
		if f, ok := errors.AsType[*sqlitedb.FormatError](err); ok {
			return &journal.FormatError{Path: f.Path, Reason: f.Reason, Advice: f.Advice, Newer: f.Newer, Other: f.Other, Err: f.Err}
		}
		meaning = journal.ErrUnknown
	case sqlitedb.Full:
		meaning = journal.ErrFull
	case sqlitedb.SyncLost:
		meaning = journal.ErrSync
	case sqlitedb.Taken:
		meaning = journal.ErrConflict
	case sqlitedb.InUse:
		return fmt.Errorf("sqlitelog: %s: the file is in use, by another process or by a journal that was not closed: %w", operation, err)
	default:
		if operation != "append" {
			return fmt.Errorf("sqlitelog: %s: %w", operation, err)
		}
		meaning = journal.ErrUnknown
	}
	return fmt.Errorf("sqlitelog: %s: %w: %w", operation, meaning, err)
}
