package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// Snapshots are the copies of one queue's store in a folder, which may be on another disk. Their keys below the folder are
// DIRECTORY/SHARD/EPOCH-POSITION.zst, so that many data directories can share it.
type Snapshots struct {
	Folder   string
	Identity queue.Identity // of the queue's files
	Now      func() time.Time
}

const (
	snapshotSuffix = ".zst"
	copySuffix     = ".copy" // a store that is being compressed
)

// canSnapshot makes the folder of snapshots, and finds out whether it can be written: at the start, not when the first one is due. "" is
// none.
func canSnapshot(dir string) error {
	if dir == "" {
		return nil
	}
	if err := makeDir(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "probe")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// snapshots are those of a queue whose files are of this identity.
func (e *Engine) snapshots(id queue.Identity) Snapshots {
	return Snapshots{Folder: e.options.SnapshotDir, Identity: id, Now: e.options.Now}
}

// remake makes the store of a queue again that is not there, where snapshots are kept.
func (o *opening) remake(ctx context.Context, row store.QueueRow, id queue.Identity) error {
	e := o.e
	path, log := filepath.Join(e.shardDir(row.Shard), storeFile), filepath.Join(e.shardDir(row.Shard), journalFile)
	there, err := exists(path)
	journaled, err2 := exists(log)
	if there || !journaled || e.options.SnapshotDir == "" || err != nil || err2 != nil {
		return errors.Join(err, err2)
	}
	// It is only read, and checked all the same: SQLite makes the index again that says whether the log is whole.
	j, err := sqlitelog.Open(ctx, log, sqlitelog.Options{Shared: true, Durability: row.Settings.Durability, Identity: id})
	if err != nil {
		return err
	}
	made, err := e.snapshots(id).Restore(ctx, path, j)
	if err = errors.Join(err, j.Close()); err == nil {
		e.options.Logger.Warn("the store was missing: it was made again of its snapshot and of the journal", "queue", row.Name,
			"path", path, "snapshot", made.Key, "position", made.Position)
	}
	return err
}

// place is the part of the keys that all copies of the queue have.
func (p Snapshots) place() string {
	return fmt.Sprintf("%x/%04d", p.Identity.Directory, p.Identity.Shard)
}

func (p Snapshots) path(key string) string { return filepath.Join(p.Folder, filepath.FromSlash(key)) }

// Save makes a copy of a store durable, and returns the op that names it. It implements shard.Snapshots, as do Has and Keep.
func (p Snapshots) Save(ctx context.Context, of *store.Cut, epoch uint32, at journal.Position) (made journal.Snapshot, err error) {
	made = journal.Snapshot{Kept: true, Position: at, Key: fmt.Sprintf("%s/%010d-%020d%s", p.place(), epoch, at, snapshotSuffix)}
	if err := makeDir(p.path(p.place())); err != nil {
		return made, err
	}
	plain := p.path(made.Key) + copySuffix
	if err := removeAll(plain); err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, removeAll(plain)) }()
	pace := newCopyPace(ctx, p.Now)
	if err := of.CopyTo(plain, p.Identity, pace.done); err != nil {
		return made, err
	}
	sum := &summed{hash: sha256.New()}
	err = WriteFile(p.path(made.Key), func(w io.Writer) error {
		sum.w = w
		return compress(sum, plain, pace)
	})
	made.Size, made.Sum = sum.size, hex.EncodeToString(sum.hash.Sum(nil))
	return made, err
}

// summed is a writer that knows the checksum of what it has written.
type summed struct {
	w    io.Writer
	hash hash.Hash
	size uint64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.hash.Write(b[:n]) // never fails
	s.size += uint64(n)
	return n, err
}

func compress(w io.Writer, path string, pace *copyPace) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	packed, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)) // those who serve have the processors
	if err != nil {
		return err
	}
	_, err = io.Copy(packed, pace.reader(f))
	return errors.Join(err, packed.Close())
}

// Has says whether a copy is there. One of another data directory does not count: it is removed when that one makes its next.
func (p Snapshots) Has(s journal.Snapshot) (bool, error) {
	if !strings.HasPrefix(s.Key, p.place()+"/") {
		return false, nil
	}
	return exists(p.path(s.Key))
}

