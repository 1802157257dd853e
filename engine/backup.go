package engine

import (
	"bufio"
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
	"time"

	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/cuts"
	"github.com/quern-queue/quern/engine/store"
)

// Storage is the disk of an engine: its free room, and backups of its data.
type Storage struct{ e *Engine }

// Storage is the disk of this engine.
func (e *Engine) Storage() Storage { return Storage{e} }

// backupDir is the folder, in the data directory, of the copies that a backup is made of. A start removes what a crash left of it.
const backupDir = "backup.partial"

// Backup is a copy of the data directory, as a kill of the process at one moment would have left it. It takes room on the disk until Close.
type Backup struct {
	Manifest archive.Manifest
	Size     int64 // bytes that WriteTo writes

	dir    string
	blocks io.Writer         // gets the checksums of the blocks of all files, in their order
	since  map[string][]byte // checksums of the blocks of the earlier backup's files, by their path; nil: this is a full one
	close  func() error
	pace   *copyPace // from the first copy to the last byte
}

// maxSince bounds the memory for the checksums of an earlier backup. It is enough for 64 GiB of data.
const maxSince = 64 << 20

// Backup makes a backup of all durable data, with everything that was acknowledged before the call. by names the program for the manifest.
// Commits go on meanwhile. It refuses a second backup at the same time, and one that the disk has no room for.
//
// With of, the name of a queue or of a shard, it has only the files of that one, and the catalogue; "": all. A cluster has no such backup.
//
// With since, the head of an earlier backup of this data directory, it is an increment: it has the changes since that one. The head is read
// to its end before anything is copied.
func (s Storage) Backup(ctx context.Context, by, of string, since io.Reader) (_ *Backup, err error) {
	e := s.e
	if of != "" && e.options.Cluster != nil {
		return nil, queue.Invalid("/query/queue", "cannot be used in a cluster, as a single queue cannot be restored there. Leave it out")
	}
	if !e.lock.backup.TryLock() {
		return nil, &queue.Error{Code: queue.CodeConflict, Message: "Another backup is being made or read. Try again when it is done."}
	}
	b := &Backup{dir: filepath.Join(e.options.Dir, backupDir), Manifest: archive.Manifest{Queue: of}}
	b.close = sync.OnceValue(func() error {
		defer e.lock.backup.Unlock()
		return os.RemoveAll(b.dir)
	})
	defer func() {
		if err != nil {
			err = errors.Join(e.ballast.unlessFull(err), b.Close())
		}
	}()
	if err := errors.Join(b.isWhole(e), s.Room(), b.hasRoom(e)); err != nil {
		return nil, err
	}
	id, err := e.home.backups().lineage()
	if err != nil {
		return nil, err
	}
	if err := b.continues(since, id); err != nil {
		return nil, err
	}
	act := e.act(ctx, "", "server.backup", of, "")
	if err := e.catalogue.PutAct(&act); err != nil {
		return nil, err
	}
	b.Manifest.Format, b.Manifest.By, b.Manifest.Directory = archive.Format, by, hex.EncodeToString(id.Directory[:])
	b.pace = newCopyPace(ctx, e.options.Now)
	for tries := cutsMost; ; tries-- {
		again, err := b.try(ctx, e, id)
		if err == nil {
			break
		}
		if !again || tries == 1 {
			return nil, fmt.Errorf("backup: %w", err)
		}
	}
	if b.Size, err = b.Manifest.Size(); err != nil {
		return nil, err
	}
	return b, nil
}

// cutsMost is how often a backup begins again because a snapshot that it copies was deleted.
const cutsMost = 5

