package engine

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// ballast is a file that is thrown overboard when the disk is full, so that completions, which free work and memory,
// still get through. While it is gone inserts are refused; when it can be taken aboard again they are let in.
type ballast struct {
	mu    sync.Mutex
	path  string
	bytes int64
	there bool
	log   *slog.Logger
}

func openBallast(dir string, bytes int64, log *slog.Logger) *ballast {
	b := &ballast{path: filepath.Join(dir, "ballast"), bytes: bytes, log: log}
	if !b.take() && bytes > 0 {
		log.Warn("no room for the ballast file: on a full disk completions may fail", "path", b.path, "bytes", bytes)
	}
	return b
}

// free throws the ballast overboard; false when it is gone already.
func (b *ballast) free() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.there {
		return false
	}
	b.there = false
	if err := os.Remove(b.path); err != nil {
		b.log.Error("the ballast file cannot be removed", "path", b.path, "error", err)
		return false
	}
	b.log.Warn("disk full: inserts are refused until there is room; the ballast file was removed to let completions through", "path", b.path)
	return true
}

// take brings the ballast aboard; it says whether it is there now. Allocated blocks count, not a hole in a file.
func (b *ballast) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.there || b.bytes <= 0 {
		return b.there
	}
	file, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), 0, 0, b.bytes); err != nil {
		os.Remove(b.path)
		return false
	}
	b.there = true
	return true
}

// ballastMargin is what has to be free beside the ballast before inserts are let in again: with less they would fill the
// disk anew at once.
const ballastMargin = 4 << 20

// room says whether the disk has space again, and takes the ballast aboard if so.
func (b *ballast) room() bool {
	var stat unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(b.path), &stat); err != nil {
		return false
	}
	if int64(stat.Bavail)*stat.Bsize < max(b.bytes, 0)+ballastMargin {
		return false
	}
	return b.bytes <= 0 || b.take()
}

// makeRoom lets inserts in again when the disk has room.
func (e *Engine) makeRoom() {
	full := false
	for _, q := range e.all() {
		full = full || q.shard.Full()
	}
	if !full || !e.ballast.room() {
		return
	}
	for _, q := range e.all() {
		q.shard.SetFull(false)
	}
	e.options.Logger.Info("the disk has room again: inserts are accepted")
}
