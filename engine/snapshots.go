package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// Snapshots are the compressed copies of one queue's store, on a shelf.
type Snapshots struct {
	Identity queue.Identity // of the queue's files
	Now      func() time.Time
	shelf    shelf
	place    string // what the keys of the queue's copies begin with
	suffix   string // what they end with
	plain    string // the file that a store is copied to before it is compressed; "": beside the copy
}

// shelf keeps copies under their keys.
type shelf interface {
	// write keeps what fn writes under a key, whole and durably, or not at all.
	write(key string, fn func(io.Writer) error) error
	// read reads a copy; fs.ErrNotExist: there is none.
	read(key string) (io.ReadCloser, error)
	has(s journal.Snapshot) (bool, error)
	// keep removes all copies of a place that are older than the one under key; "": all, with everything else there. A newer one stays: an
	// owner that has taken the queue over meanwhile made it.
	keep(place, key string) error
	// name is the copy under a key, for a person.
	name(key string) string
}

// SnapshotsIn are the copies in a folder, which may be on another disk. Their keys below the folder are
// DIRECTORY/SHARD/EPOCH-POSITION.zst, so that many data directories can share it.
func SnapshotsIn(folder string, id queue.Identity, now func() time.Time) Snapshots {
	place := fmt.Sprintf("%x/%04d", id.Directory, id.Shard)
	return Snapshots{Identity: id, Now: now, shelf: folderShelf{folder}, place: place, suffix: ".zst"}
}

// copySuffix is behind the name of a store that is being compressed, or made again.
const copySuffix = ".copy"

// canSnapshot makes the folder of snapshots, and checks at the start that it can be written, not when the first one is due. "" is none.
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

// Save makes a copy of a store durable, and returns the op that names it. It implements shard.Snapshots, as do Has and Keep.
func (p Snapshots) Save(ctx context.Context, of *store.Cut, epoch uint32, at journal.Position) (made journal.Snapshot, err error) {
	made = journal.Snapshot{Kept: true, Position: at, Key: fmt.Sprintf("%s/%010d-%020d%s", p.place, epoch, at, p.suffix)}
	plain := cmp.Or(p.plain, p.shelf.name(made.Key)+copySuffix)
	if err := errors.Join(makeDir(filepath.Dir(plain)), removeAll(plain)); err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, removeAll(plain)) }()
	pace := newCopyPace(ctx, p.Now)
	if err := of.CopyTo(plain, p.Identity, pace.done); err != nil {
		return made, err
	}
	sum := &summed{hash: sha256.New()}
	err = p.shelf.write(made.Key, func(w io.Writer) error {
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

// Has says whether a copy is there. A copy of another data directory does not count: it goes when that directory makes its next one.
func (p Snapshots) Has(s journal.Snapshot) (bool, error) {
	if !strings.HasPrefix(s.Key, p.place+"/") {
		return false, nil
	}
	return p.shelf.has(s)
}

// Keep removes all copies that are older than one. Keys begin with the epoch and the position, so their order is that of age.
func (p Snapshots) Keep(s journal.Snapshot) error { return p.shelf.keep(p.place, s.Key) }

// Restore makes the missing store at path again from the newest snapshot that the journal names. Before the first snapshot it makes an
// empty store, as the journal then has everything from the beginning on. A start takes the changes since the snapshot from the journal.
func (p Snapshots) Restore(ctx context.Context, path string, log journal.Journal) (newest journal.Snapshot, err error) {
	if newest, err = p.newest(ctx, path, log, math.MaxUint64); err != nil {
		return newest, err
	}
	if err := removeAll(path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return newest, err
	}
	if err := p.remake(ctx, newest, path+copySuffix); err != nil {
		return newest, fmt.Errorf("the store %s is missing, and its snapshot %s cannot take its place: %w", path, p.shelf.name(newest.Key),
			err)
	}
	return newest, errors.Join(os.Rename(path+copySuffix, path), syncDir(filepath.Dir(path)))
}

// newest is the newest snapshot that a journal names up to a position, for the store at path.
func (p Snapshots) newest(ctx context.Context, path string, log journal.Journal, upTo journal.Position) (journal.Snapshot, error) {
	newest, err := newestSnapshot(ctx, log, log.Trimmed(), upTo)
	foreign := newest.Key != "" && !strings.HasPrefix(newest.Key, p.place+"/")
	if err == nil && (!newest.Kept || foreign || newest.Position <= log.Trimmed() && log.Trimmed() > 0) {
		err = missing(path, "the journal beside it, which begins with batch "+strconv.FormatUint(uint64(log.Trimmed())+1, 10)+
			", names no snapshot that it continues")
	}
	return newest, err
}

// remake makes a store of a snapshot at path. Only when it is a file of this directory may it take the place of the missing one: an
// unfinished restore must not be taken for an older copy.
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

// fetch unpacks a snapshot into a file at path, which appears only if it is the saved one, byte for byte.
func (p Snapshots) fetch(s journal.Snapshot, path string) error {
	f, err := p.shelf.read(s.Key)
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

// newestSnapshot is the last snapshot that a journal names between two positions.
func newestSnapshot(ctx context.Context, log journal.Journal, after, upTo journal.Position) (journal.Snapshot, error) {
	var find snapshotFinder
	err := log.Read(ctx, after, func(at journal.Position, batch []byte) error {
		if at > upTo {
			return errEnough
		}
		if err := journal.Decode(batch, func(queue.Time) {}, &find); err != nil {
			return fmt.Errorf("journal: batch %d: %w", at, err)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return find.newest, err
}

// errEnough ends the reading of a journal that has more than is wanted.
var errEnough = errors.New("no more is wanted")

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