// try takes the moment, and copies the data as of it. again: something happened meanwhile, and another try may succeed.
func (b *Backup) try(ctx context.Context, e *Engine, id queue.Identity) (again bool, err error) {
	b.Manifest.Made, b.Manifest.Queues, b.Manifest.Files = e.options.Now().UTC(), nil, nil
	if err := errors.Join(os.RemoveAll(b.dir), os.MkdirAll(b.dir, 0o700)); err != nil {
		return false, err
	}
	cut, err := e.home.backups().cut(ctx, b.dir, b.wants)
	if err == nil && len(cut.queues) == 0 {
		err = unknownQueue(b.Manifest.Queue)
	}
	if err == nil {
		err = b.copy(ctx, &cut, id)
	}
	if moved := cut.moved(ctx); moved != nil {
		again, err = ctx.Err() == nil, errors.Join(moved, err)
	}
	return again, errors.Join(err, cut.close())
}

// continues reads the head of the earlier backup, if there is one.
func (b *Backup) continues(since io.Reader, id queue.Identity) error {
	if since == nil {
		return nil
	}
	a, err := archive.Open(since)
	if err == nil && a.Manifest.Directory != hex.EncodeToString(id.Directory[:]) {
		return &queue.Error{Code: queue.CodeConflict, Message: "The earlier backup is of another data " +
			"directory. (A restored server has another directory than the server that was backed up.) Make a full " +
			"backup, and continue from that one."}
	}
	if err == nil && a.Manifest.Queue != b.Manifest.Queue {
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The earlier backup is one of %s, and this one is to be of "+
			"%s. Continue from a backup of the same.", subjectOf(a.Manifest.Queue), subjectOf(b.Manifest.Queue))}
	}
	if err == nil {
		b.since, err = a.Blocks(maxSince)
	}
	if err != nil {
		return &queue.Error{Code: queue.CodeInvalid,
			Message: "The earlier backup cannot be continued: " + err.Error() + ". Make a full backup."}
	}
	next, err := a.Manifest.Next()
	b.Manifest.Since = &next
	return err
}

// subjectOf says what a backup has.
func subjectOf(queue string) string {
	if queue == "" {
		return "the whole server"
	}
	return fmt.Sprintf("the queue %q", queue)
}

// wants says whether a queue or a shard belongs into the backup.
func (b *Backup) wants(name string) bool {
	return b.Manifest.Queue == "" || queue.IsNamed(name, b.Manifest.Queue)
}

// isWhole refuses a backup that would lack a queue. A backup of a cluster also has the queues that this node does not serve.
func (b *Backup) isWhole(e *Engine) error {
	for _, q := range e.Queues() {
		if q.Quarantined != nil && e.options.Cluster == nil && b.wants(q.Name) {
			return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue %q is in quarantine, so a backup would lack it. "+
				"Fix its files or delete it first.", q.Name)}
		}
	}
	return nil
}

