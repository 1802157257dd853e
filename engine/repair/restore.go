package repair

// A restore puts a shard or a queue from a backup into the data directory of a stopped server, beside shards that are newer. Clients and
// other shards hold names and numbers that the shard gave out after the backup. These must not get another meaning:
//
//	tokens of reservations    the shard goes on in an epoch behind all that there can have been, so it gives none out again
//	numbers of dead letters   its outbox goes on behind all that other queues can have seen, so they take no letter for an old one
//	the audit log             numbers of entries go on behind those of the log, as at every start
//	groups                    a backup from before a group moved, or the queue was divided, is refused: it would be in two shards
//
//	backup ─► restore.partial/shards/0003 ─► shards/0003
//	                     shards/0003      ─► shards/0003.before-20261130T184500Z
//
// Until the last two steps nothing is changed. After a kill between them the shard has no files, so a server quarantines it, and the same
// restore can be run again.

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// Restore is a restore of one queue, or of one shard.
type Restore struct {
	Dir     string // the data directory
	Queue   string // "orders~2" is a shard; "orders" are all shards of it that are in quarantine
	Replace bool   // also shards that are not in quarantine
	Now     func() time.Time
}

// Restored is the result of a restore.
type Restored struct {
	Made   time.Time // the moment of the backup
	Queues []string
	Before []string // the folders that now have the files that were there
}

// known is a catalogue's data about the queue.
type known struct {
	id     queue.Identity
	rows   []store.QueueRow // the queue and its further shards
	groups []store.GroupRow
}

// Run restores from a backup and its increments. No server may use the directory.
func (o *Restore) Run(ctx context.Context, from ...io.Reader) (done Restored, err error) {
	if _, err := os.Stat(filepath.Join(o.Dir, "quern.db")); err != nil {
		return done, fmt.Errorf("%s is no data directory of a single server. --queue restores into one that is there, and not into a "+
			"cluster: %w", o.Dir, err)
	}
	release, err := engine.HoldDir(o.Dir)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, release()) }()
	work, err := os.MkdirTemp("", "quern-restore-")
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	now, err := o.catalogue(ctx, filepath.Join(work, "data"))
	if err != nil {
		return done, err
	}
	rows, err := o.chosen(now.rows)
	if err != nil {
		return done, err
	}
	epochs := make([]uint32, len(rows))
	for i := range rows {
		if epochs[i], err = o.newestEpoch(ctx, work, &rows[i]); err != nil {
			return done, fmt.Errorf("nothing was changed: %w", err)
		}
	}
	partial, err := engine.Unpack(ctx, o.Dir, func(m *archive.Manifest) (func(string) bool, error) {
		done.Made = m.Made
		return wantedOf(m, &now.id, rows)
	}, from...)
	if err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(partial)) }()
	then, err := o.knownIn(ctx, filepath.Join(partial, "quern.db"))
	if err != nil {
		return done, err
	}
	for i := range rows {
		if err := fits(&rows[i], &now, &then); err != nil {
			return done, fmt.Errorf("nothing was changed: %w", err)
		}
		epochs[i], err = engine.GoOn(ctx, folderOf(partial, &rows[i]), now.id.ForShard(rows[i].Shard), queue.At(o.Now()), epochs[i])
		if err != nil {
			return done, fmt.Errorf("nothing was changed: queue %s: %w", rows[i].Name, err)
		}
	}
	for i := range rows {
		before, err := o.put(folderOf(partial, &rows[i]), folderOf(o.Dir, &rows[i]), epochs[i])
		if err != nil {
			return done, err
		}
		done.Queues, done.Before = append(done.Queues, rows[i].Name), append(done.Before, before)
	}
	return done, nil
}

func folderOf(dir string, row *store.QueueRow) string {
	return filepath.Join(dir, "shards", fmt.Sprintf("%04d", row.Shard))
}

// catalogue reads a copy of the catalogue: to open the files of a server that was killed would change them.
func (o *Restore) catalogue(ctx context.Context, copied string) (k known, err error) {
	if err := (&check.Options{Now: o.Now}).CopyCatalogue(ctx, o.Dir, copied); err != nil {
		return k, err
	}
	if k, err = o.knownIn(ctx, filepath.Join(copied, "quern.db")); err != nil {
		err = fmt.Errorf("the catalogue of %s cannot be read, so restore the whole directory: %w", o.Dir, err)
	}
	return k, err
}

// newestEpoch is the newest one that the files of a shard name, also those that earlier restores put aside. It reads copies of journals.
func (o *Restore) newestEpoch(ctx context.Context, work string, row *store.QueueRow) (epoch uint32, err error) {
	shards, name := filepath.Split(folderOf(o.Dir, row))
	folders, err := os.ReadDir(shards)
	if err != nil {
		return 0, err
	}
	for _, folder := range folders {
		of, before, _ := strings.Cut(folder.Name(), beforeMark)
		if of != name {
			continue
		}
		if at, err := time.Parse(beforeTime, before); err == nil {
			epoch = max(epoch, uint32(at.Unix()))
		}
		copied := filepath.Join(work, folder.Name())
		err := (&check.Options{}).CopyFiles(ctx, filepath.Join(shards, folder.Name()), copied,
			[]string{"journal.db", "journal.db-wal", "journal.db-shm"})
		if err != nil && !errors.Is(err, syscall.EIO) { // damage is no reason to stop
			return 0, err
		}
		err = sqlitelog.Salvage(ctx, filepath.Join(copied, "journal.db"), 0, func(b sqlitelog.Batch) error {
			if of, err := journal.Epoch(b.Bytes); err == nil && b.Damage == "" {
				epoch = max(epoch, of)
			}
			return nil
		})
		if err := errors.Join(err, os.RemoveAll(copied)); err != nil {
			return 0, err
		}
	}
	return epoch, nil
}

