package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/clustertest"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
)

// folderBackend is the backend of nodes in one process: the journals and blobs of a data directory, in a folder. The nodes of these tests
// do not beat.
type folderBackend struct {
	cluster.Backend
	dir   string
	blobs *BlobFolder
	made  *folderJournals
	nodes []cluster.Node
}

// folderJournals are the journals of one folder.
type folderJournals struct {
	mu     sync.RWMutex
	alive  map[string]chan struct{} // by name; closed when the journal is deleted
	number int                      // of all journals ever made: no file has the name of a deleted one
	file   map[string]string
}

func newFolderBackend(t *testing.T) *folderBackend {
	t.Helper()
	dir := t.TempDir()
	b, err := OpenBlobFolder(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	return &folderBackend{dir: dir, blobs: b, made: &folderJournals{alive: map[string]chan struct{}{}, file: map[string]string{}}}
}

// The journals of a data directory, with the additions of this file, behave as the engine relies on in a cluster.
func TestFolderBackend(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	byDir := map[string]*folderBackend{}
	clustertest.ExerciseJournals(t, clustertest.Medium{Open: func(t *testing.T, dir string) (cluster.Backend, func() error) {
		mu.Lock()
		defer mu.Unlock()
		if byDir[dir] == nil {
			byDir[dir] = newFolderBackend(t)
		}
		return byDir[dir], func() error { return nil }
	}})
}

func (b *folderBackend) Leases() cluster.Leases { return folderLeases{b: b} }

type folderLeases struct {
	cluster.Leases
	b *folderBackend
}

func (l folderLeases) Nodes(context.Context) ([]cluster.Node, error) {
	return slices.Clone(l.b.nodes), nil
}

func (b *folderBackend) Journals(ctx context.Context) (map[string]journal.Position, error) {
	b.made.mu.Lock()
	defer b.made.mu.Unlock()
	ends := map[string]journal.Position{}
	for name, file := range b.made.file {
		if b.made.alive[name] == nil {
			continue
		}
		log, err := sqlitelog.Open(ctx, file, sqlitelog.Options{Shared: true})
		if err != nil {
			return nil, err
		}
		ends[name], err = log.Tail(ctx)
		if err = errors.Join(err, log.Close()); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

func (b *folderBackend) Blobs() blobs.Blobs { return b.blobs }

func (b *folderBackend) MakeJournal(ctx context.Context, name string, after journal.Position) error {
	if err := errors.Join(ctx.Err(), cluster.CheckName(name)); err != nil {
		return err
	}
	b.made.mu.Lock()
	defer b.made.mu.Unlock()
	if b.made.alive[name] != nil {
		return nil
	}
	b.made.number++
	file := filepath.Join(b.dir, fmt.Sprintf("%s.%d.db", name, b.made.number))
	b.made.alive[name], b.made.file[name] = make(chan struct{}), file
	none := func(func(journal.Position, []byte) error) error { return nil }
	return sqlitelog.WriteCopy(file, queue.Identity{Generation: 1}, after, none)
}

func (b *folderBackend) Journal(ctx context.Context, name string) (journal.Journal, error) {
	b.made.mu.RLock()
	defer b.made.mu.RUnlock()
	alive := b.made.alive[name]
	if alive == nil {
		return nil, errors.Join(ctx.Err(), cluster.ErrNoJournal)
	}
	log, err := sqlitelog.Open(ctx, b.made.file[name], sqlitelog.Options{Shared: true})
	return &folderJournal{log, &b.made.mu, alive}, err
}

func (b *folderBackend) DeleteJournal(ctx context.Context, name string, still func() bool) error {
	ends, err := b.Journals(ctx)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if _, there := ends[name]; there && still != nil && !still() {
		return journal.ErrConflict
	}
	now, err := b.Journals(ctx)
	b.made.mu.Lock()
	defer b.made.mu.Unlock()
	switch {
	case b.made.alive[name] == nil || err != nil:
		return err
	case still != nil && now[name] != ends[name]:
		return journal.ErrConflict
	}
	close(b.made.alive[name])
	delete(b.made.alive, name)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(b.made.file[name] + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// folderJournal is a handle that knows when its journal is deleted: a mere file would go on for a process that has it open.
type folderJournal struct {
	journal.Journal
	mu    *sync.RWMutex // of all journals of the folder: held, none is deleted
	alive chan struct{}
}

// whole calls fn unless the journal is deleted.
func (j *folderJournal) whole(fn func() error) error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	select {
	case <-j.alive:
		return journal.ErrConflict
	default:
		return fn()
	}
}

func (j *folderJournal) Append(ctx context.Context, expect journal.Position, batch []byte) (at journal.Position, err error) {
	err = j.whole(func() (err error) { at, err = j.Journal.Append(ctx, expect, batch); return err })
	return at, err
}

func (j *folderJournal) Tail(ctx context.Context) (at journal.Position, err error) {
	err = j.whole(func() (err error) { at, err = j.Journal.Tail(ctx); return err })
	return at, err
}

func (j *folderJournal) Read(ctx context.Context, after journal.Position, fn func(journal.Position, []byte) error) error {
	if err := j.whole(func() error { return nil }); err != nil {
		return err
	}
	return j.Journal.Read(ctx, after, fn) // fn may append
}

func (j *folderJournal) Wait(ctx context.Context, after journal.Position) error {
	if err := j.whole(func() error { return nil }); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-j.alive:
			stop(journal.ErrConflict)
		case <-ctx.Done():
		}
	}()
	return errors.Join(j.Journal.Wait(ctx, after), context.Cause(ctx))
}
