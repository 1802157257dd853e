package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Options say how a store is opened.
type Options struct {
	Durability queue.Durability
	Identity   queue.Identity // that the file has, or gets if it has none
	MaxPages   int            // bound of the file in pages of 4,096 bytes, 0 for none: how tests make a full disk
	Keys       int            // idempotency keys that may be known; 0: queue.MaxIdempotencyKeys
	SlotKeys   int            // those in one slot; 0: 256 Ki

	// Around runs every transaction of the one writer, and returns the error for its caller; nil:
	// transactions run plainly. It is called without a lock of the writer. Tests use it to hold a
	// write back, let it fail, or lose its answer.
	Around func(write func() error) error
}

// Store is the file of one shard. All methods may be called from several goroutines at once.
type Store struct {
	path   string
	around func(write func() error) error // Options.Around
	write  writer
	readers
	commits  commits
	Memtable Memtable
	Singles  Singles
	outputs  outputLog
	History  History
	open     openIndex
	Space    Space
	Keys     Keys
	Blobs    Blobs
	Replaced Replaced
}

// readers are the connections that read.
type readers struct {
	hot  reader // content, attachments, single outputs: reservations and pages of the dashboard wait for these reads
	scan reader // loading, lists, whole submissions' outputs
}

// moves count the moves of outputs from one place to another, and out of the file.
type moves struct {
	mu sync.Mutex // one at a time; taken before write.mu
	// Raised after outputs were written to their new place and before they leave the old
	// one, so that a reader can tell that it may have looked in neither.
	n atomic.Uint64
}

// writer is the one connection that writes.
type writer struct {
	mu     sync.Mutex
	closed bool
	conn   *sqlitedb.Conn
	writeStmts
	packer
}

// reader is a connection that reads.
type reader struct {
	mu     sync.Mutex
	closed bool
	conn   *sqlitedb.Conn
	readStmts
	scratch []byte // a page that was unpacked, for the next one
}

// Open opens the store at path, makes it if there is none, and brings an older one up to
// date. A file that is damaged, foreign or of a version that is not known is a
// *queue.FormatError and stays as it was.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	s := &Store{path: path, around: o.Around}
	s.Memtable.init(s)
	s.Keys.init(s, &o)
	s.History.s, s.Singles.s, s.Space.s, s.Blobs.s = s, s, s, s
	if err := s.openFile(ctx, o); err != nil {
		s.Close()
		return nil, wrap("open", err)
	}
	return s, nil
}

func (s *Store) openFile(ctx context.Context, o Options) error {
	err := ensure(s.path, Kind)
	if err != nil {
		return err
	}
	owner := sqlitedb.Owner{Identity: &o.Identity, Relaxed: o.Durability == queue.Relaxed}
	options := sqlitedb.Options{Durability: o.Durability, MaxPages: o.MaxPages, CacheKiB: 8 << 10, Owner: &owner}
	if s.write.conn, err = sqlitedb.Open(s.path, Kind, options); err != nil {
		return err
	}
	if _, err := s.write.conn.Own(o.Identity); err != nil {
		return err
	}
	if err := s.write.prepare(s.write.conn); err != nil {
		return err
	}
	if err := s.open.load(s); err != nil {
		return err
	}
	if err := s.History.load(); err != nil {
		return err
	}
	if err := s.Keys.load(); err != nil {
		return err
	}
	for _, r := range []*reader{&s.hot, &s.scan} {
		if r.conn, err = sqlitedb.Open(s.path, Kind, sqlitedb.Options{ReadOnly: true}); err != nil {
			return err
		}
		if err := r.prepare(r.conn); err != nil {
			return err
		}
	}
	if err := s.History.loadGone(ctx); err != nil {
		return err
	}
	return s.indexLog()
}

// errClosed refuses calls after Close: when a queue is deleted or goes to another node, it is closed
// while calls and the housekeeping still have it.
var errClosed = &queue.Error{Code: queue.CodeUnavailable, Message: "The queue was closed here. Ask again in a moment."}

// Close waits for running calls, and closes the file. After that, calls that need the file fail with
// CodeUnavailable.
func (s *Store) Close() error {
	var problems []error
	for _, r := range []*reader{&s.hot, &s.scan} {
		r.mu.Lock()
		if r.conn != nil {
			problems = append(problems, r.conn.Close())
		}
		r.closed = true
		r.mu.Unlock()
	}
	s.write.mu.Lock()
	defer s.write.mu.Unlock()
	if s.write.conn != nil {
		problems = append(problems, s.write.conn.Close())
	}
	s.write.closed = true
	return wrap("close", errors.Join(problems...))
}