func (o *Restore) knownIn(ctx context.Context, path string) (k known, err error) {
	whole, _ := queue.CutShard(o.Queue)
	return k, withCatalogue(ctx, path, func(c *store.Catalogue, rows []store.QueueRow) (err error) {
		if k.id, err = c.Identity(); err != nil {
			return err
		}
		k.rows = slices.DeleteFunc(rows, func(row store.QueueRow) bool { of, _ := queue.CutShard(row.Name); return of != whole })
		k.groups, err = store.Groups(c, whole, 0)
		return err
	})
}

// numberOf is the number of a shard: the first one has the name of the queue.
func numberOf(row *store.QueueRow) int {
	_, number := queue.CutShard(row.Name)
	return max(number, 1)
}

// chosen are the rows of the shards to restore.
func (o *Restore) chosen(rows []store.QueueRow) (list []store.QueueRow, err error) {
	for i := range rows {
		if queue.IsNamed(rows[i].Name, o.Queue) {
			list = append(list, rows[i])
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no queue %q", o.Dir, o.Queue)
	}
	if !o.Replace {
		list = slices.DeleteFunc(list, func(row store.QueueRow) bool { return row.Quarantined == 0 })
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the queue %q is not in quarantine, so a restore would lose what it did since the backup. If its files are "+
			"damaged, start the server, which finds out. To replace it all the same, add --replace", o.Queue)
	}
	return list, nil
}

// wantedOf are the files of a backup that a restore needs: those of the queues, and the catalogue.
func wantedOf(m *archive.Manifest, id *queue.Identity, rows []store.QueueRow) (func(path string) bool, error) {
	if m.Directory != hex.EncodeToString(id.Directory[:]) {
		return nil, errors.New("the backup is of another data directory. (A restored server has another directory than the server that " +
			"was backed up.) A single queue can only be restored into the directory that was backed up")
	}
	for i := range rows {
		if !slices.ContainsFunc(m.Queues, func(q archive.Queue) bool { return q.Name == rows[i].Name && q.Shard == int(rows[i].Shard) }) {
			return nil, fmt.Errorf("the backup does not have the queue %q", rows[i].Name)
		}
	}
	return func(path string) bool {
		return path == "quern.db" || slices.ContainsFunc(rows, func(row store.QueueRow) bool {
			return strings.HasPrefix(path, fmt.Sprintf("shards/%04d/", row.Shard))
		})
	}, nil
}

// fits refuses a backup of a shard whose groups were elsewhere then, or of another queue that had its number and name.
func fits(row *store.QueueRow, now, then *known) error {
	find := func(k *known, name string) *store.QueueRow {
		i := slices.IndexFunc(k.rows, func(row store.QueueRow) bool { return row.Name == name })
		if i < 0 {
			return &store.QueueRow{}
		}
		return &k.rows[i]
	}
	if find(then, row.Name).Created != row.Created {
		return fmt.Errorf("the queue %q was deleted after the backup, and made again. Restore the whole directory", row.Name)
	}
	whole, _ := queue.CutShard(row.Name)
	if find(then, whole).Settings.Shards <= 1 && find(now, whole).Settings.Shards > 1 {
		return fmt.Errorf("the queue %q had one shard when the backup was made, and has %d now, so groups may have moved. Restore the "+
			"whole directory", whole, find(now, whole).Settings.Shards)
	}
	was, number := map[string]int{}, numberOf(row)
	for _, g := range then.groups {
		was[g.Name] = g.Shard
	}
	for _, g := range now.groups {
		if before := was[g.Name]; before != 0 && before != g.Shard && (before == number || g.Shard == number) {
			return fmt.Errorf("the group %q moved from shard %d to shard %d after the backup, and would be in both. Restore the whole "+
				"directory", g.Name, before, g.Shard)
		}
	}
	return nil
}

// The name of the folder with the earlier files has the time. The time is not before the epoch in which the shard goes on, so the next
// restore knows that epoch when the journal is lost.
const (
	beforeMark = ".before-"
	beforeTime = "20060102T150405.000Z"
)

// put puts a folder into the place of another one.
func (o *Restore) put(from, to string, epoch uint32) (before string, err error) {
	at := o.Now()
	if went := time.Unix(int64(epoch), 0); went.After(at) {
		at = went
	}
	before = to + beforeMark + at.UTC().Format(beforeTime)
	switch err := os.Rename(to, before); {
	case errors.Is(err, fs.ErrNotExist):
		before = ""
	case err != nil:
		return "", err
	}
	return before, publish(from, to)
}
