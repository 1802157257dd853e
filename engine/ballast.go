package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/quern-queue/quern/engine/journal"
)

// ballast is a file that keeps room on the disk. When the disk is full, the server frees most of it, so that completions, which free work
// and memory, still get through. Inserts are refused until the file can have its whole size again. Only a start frees the rest: it needs
// room before it can do anything, also on a disk that is full to the last byte.
type ballast struct {
	mu    sync.Mutex
	path  string
	bytes int64 // when it is whole; 0 or below: there is none
	have  int64
	log   *slog.Logger
}

// startShare is the part of the ballast that is kept for the next start.
const startShare = 4

// diskBlock is the unit in which file systems give out room.
const diskBlock = 4 << 10

// openBallast frees the ballast for the start. board restores it.
func openBallast(dir string, bytes int64, log *slog.Logger) (*ballast, error) {
	b := &ballast{path: filepath.Join(dir, "ballast"), bytes: bytes, log: log}
	if err := os.Remove(b.path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("the ballast file %s cannot be removed, to make room for the start: %w", b.path, err)
	}
	return b, nil
}

// board restores the ballast after a start. false: there is no room for all of it, and inserts must be refused. Then it keeps as much for
// the next start as there is room for, up to its share. A start on a full disk takes a few KiB of it for each busy queue.
func (b *ballast) board() bool {
	if b.bytes <= 0 || b.take(b.bytes) {
		return true
	}
	kept := min(b.bytes/startShare, b.spare()) &^ (diskBlock - 1)
	for kept > 0 && !b.take(kept) { // the file system needs some for itself
		kept = kept * 15 / 16 &^ (diskBlock - 1)
	}
	b.log.Warn("disk full: there is no room for the ballast file, so inserts are refused until there is", "path",
		b.path, "bytes", b.bytes, "kept_for_a_start", b.have)
	return false
}

// free frees the part that is not kept for a start, and says whether there is room now. Another write may have freed it a moment ago, or an
// attempt to restore it may have taken the room for a moment.
func (b *ballast) free() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := b.bytes / startShare
	if b.have <= rest {
		return b.spare() >= diskBlock
	}
	if err := os.Truncate(b.path, rest); err != nil {
		b.log.Error("the ballast file cannot be made smaller", "path", b.path, "error", err)
		return false
	}
	b.have = rest
	b.log.Warn("disk full: inserts are refused until there is room; the ballast file was made smaller to let "+
		"completions through", "path", b.path)
	return true
}

// take grows the ballast to so many bytes, and says whether it has them now. Allocated blocks count, not a hole in a file. If they do not
// fit, the file stays as it was.
func (b *ballast) take(bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.have >= bytes {
		return true
	}
	file, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), 0, 0, bytes); err != nil {
		_ = file.Truncate(b.have) // blocks beyond it may have been allocated
		return false
	}
	b.have = bytes
	return true
}

// ballastMargin must be free beside the ballast before inserts are let in again: with less, they would fill the disk again at once.
const ballastMargin = 4 << 20

// room says whether there is space again, and fills the ballast if so. `inside` is how many free bytes the files have for inserts. The
// ballast cannot use them.
func (b *ballast) room(inside int64) bool {
	b.mu.Lock()
	missing := max(b.bytes, 0) - b.have
	b.mu.Unlock()
	return b.spare() >= missing+max(ballastMargin-inside, 0) && (b.bytes <= 0 || b.take(b.bytes))
}

// spare is how many bytes of the disk are free; 0 when that is not known.
func (b *ballast) spare() int64 { return Spare(filepath.Dir(b.path)) }

// Spare is how many bytes are free on the disk of a folder; 0 when that is not known.
func Spare(folder string) int64 {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return 0
	}
	return int64(stat.Bavail) * stat.Bsize
}

// newFiles is how many bytes the files of a new queue take, with some to spare.
const newFiles = 1 << 20

// unlessFull takes an error of making files. On a full disk it returns journal.ErrFull, because SQLite and the system have other names for
// it.
func (b *ballast) unlessFull(err error) error {
	if err == nil || b.spare() >= newFiles {
		return err
	}
	return fmt.Errorf("%w: %w", journal.ErrFull, err)
}

// makeRoom lets inserts in again when the disk has room.
func (e *Engine) makeRoom() {
	if !e.full.Load() {
		return
	}
	inside := int64(0)
	for _, q := range e.all() {
		inside += q.store.Space.Free()
	}
	if e.ballast.room(inside) {
		e.full.Store(false)
		e.options.Logger.Info("the disk has room again: inserts are accepted")
	}
}

// Room returns a CodeDiskFull while the disk is full. Then calls that bring something new must be refused. Calls that finish, stop or
// remove something use the room that the ballast kept.
func (s Storage) Room() error {
	if s.e.full.Load() {
		return journal.ErrFull
	}
	return nil
}

// roomy runs a write of the catalogue; when the disk is full it makes room and tries once more, as shards do for theirs.
func (e *Engine) roomy(write func() error) error {
	err := write()
	if errors.Is(err, journal.ErrFull) {
		e.full.Store(true)
		if e.ballast.free() {
			return write()
		}
	}
	return err
}