// Keep removes all copies but one.
func (p Snapshots) Keep(s journal.Snapshot) error {
	entries, err := os.ReadDir(p.path(p.place()))
	for _, entry := range entries {
		if path := filepath.Join(p.path(p.place()), entry.Name()); path != p.path(s.Key) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// Forget removes all copies, of a queue that is deleted.
func (p Snapshots) Forget() error {
	if p.Folder == "" {
		return nil
	}
	return os.RemoveAll(p.path(p.place()))
}

// Restore makes the store at path again, where none is, of the newest snapshot that the journal tells of; before the first one, of nothing,
// as the journal has everything from the beginning on. What comes behind the snapshot a start takes from the journal.
func (p Snapshots) Restore(ctx context.Context, path string, log *sqlitelog.Log) (newest journal.Snapshot, err error) {
	if newest, err = newestSnapshot(ctx, log); err != nil {
		return newest, err
	}
	foreign := newest.Key != "" && !strings.HasPrefix(newest.Key, p.place()+"/")
	if !newest.Kept || foreign || newest.Position <= log.Trimmed() && log.Trimmed() > 0 {
		return newest, missing(path, "the journal beside it, which begins with batch "+strconv.FormatUint(uint64(log.Trimmed())+1, 10)+
			", names no snapshot that it continues")
	}
	if err := removeAll(path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return newest, err
	}
	if err := p.remake(ctx, newest, path+copySuffix); err != nil {
		return newest, fmt.Errorf("the store %s is missing, and its snapshot %s cannot take its place: %w", path, p.path(newest.Key), err)
	}
	return newest, errors.Join(os.Rename(path+copySuffix, path), syncDir(filepath.Dir(path)))
}

// remake makes a store of a snapshot at path. It has the place of the one that is missing only when it is a file of this directory: half a
// restore must not be taken for an older copy.
func (p Snapshots) remake(ctx context.Context, of journal.Snapshot, path string) error {
	if err := removeAll(path, path+"-wal", path+"-shm"); err != nil {
		return err
	}
	if of.Key != "" {
		if err := p.fetch(of, path); err != nil {
			return err
		}
	} else if empty, err := store.Open(ctx, path, store.Options{}); err != nil {
		return err
	} else if err := empty.Close(); err != nil {
		return err
	}
	id := p.Identity
	id.Generation = id.Newest // as a file that was there all the time
	return store.Assign(path, id)
}

// fetch unpacks a snapshot into a file at path, which appears only if it is what was saved.
func (p Snapshots) fetch(s journal.Snapshot, path string) error {
	f, err := os.Open(p.path(s.Key))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("it is not there: is this the folder that the snapshots were kept in?")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return WriteFile(path, func(w io.Writer) error {
		sum := sha256.New()
		packed, err := zstd.NewReader(io.TeeReader(f, sum), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		defer packed.Close()
		if _, err := io.Copy(w, packed); err != nil {
			return fmt.Errorf("it is damaged: %w", err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != s.Sum {
			return fmt.Errorf("it is damaged: its checksum is %s, and the journal says %s", got, s.Sum)
		}
		return nil
	})
}

// newestSnapshot is what a journal says of snapshots last.
func newestSnapshot(ctx context.Context, log *sqlitelog.Log) (journal.Snapshot, error) {
	var find snapshotFinder
	err := log.Read(ctx, log.Trimmed(), func(at journal.Position, batch []byte) error {
		if err := journal.Decode(batch, func(queue.Time) {}, &find); err != nil {
			return fmt.Errorf("journal: batch %d: %w", at, err)
		}
		return nil
	})
	return find.newest, err
}

// snapshotFinder takes the snapshots out of a journal.
type snapshotFinder struct{ newest journal.Snapshot }

func (f *snapshotFinder) ApplyPart(op journal.PartOp) error {
	if s, is := op.(*journal.Snapshot); is {
		f.newest = *s
	}
	return nil
}

func (*snapshotFinder) ApplyEpoch(uint32) error               { return nil }
func (*snapshotFinder) ApplyInsert(*journal.Insert) error     { return nil }
func (*snapshotFinder) ApplyComplete(journal.Completed) error { return nil }
func (*snapshotFinder) ApplyReturn(journal.Returned) error    { return nil }
func (*snapshotFinder) ApplyEnd(journal.End) error            { return nil }
func (*snapshotFinder) ApplyPriority(journal.Priority) error  { return nil }
