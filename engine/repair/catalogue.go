package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/engine/store"
)

// catalogue makes a new catalogue of a damaged one. Every folder of a shard gets its queue back.
func (r *repairing) catalogue(ctx context.Context) error {
	path := filepath.Join(r.dir, "quern.db")
	reason, err := damagedOf(ctx, path, func() error {
		return withCatalogue(ctx, path, func(*store.Catalogue, []store.QueueRow) error { return nil })
	}, func(tell func(sqlitedb.Damage)) error {
		_, err := store.VerifyCatalogue(ctx, path, tell)
		return err
	})
	if err != nil || reason == "" {
		return err
	}
	r.doing("the catalogue")
	queues := map[queue.ShardID]string{} // names in damaged rows
	err = replace(path, func(damaged string) error {
		return store.SalvageCatalogue(ctx, damaged, path, r.identity(ctx, damaged), func(l store.LeftOut) {
			if name, is := l.Values["name"].(string); is && l.Table == "queue" {
				queues[queue.ShardID(l.Row)] = name
			}
			r.leftOut("", "quern.db", &l)
		})
	})
	if err != nil {
		return err
	}
	r.report.Files = append(r.report.Files, File{File: r.shown(path), Reason: r.shown(reason)})
	return r.folders(ctx, path, queues)
}

// withCatalogue opens a catalogue and reads its queues.
func withCatalogue(ctx context.Context, path string, fn func(*store.Catalogue, []store.QueueRow) error) (err error) {
	c, err := store.OpenCatalogue(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	rows, err := c.Queues()
	if err != nil {
		return err
	}
	return fn(c, rows)
}

// identity is that of a directory, as its damaged catalogue or its other files have it. No file is ahead of its generation.
func (r *repairing) identity(ctx context.Context, catalogue string) (id queue.Identity) {
	paths, err := filepath.Glob(filepath.Join(r.dir, "shards", "*", "*.db"))
	if err != nil {
		paths = nil // the pattern is sound
	}
	for _, path := range append([]string{catalogue}, paths...) {
		read := sqlitedb.StillRows // the log that a file must have is not taken in
		if path == catalogue {
			read = sqlitedb.Rows
		}
		_ = read(ctx, path, func(row sqlitedb.Row) error { // of what can be read
			if id.Directory == ([16]byte{}) {
				copy(id.Directory[:], row.Blob(0))
			}
			id.Generation = max(id.Generation, uint64(row.Int(1)))
			return nil
		}, "SELECT directory, generation FROM identity")
	}
	id.Shard, id.Generation = queue.NoShard, id.Generation+1
	return id
}

// folders makes a queue, with the settings of a new one, for each folder of a shard that the catalogue has lost.
func (r *repairing) folders(ctx context.Context, path string, names map[queue.ShardID]string) error {
	folders, err := os.ReadDir(filepath.Join(r.dir, "shards"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return withCatalogue(ctx, path, func(c *store.Catalogue, rows []store.QueueRow) error {
		left, err := c.Leftovers()
		if err != nil {
			return err
		}
		for _, folder := range folders {
			n, err := strconv.ParseUint(folder.Name(), 10, 16)
			shard := queue.ShardID(n)
			known := slices.ContainsFunc(rows, func(row store.QueueRow) bool { return row.Shard == shard })
			if err != nil || known || slices.Contains(left, shard) {
				continue
			}
			row := store.QueueRow{Name: nameOf(shard, names[shard], rows), Shard: shard, Settings: queue.DefaultSettings(),
				Created: queue.At(r.o.Now())}
			if err := c.PutQueue(row); err != nil {
				return err
			}
			rows = append(rows, row)
			r.lost = append(r.lost, Lost{Queue: row.Name, Op: "settings", Fields: map[string]any{"shard": folder.Name()}})
		}
		return nil
	})
}

// nameOf is the name of a queue whose row is lost: the one in the damaged row, if it is a possible name. The first shard of a directory
// belongs to the queue `default`.
func nameOf(shard queue.ShardID, damaged string, rows []store.QueueRow) string {
	names := []string{damaged, fmt.Sprintf("recovered-%04d", shard)}
	if shard == 0 {
		names = []string{damaged, engine.DefaultQueue, names[1]}
	}
	for _, name := range names {
		taken := slices.ContainsFunc(rows, func(row store.QueueRow) bool { return row.Name == name })
		whole, _ := queue.CutShard(name)
		if !taken && engine.ValidQueueName(whole) == nil {
			return name
		}
	}
	return names[len(names)-1] + strings.Repeat("-", len(rows))
}
