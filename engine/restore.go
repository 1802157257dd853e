package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// restoringFile is the mark, in a data directory, of a restore that is not finished: a copy of the manifest. No server starts there.
const restoringFile = "restoring"

// Restore makes a data directory of a backup and its increments, in their order. The directory is empty or missing, or a restore that began
// with the very same backup was cut off in it. It returns when every file is on the disk with the checksum of the last manifest, which it
// returns. Before that no server starts there. Nothing is written when an increment does not continue the one before it.
//
// The result is another data directory. It has its own id, so that its files and those of the old one cannot be mixed, and its own key for
// the tokens of reservations, so that no token of the old server is good in both. Access tokens stay good.
func Restore(ctx context.Context, dir string, from ...io.Reader) (_ *archive.Manifest, err error) {
	chain, err := openChain(from)
	if err == nil {
		if of := chain[0].Manifest.Queue; of != "" {
			err = fmt.Errorf("the backup has only the queue %q, and nothing was changed. Restore it into the data directory that it was "+
				"made of, with --queue %s", of, of)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return restore(ctx, dir, chain)
}

// RestorePart is Restore, also of a backup of a single queue. Then the catalogue knows queues whose files are not there, so this is only to
// look at what the backup has.
func RestorePart(ctx context.Context, dir string, from ...io.Reader) (*archive.Manifest, error) {
	chain, err := openChain(from)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return restore(ctx, dir, chain)
}

func restore(ctx context.Context, dir string, chain []*archive.Archive) (_ *archive.Manifest, err error) {
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be made: %w", dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	r := restoring{ctx: ctx, dir: dir}
	if err := r.run(chain); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return chain[len(chain)-1].Manifest, nil
}

// openChain reads the manifests of a backup and its increments, and refuses those that do not follow each other.
func openChain(from []io.Reader) ([]*archive.Archive, error) {
	var chain []*archive.Archive
	for before := (*archive.Manifest)(nil); len(chain) < len(from); before = chain[len(chain)-1].Manifest {
		a, err := archive.Open(from[len(chain)])
		if err == nil {
			err = a.Manifest.Continues(before)
		}
		if err != nil {
			return nil, err
		}
		chain = append(chain, a)
	}
	return chain, nil
}

// restoreDir is the folder, in a data directory, for what Unpack makes. A start removes what a crash left of it.
const restoreDir = "restore.partial"

// Unpack makes those files of a backup and its increments that wanted chooses, in a folder of a data directory that no server uses. They
// are as the backup has them, with the identity that they had. The caller removes the folder. All of the backup is read and checked.
func Unpack(ctx context.Context, data string, wanted func(*archive.Manifest) (func(path string) bool, error),
	from ...io.Reader) (dir string, err error) {
	chain, err := openChain(from)
	if err != nil {
		return "", err
	}
	r := restoring{ctx: ctx, dir: filepath.Join(data, restoreDir)}
	if r.wanted, err = wanted(chain[len(chain)-1].Manifest); err != nil {
		return "", err
	}
	if err := errors.Join(isWhole(data), makeDir(r.at("shards"))); err != nil {
		return "", err
	}
	if err := r.unpack(chain); err != nil {
		return "", errors.Join(err, os.RemoveAll(r.dir))
	}
	return r.dir, nil
}

type restoring struct {
	ctx    context.Context
	dir    string
	wanted func(path string) bool // nil: all files are
}

func (r *restoring) run(chain []*archive.Archive) error {
	if err := r.begin(chain[0].Manifest); err != nil {
		return err
	}
	if err := r.unpack(chain); err != nil {
		return err
	}
	return r.finish(chain[len(chain)-1].Manifest)
}

func (r *restoring) unpack(chain []*archive.Archive) error {
	if err := r.hasRoom(chain); err != nil {
		return err
	}
	if err := chain[0].Files(r.file); err != nil {
		return err
	}
	for i, a := range chain[1:] {
		if err := a.Files(r.changed); err != nil {
			return err
		}
		if err := r.remove(chain[i].Manifest, a.Manifest); err != nil {
			return err
		}
	}
	return nil
}

// hasRoom refuses a restore that would fill the disk. The program would crash there: SQLite shares memory in a file, and the kernel has no
// room for it.
func (r *restoring) hasRoom(chain []*archive.Archive) error {
	need := int64(0)
	for _, a := range chain {
		of := int64(newFiles)
		for i := range a.Manifest.Files {
			f := &a.Manifest.Files[i]
			there, err := os.Stat(r.at(f.Path)) // of a restore that was cut off
			if (r.wanted == nil || r.wanted(f.Path)) && (err != nil || there.Size() != f.Size) {
				of += f.Size
			}
		}
		need = max(need, of)
	}
	if free := Spare(r.dir); free < need {
		return fmt.Errorf("it needs %d MiB, and on the disk of %s %d MiB are free: %w", (need+1<<20-1)>>20, r.dir, free>>20, syscall.ENOSPC)
	}
	return nil
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
		if name := entry.Name(); name != "lock" && name != restoringFile+Partial {
			return fmt.Errorf("%s is not empty: it has %s. Nothing was changed: choose an empty directory", r.dir, name)
		}
	}
	return WriteFile(r.at(restoringFile), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// file writes a file, unless it is there already, whole.
func (r *restoring) file(f *archive.File, content io.Reader) error {
	if r.wanted != nil && !r.wanted(f.Path) {
		return nil
	}
	to, err := r.ready(f)
	if err != nil {
		return err
	}
	if size, sum, err := sumFile(to); err == nil && size == f.Size && sum == f.SHA256 {
		return nil
	}
	return WriteFile(to, func(w io.Writer) error {
		_, err := io.Copy(w, content)
		return err
	})
}

// ready makes the folder of a file, and removes what a restore that was cut off left beside it. It returns the path of the file.
func (r *restoring) ready(f *archive.File) (path string, err error) {
	if err := r.ctx.Err(); err != nil {
		return "", err
	}
	to := r.at(f.Path)
	if err := makeDir(filepath.Dir(to)); err != nil {
		return "", err
	}
	return to, removeAll(to+"-wal", to+"-shm", to+"-journal")
}

func removeAll(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// changed brings a file to the state of an increment. If it is cut off, the file has neither the old state nor the new one: the restore
// then begins with the first backup again, which writes the file whole.
func (r *restoring) changed(f *archive.File, content io.Reader) error {
	if r.wanted != nil && !r.wanted(f.Path) {
		return nil
	}
	path, err := r.ready(f)
	if err != nil {
		return err
	}
	to, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(to.Truncate(f.Size), archive.Apply(content, f.Size, to))
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	if _, sum, err := sumFile(path); err != nil || sum != f.SHA256 {
		return errors.Join(fmt.Errorf("%s has not become what it was: its checksum is %s and the manifest has %s",
			f.Path, sum, f.SHA256), err)
	}
	return syncDir(filepath.Dir(path))
}

// remove removes the files that an increment does not have any more: those of queues that were deleted.
func (r *restoring) remove(before, now *archive.Manifest) error {
	for _, f := range before.Files {
		if slices.ContainsFunc(now.Files, func(kept archive.File) bool { return kept.Path == f.Path }) {
			continue
		}
		if err := removeAll(r.at(f.Path)); err != nil {
			return err
		}
		_ = os.Remove(filepath.Dir(r.at(f.Path))) // once it is empty
	}
	return syncDir(r.at("shards"))
}

// finish gives the files the identity of the new directory. By then all are there, with their checksums: archive.Read has compared the
// written ones, and those that were there before were compared with the manifest. Clients of the old server come with places among the
// ends, so each shard goes on in an epoch behind those of the old server.
func (r *restoring) finish(m *archive.Manifest) error {
	id := queue.Identity{Shard: queue.NoShard, Generation: 1, Oldest: 1}
	if _, err := io.ReadFull(rand.Reader, id.Directory[:]); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		to, shardID, err := r.at(f.Path), queue.ShardID(0), error(nil)
		switch filepath.Base(to) {
		case catalogueFile:
			err = store.Renew(r.ctx, to, tokenSecret, id)
		case journalFile: // its store is beside it
			if _, err = fmt.Sscanf(f.Path, "shards/%d/", &shardID); err == nil {
				_, err = GoOn(r.ctx, filepath.Dir(to), id.ForShard(shardID), queue.At(time.Now()), 0)
			}
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

// isWhole refuses a directory in which a restore is not finished. It removes the parts of a backup, or of a restore of single queues, that
// a crash left.
func isWhole(dir string) error {
	if there, err := exists(filepath.Join(dir, restoringFile)); err != nil {
		return err
	} else if there {
		return fmt.Errorf("a restore in the data directory %s is not finished, so not all of it is there. Run \"quern restore\" "+
			"again with the same backup, which goes on where it was, or choose another directory with --data", dir)
	}
	return errors.Join(os.RemoveAll(filepath.Join(dir, backupDir)), os.RemoveAll(filepath.Join(dir, restoreDir)))
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