// hasRoom refuses a backup whose copies would fill the disk, because queues must go on.
func (b *Backup) hasRoom(e *Engine) error {
	need := int64(ballastMargin) + fileSize(filepath.Join(e.options.Dir, catalogueFile))
	for _, q := range e.all() {
		if !b.wants(q.name) {
			continue
		}
		for _, name := range []string{storeFile, journalFile} {
			need += fileSize(filepath.Join(e.shardDir(q.id), name)) + newFiles
		}
	}
	if spare := e.ballast.spare(); spare < need {
		return &queue.Error{Code: queue.CodeDiskFull, Err: journal.ErrFull, Message: fmt.Sprintf("A backup needs room for a copy of the "+
			"data while it is made: %d MiB, and %d MiB are free beside what queues need to go on. Free some space, or make the copy "+
			"elsewhere, of a server that was stopped.", (need+1<<20-1)>>20, spare>>20)}
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

// backupSource gives the data for the backups of a home.
type backupSource interface {
	// lineage is the identity that two backups of this home have in common, so that one can continue the other.
	lineage() (queue.Identity, error)
	// cut takes one moment of the wanted queues, for a backup in an empty folder. The caller closes it, also after an error.
	cut(ctx context.Context, dir string, wanted func(queue string) bool) (cut, error)
}

func (l local) backups() backupSource { return l }

// cut is the whole server at one moment.
type cut struct {
	catalogue func(to string, id queue.Identity, pace func(bytes int) error) error
	queues    []queueCut
	closers   []func() error
}

// queueCut is a queue at that moment: the store as of a position of the journal, and the journal from there on.
type queueCut struct {
	name string
	id   queue.ShardID
	cuts.Span
	batches func(ctx context.Context, fn func(journal.Position, []byte) error) error
	store   func(ctx context.Context, to string, id queue.Identity, pace func(bytes int) error) error
	// moved says that data of the cut was deleted meanwhile; nil: that never happens.
	moved func(ctx context.Context) error
}

// moved says that the cut cannot be copied any more.
func (c *cut) moved(ctx context.Context) error {
	var errs []error
	for i := range c.queues {
		if moved := c.queues[i].moved; moved != nil {
			errs = append(errs, moved(ctx))
		}
	}
	return errors.Join(errs...)
}

func (c *cut) close() error {
	var errs []error
	for _, closeIt := range c.closers {
		errs = append(errs, closeIt())
	}
	return errors.Join(errs...)
}

// cut takes the moment. The cuts of the files must agree, so meanwhile no dead letter moves between two queues, no queue comes or goes, and
// no entry of a queue's journal enters the audit log.
func (l local) cut(ctx context.Context, _ string, wanted func(string) bool) (c cut, err error) {
	e := l.e
	e.forwards.turn.Lock()
	defer e.forwards.turn.Unlock()
	e.mu.RLock()
	defer e.mu.RUnlock()
	catalogue, err := store.CutCatalogue(e.catalogue)
	if err != nil {
		return c, err
	}
	c.catalogue, c.closers = catalogue.CopyTo, append(c.closers, catalogue.Close)
	var taken []*cuts.Cut
	for _, q := range e.queues {
		if !wanted(q.name) {
			continue
		}
		one, err := q.shard.Cuts.Prepare()
		if err != nil {
			return c, fmt.Errorf("queue %s: %w", q.name, err)
		}
		c.queues, c.closers, taken = append(c.queues, queueCut{name: q.name, id: q.id}), append(c.closers, one.Close), append(taken, one)
	}
	return c, catalogue.Take(func() error {
		for i, one := range taken {
			q := &c.queues[i]
			if err := one.Take(ctx); err != nil {
				return fmt.Errorf("queue %s: %w", q.name, err)
			}
			q.Span, q.batches = one.Span, one.Batches
			q.store = func(_ context.Context, to string, id queue.Identity, pace func(int) error) error {
				return one.Store.CopyTo(to, id, pace)
			}
		}
		return nil
	})
}

func (l local) lineage() (queue.Identity, error) { return l.e.identity, nil }

// copy copies the files of a cut, and lists them.
func (b *Backup) copy(ctx context.Context, c *cut, id queue.Identity) error {
	id = id.Opened()
	return b.withBlocks(func() error {
		for i := range c.queues {
			if err := b.copyQueue(ctx, &c.queues[i], id); err != nil {
				return fmt.Errorf("queue %s: %w", c.queues[i].name, err)
			}
		}
		return b.add(catalogueFile, func(to string) error { return c.catalogue(to, id, b.pace.done) })
	})
}

// withBlocks makes the entry with the checksums of the blocks, which add writes.
func (b *Backup) withBlocks(fill func() error) error {
	f, err := os.Create(b.at(archive.BlocksName))
	if err != nil {
		return err
	}
	hash := sha256.New()
	out := bufio.NewWriter(io.MultiWriter(f, hash))
	b.blocks = out
	err = errors.Join(fill(), out.Flush(), f.Close())
	b.Manifest.Blocks = hex.EncodeToString(hash.Sum(nil))
	return err
}

func (b *Backup) copyQueue(ctx context.Context, q *queueCut, id queue.Identity) error {
	folder := fmt.Sprintf("shards/%04d", q.id)
	if err := os.MkdirAll(b.at(folder), 0o700); err != nil {
		return err
	}
	b.Manifest.Queues = append(b.Manifest.Queues, archive.Queue{Name: q.name, Shard: int(q.id),
		Checkpointed: uint64(q.Checkpointed), UpTo: uint64(q.UpTo)})
	err := b.add(path.Join(folder, journalFile), func(to string) error {
		return sqlitelog.WriteCopy(to, id.ForShard(q.id), q.After(), func(fn func(journal.Position, []byte) error) error {
			return q.batches(ctx, func(at journal.Position, batch []byte) error {
				return errors.Join(fn(at, batch), b.pace.done(len(batch)))
			})
		})
	})
	if err != nil {
		return err
	}
	return b.add(path.Join(folder, storeFile), func(to string) error { return q.store(ctx, to, id.ForShard(q.id), b.pace.done) })
}

// add makes a file of the backup, and lists it. Of an increment only the blocks that changed are kept.
func (b *Backup) add(name string, make func(to string) error) error {
	path := b.at(name)
	if err := make(path); err != nil {
		return err
	}
	whole, err := os.Open(path)
	if err != nil {
		return err
	}
	var f archive.File
	if b.since == nil {
		f, err = archive.Sum(b.pace.reader(whole), b.blocks, nil, nil)
	} else {
		f, err = b.changed(path, b.pace.reader(whole), b.since[name])
	}
	f.Path = name
	b.Manifest.Files = append(b.Manifest.Files, f)
	return errors.Join(err, whole.Close())
}

// changed puts the changed blocks of a file in its place.
func (b *Backup) changed(path string, whole io.Reader, before []byte) (f archive.File, err error) {
	to, err := os.Create(path + ".changed")
	if err != nil {
		return f, err
	}
	f, err = archive.Sum(whole, b.blocks, before, to)
	if err = errors.Join(err, to.Close()); err != nil {
		return f, err
	}
	return f, os.Rename(to.Name(), path)
}

func (b *Backup) at(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

// Write writes the backup as a tar, once. It closes the backup before it writes the end: a caller that has read all of it can begin the
// next one.
func (b *Backup) Write(w io.Writer) error {
	return archive.Write(w, &b.Manifest, func(name string) (io.ReadCloser, error) {
		f, err := os.Open(b.at(name))
		return struct {
			io.Reader
			io.Closer
		}{b.pace.reader(f), f}, err
	}, func() { _ = b.Close() })
}

// Close removes the copies, and lets the next backup begin. A second call only returns the result again.
func (b *Backup) Close() error { return b.close() }

// copyPace slows a copy down for the sake of clients: after each piece it rests for as long as the piece took, so that calls find the disk
// and a processor free half of the time. The more the disk has to do, the longer a piece takes, and the rest after it.
type copyPace struct {
	ctx   context.Context // ends a rest
	now   func() time.Time
	began time.Time // when the piece did
	bytes int       // of it so far
}

const (
	copyPiece = 512 << 10
	copyRest  = time.Second // the longest
)

func newCopyPace(ctx context.Context, now func() time.Time) *copyPace {
	return &copyPace{ctx: ctx, now: now, began: now()}
}

// done says that this many more bytes are copied, and rests when that makes a piece.
func (p *copyPace) done(bytes int) error {
	if p.bytes += bytes; p.bytes < copyPiece {
		return p.ctx.Err()
	}
	rest := time.NewTimer(min(max(p.now().Sub(p.began), 0), copyRest))
	defer rest.Stop()
	select {
	case <-p.ctx.Done():
	case <-rest.C:
	}
	p.bytes, p.began = 0, p.now()
	return p.ctx.Err()
}

// reader is r at the same pace.
func (p *copyPace) reader(r io.Reader) io.Reader { return pacedReader{r, p} }

type pacedReader struct {
	io.Reader
	pace *copyPace
}

func (r pacedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if pausing := r.pace.done(n); pausing != nil {
		return n, pausing
	}
	return n, err
}
