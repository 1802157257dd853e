package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/store"
)

// Storage is the disk of an engine: whether it has room, and backups of what is on it.
type Storage struct{ e *Engine }

// Storage is the disk of this engine.
func (e *Engine) Storage() Storage { return Storage{e} }

// backupDir is the folder, in the data directory, of the copies that a backup is made of. A start removes what a crash left of it.
const backupDir = "backup.partial"

// Backup is a copy of the data directory as the end of the process at one moment would have left it. It takes room on the disk until Close.
type Backup struct {
	Manifest archive.Manifest
	Size     int64 // bytes that WriteTo writes

	dir     string
	release func()
}

// Backup makes a backup of everything that is durable: all that was acknowledged before the call is in it. By names the program for the
// manifest. Commits go on beside it. One at a time: a second one is refused, and so is one that the disk has no room for.
func (s Storage) Backup(ctx context.Context, by string) (_ *Backup, err error) {
	e := s.e
	if !e.lock.backup.TryLock() {
		return nil, &queue.Error{Code: queue.CodeConflict, Message: "Another backup is being made or read. Try again when it is done."}
	}
	b := &Backup{dir: filepath.Join(e.options.Dir, backupDir), release: sync.OnceFunc(e.lock.backup.Unlock)}
	defer func() {
		if err != nil {
			err = errors.Join(e.ballast.unlessFull(err), b.Close())
		}
	}()
	if err := errors.Join(s.isWhole(), s.Room(), s.roomForBackup()); err != nil {
		return nil, err
	}
	act := e.act(ctx, "", "server.backup", "", "")
	if err := e.catalogue.PutAct(&act); err != nil {
		return nil, err
	}
	cut, err := s.cut(ctx)
	if err != nil {
		return nil, errors.Join(err, cut.close())
	}
	b.Manifest = archive.Manifest{Format: archive.Format, Made: e.options.Now().UTC(), By: by,
		Directory: hex.EncodeToString(e.identity.Directory[:])}
	if err = errors.Join(b.copy(ctx, cut, e.identity), cut.close()); err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	if b.Size, err = b.Manifest.Size(); err != nil {
		return nil, err
	}
	return b, nil
}

// isWhole refuses a backup that would lack a queue.
func (s Storage) isWhole() error {
	for _, q := range s.e.Queues() {
		if q.Quarantined != nil {
			return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue %q is in quarantine, so a backup would lack it. "+
				"Fix its files or delete it first.", q.Name)}
		}
	}
	return nil
}

// roomForBackup refuses a backup whose copies would fill the disk, on which queues have to go on.
func (s Storage) roomForBackup() error {
	e := s.e
	need := int64(ballastMargin) + fileSize(filepath.Join(e.options.Dir, catalogueFile))
	for _, q := range e.all() {
		for _, name := range []string{storeFile, journalFile} {
			need += fileSize(filepath.Join(e.shardDir(q.id), name)) + newFiles
		}
	}
	if spare := e.ballast.spare(); spare < need {
		return fmt.Errorf("%w: a backup needs %d bytes beside the data while it is made, and %d are free", journal.ErrFull, need, spare)
	}
	return nil
}

// fileSize is the room of a database with its log, 0 for none.
func fileSize(path string) (size int64) {
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(path + suffix); err == nil {
			size += info.Size()
		}
	}
	return size
}

// cut is the whole server at one moment.
type cut struct {
	catalogue *store.Cut
	queues    []queueCut
}

type queueCut struct {
	*shard.Cut
	name string
	id   queue.ShardID
}

// cut takes the moment. Nothing may happen between the cuts of two files that only one of them would tell of: no dead letter is on its way
// between two queues, no queue comes or goes, and no entry of a queue's journal enters the audit log.
func (s Storage) cut(ctx context.Context) (c cut, err error) {
	e := s.e
	e.forwards.turn.Lock()
	defer e.forwards.turn.Unlock()
	e.mu.RLock()
	defer e.mu.RUnlock()
	if c.catalogue, err = store.CutCatalogue(e.catalogue); err != nil {
		return c, err
	}
	for _, q := range e.queues {
		one, err := q.shard.Cuts.Prepare()
		if err != nil {
			return c, fmt.Errorf("queue %s: %w", q.name, err)
		}
		c.queues = append(c.queues, queueCut{one, q.name, q.id})
	}
	return c, c.catalogue.Take(func() error {
		for i := range c.queues {
			if err := c.queues[i].Take(ctx); err != nil {
				return fmt.Errorf("queue %s: %w", c.queues[i].name, err)
			}
		}
		return nil
	})
}

func (c *cut) close() error {
	var errs []error
	for i := range c.queues {
		errs = append(errs, c.queues[i].Close())
	}
	if c.catalogue != nil {
		errs = append(errs, c.catalogue.Close())
	}
	return errors.Join(errs...)
}

// copy copies the files of a cut, and lists them.
func (b *Backup) copy(ctx context.Context, c cut, id queue.Identity) error {
	id = id.Opened()
	if err := errors.Join(os.RemoveAll(b.dir), os.MkdirAll(b.dir, 0o700)); err != nil {
		return err
	}
	for i := range c.queues {
		if err := b.copyQueue(ctx, &c.queues[i], id); err != nil {
			return fmt.Errorf("queue %s: %w", c.queues[i].name, err)
		}
	}
	return b.add(catalogueFile, func(to string) error { return c.catalogue.CopyTo(ctx, to, id) })
}

func (b *Backup) copyQueue(ctx context.Context, q *queueCut, id queue.Identity) error {
	folder := fmt.Sprintf("shards/%04d", q.id)
	if err := os.MkdirAll(filepath.Join(b.dir, filepath.FromSlash(folder)), 0o700); err != nil {
		return err
	}
	b.Manifest.Queues = append(b.Manifest.Queues, archive.Queue{Name: q.name, Shard: int(q.id),
		Checkpointed: uint64(q.Checkpointed), UpTo: uint64(q.UpTo)})
	err := b.add(path.Join(folder, journalFile), func(to string) error {
		return sqlitelog.WriteCopy(to, id.ForShard(q.id), q.After(), func(fn func(journal.Position, []byte) error) error {
			return q.Batches(ctx, fn)
		})
	})
	if err != nil {
		return err
	}
	return b.add(path.Join(folder, storeFile), func(to string) error { return q.Store.CopyTo(ctx, to, id.ForShard(q.id)) })
}

// add makes a file of the backup, and lists it.
func (b *Backup) add(name string, make func(to string) error) error {
	to := filepath.Join(b.dir, filepath.FromSlash(name))
	if err := make(to); err != nil {
		return err
	}
	size, sum, err := sumFile(to)
	b.Manifest.Files = append(b.Manifest.Files, archive.File{Path: name, Size: size, SHA256: sum})
	return err
}

// sumFile is the size and the SHA-256 of a file.
func sumFile(path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	hash := sha256.New()
	size, err = io.Copy(hash, f)
	return size, hex.EncodeToString(hash.Sum(nil)), err
}

// Write writes the backup as a tar.
func (b *Backup) Write(w io.Writer) error {
	return archive.Write(w, &b.Manifest, func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(b.dir, filepath.FromSlash(name)))
	})
}

// Close removes the copies, and lets the next backup begin.
func (b *Backup) Close() error {
	defer b.release()
	return os.RemoveAll(b.dir)
}