// SetDurability says whether the commits that follow wait for the disk.
func (s *Store) SetDurability(d queue.Durability) error {
	s.write.mu.Lock()
	defer s.write.mu.Unlock()
	if s.write.closed {
		return errClosed
	}
	return wrap("set durability", s.write.conn.SetDurability(d))
}

// SetMaxPages bounds the file to n pages of 4,096 bytes from now on, 0 for no bound: tests fill a
// disk and make room again that way.
func (s *Store) SetMaxPages(n int) error {
	s.write.mu.Lock()
	defer s.write.mu.Unlock()
	return wrap("set max pages", s.write.conn.SetMaxPages(n))
}

// Size is the room that the store takes on disk, in bytes, its write-ahead log included.
// Room that was freed is used again, or given back by Space.Shrink.
func (s *Store) Size() int64 { return sqlitedb.Size(s.path) }

// tx runs fn in one transaction of the writer. fn must not be long: every other write waits for it.
func (s *Store) tx(ctx context.Context, fn func(w *writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.writing(func(w *writer) error {
		return w.conn.Tx(func() error { return fn(w) })
	})
}

// writing runs fn while no other goroutine uses the writer.
func (s *Store) writing(fn func(w *writer) error) error {
	write := func() error {
		s.write.mu.Lock()
		defer s.write.mu.Unlock()
		if s.write.closed {
			return errClosed
		}
		return fn(&s.write)
	}
	if s.around != nil {
		return s.around(write)
	}
	return write()
}

// with runs fn while no other goroutine uses the reader.
func (r *reader) with(ctx context.Context, fn func(*reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	return fn(r)
}

// damaged is the error of a row whose checksum does not match.
func (s *Store) damaged(table string, key int64) error {
	return &queue.FormatError{
		Path: s.path, Reason: fmt.Sprintf("has a damaged row %d in table %s: its checksum does not match", key, table),
		Advice: sqlitedb.AdviceDamaged,
	}
}

// Lacks is the error for data that was stored durably and is not there.
func (s *Store) Lacks(what string) error {
	return &queue.FormatError{Path: s.path, Reason: "lacks " + what + ", which was stored",
		Advice: "Stop the server, keep a copy of the whole data directory, and restore all of it from a backup"}
}

// wrap names the operation and turns the database's error into one that callers test for:
// journal.ErrFull (nothing was written), journal.ErrSync (the process must end), *queue.FormatError.
func wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	if format, ok := errors.AsType[*queue.FormatError](err); ok {
		return format
	}
	switch sqlitedb.ClassOf(err) {
	case sqlitedb.Full:
		err = fmt.Errorf("%w: %w", journal.ErrFull, err)
	case sqlitedb.SyncLost:
		err = fmt.Errorf("%w: %w", journal.ErrSync, err)
	}
	return fmt.Errorf("store: %s: %w", operation, err)
}

// sum is the CRC-32C of a row: of its numbers, as 8 bytes each, big endian, and its bytes,
// one after the other. A row in another's place does not match.
type sum uint32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (c sum) number(n int64) sum {
	crc := ^uint32(c)
	for shift := 56; shift >= 0; shift -= 8 {
		crc = castagnoli[byte(crc)^byte(n>>shift)] ^ crc>>8
	}
	return sum(^crc)
}

func (c sum) bytes(b []byte) sum { return sum(crc32.Update(uint32(c), castagnoli, b)) }

// stored is the sum as a column: signed, because SQLite keeps small signed numbers in four bytes.
func (c sum) stored() int64 { return int64(int32(c)) }

// keyOf composes the key of the row of one submission: seq<<32 | number. As SQLite's
// integers are signed, submissions from seq 1<<31 on sort before the others; within a
// submission the order is that of the numbers.
func keyOf(seq, number uint32) int64 { return int64(uint64(seq)<<32 | uint64(number)) }

func seqOf(key int64) uint32 { return uint32(uint64(key) >> 32) }

func numberOf(key int64) uint32 { return uint32(key) }

// lastNumber is the largest number below a seq.
const lastNumber = 1<<32 - 1
