package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// watchEvery is how often the files of the data directory are looked for. What is acknowledged between their going and the next look is
// lost with them.
const watchEvery = 250 * time.Millisecond

// watched are files that a server has open, as they were then. Deleted or replaced, they would take everything that is written from then on
// with them at the server's end: it goes to a file without a name.
type watched struct {
	mu    sync.Mutex
	files map[string]*watchedFile
}

type watchedFile struct {
	was   os.FileInfo
	least int64 // bytes that it has at least: a journal is never made shorter; -1: it may be
}

// add notes the files of a database. Its log is there for as long as it is in use.
func (w *watched) add(database string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.files == nil {
		w.files = map[string]*watchedFile{}
	}
	for _, path := range []string{database, database + "-wal"} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		w.files[path] = &watchedFile{was: info, least: -1}
		if filepath.Base(path) == journalFile {
			w.files[path].least = info.Size()
		}
	}
	return nil
}

// changed says which file is not what it was, nil: none.
func (w *watched) changed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, file := range w.files {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s was deleted or moved under the running server", path)
		case err == nil && !os.SameFile(info, file.was):
			return fmt.Errorf("%s was replaced under the running server", path)
		case err == nil && info.Size() < file.least:
			return fmt.Errorf("%s was cut from %d to %d bytes under the running server", path, file.least, info.Size())
		case err == nil && file.least >= 0:
			file.least = info.Size()
		}
	}
	return nil
}

// watch has queues whose files are gone acknowledge nothing any more, and no queue when the catalogue is gone.
func (e *Engine) watch() {
	lost := e.files.changed()
	if lost != nil {
		e.catalogue.Lose(lost)
	}
	for _, q := range e.all() {
		if q.lost || lost == nil && q.files.changed() == nil {
			continue
		}
		if now, err := e.Queue(q.name); err != nil || now != q {
			continue // it was deleted meanwhile, with its files
		}
		cause := q.shard.Lose(func() error { return cmp.Or(lost, q.files.changed()) })
		if cause == nil {
			continue // its journal was opened again meanwhile
		}
		q.lost = true
		e.options.Logger.Error("a file of the data directory is not where it was: the queue acknowledges nothing any "+
			"more. What is still readable can be read until the server ends; put the file back, or restore a backup, "+
			"and restart the server",
			"queue", q.name, "error", cause)
	}
}

// watchAlways watches until ctx ends.
func (e *Engine) watchAlways(ctx context.Context) { every(ctx, watchEvery, e.watch) }
