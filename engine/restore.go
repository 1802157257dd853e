package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// restoringFile is the mark, in a data directory, of a restore that is not finished: a copy of the manifest. No server starts there.
const restoringFile = "restoring"

// Restore makes a data directory of a backup, in one that is empty or missing, or where a restore of the very same backup was cut off. It
// returns when every file is on the disk with the checksum of the manifest. Before that no server starts there.
//
// What comes of it is another data directory: it has an id of its own, so that its files and those of the old one cannot be mixed, and
// another key for the tokens of reservations, so that none that the old server gave out is good in both. Access tokens stay good.
func Restore(ctx context.Context, from io.Reader, dir string) (_ *archive.Manifest, err error) {
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be made: %w", dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	r := restoring{ctx: ctx, dir: dir}
	m, err := archive.Read(from, archive.Reader{Begin: r.begin, File: r.file})
	if err == nil {
		err = r.finish(m)
	}
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return m, nil
}

type restoring struct {
	ctx context.Context
	dir string
}

func (r *restoring) at(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// begin marks the directory, unless there is something else in it.
func (r *restoring) begin(m *archive.Manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	marked, err := os.ReadFile(r.at(restoringFile))
	switch {
	case err == nil && string(marked) == string(text):
		return nil
	case err == nil:
		return fmt.Errorf("a restore of another backup was begun in %s and not finished: finish it with that backup, or choose an "+
			"empty directory", r.dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "lock" && name != restoringFile+partial {
			return fmt.Errorf("%s is not empty: it has %s. Nothing was changed: choose an empty directory", r.dir, name)
		}
	}
	return r.write(restoringFile, strings.NewReader(string(text)))
}

// partial is behind the name of a file that is not whole.
const partial = ".partial"

// write makes a file that appears whole and durably, or not at all.
func (r *restoring) write(name string, content io.Reader) error {
	to := r.at(name)
	f, err := os.OpenFile(to+partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(to+partial))
	}
	if err := os.Rename(to+partial, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// file writes a file, unless it is there already, whole.
func (r *restoring) file(_ *archive.Manifest, f *archive.File, content io.Reader) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	to := r.at(f.Path)
	if size, sum, err := sumFile(to); err == nil && size == f.Size && sum == f.SHA256 {
		return nil
	}
	if err := makeDir(filepath.Dir(to)); err != nil {
		return err
	}
	for _, left := range []string{"-wal", "-shm", "-journal"} { // of a restore that was cut off
		if err := os.Remove(to + left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return r.write(f.Path, content)
}

// finish makes the files those of a directory of their own. All are there then, with their checksums: archive.Read has compared what was
// written, and what was there before was compared with the manifest.
func (r *restoring) finish(m *archive.Manifest) error {
	id := queue.Identity{Shard: queue.NoShard, Generation: 1, Oldest: 1}
	if _, err := io.ReadFull(rand.Reader, id.Directory[:]); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		to, shardID, err := r.at(f.Path), 0, error(nil)
		if f.Path == catalogueFile {
			err = store.Renew(r.ctx, to, tokenSecret, id)
		} else if _, err = fmt.Sscanf(f.Path, "shards/%d/", &shardID); err == nil {
			err = store.Assign(to, id.ForShard(queue.ShardID(shardID)))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	if err := os.Remove(r.at(restoringFile)); err != nil {
		return err
	}
	return syncDir(r.dir)
}

// isWhole refuses a directory in which a restore is not finished, and removes what a crash left of a backup.
func isWhole(dir string) error {
	if there, err := exists(filepath.Join(dir, restoringFile)); err != nil {
		return err
	} else if there {
		return fmt.Errorf("a restore in the data directory %s is not finished, so not all of it is there. Run \"quern restore\" "+
			"again with the same backup, which goes on where it was, or choose another directory with --data", dir)
	}
	return os.RemoveAll(filepath.Join(dir, backupDir))
}
