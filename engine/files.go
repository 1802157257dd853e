package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/quern-queue/quern/engine/store"
)

const (
	catalogueFile = "quern.db"
	storeFile     = "store.db"
	journalFile   = "journal.db"
)

// makeDir makes a directory with all above it, so that they outlive a power cut: acknowledged work is lost if the names of its files are.
func makeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(path)
	if above != path {
		if err := makeDir(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		if info, again := os.Stat(path); again == nil && info.IsDir() {
			return nil // another caller was faster
		}
		return err
	}
	return syncDir(above)
}

func syncDir(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Partial ends the name of a file that WriteFile is writing.
const Partial = ".partial"

// WriteFile makes a file that appears whole and durably, in the place of an older one, or not at all.
func WriteFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path+Partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+Partial))
	}
	if err := os.Rename(path+Partial, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// oursOrHarmless are the names that may stand in a data directory without a catalogue: files that a start makes before it, files that are
// left when it is lost, and files of a directory that was made for a server.
var oursOrHarmless = []string{"ballast", "lock", "lost+found", "plugins", "quern.yaml", "shards", "tls", backupDir, restoringFile,
	restoringFile + Partial, catalogueFile + "-shm", catalogueFile + "-wal"}

// isOurs refuses a directory that has no catalogue and the files of others, because ours would be mixed with them. Hidden files, sockets
// and empty folders are harmless.
func isOurs(dir string) error {
	if there, err := exists(filepath.Join(dir, catalogueFile)); there || err != nil {
		return err
	}
	if there, err := exists(filepath.Join(dir, restoringFile)); there || err != nil {
		return errors.Join(err, isWhole(dir)) // half a restore is refused as such, whatever it has
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("the data directory %s cannot be read: %w", dir, err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if slices.Contains(oursOrHarmless, name) || name[0] == '.' || entry.Type() == fs.ModeSocket {
			continue
		}
		if inside, err := os.ReadDir(filepath.Join(dir, name)); err == nil && len(inside) == 0 {
			continue
		}
		return fmt.Errorf("%s is no data directory, and not empty: it has %s. Nothing was changed: choose an empty or missing "+
			"directory with --data", dir, name)
	}
	return nil
}

// hasCatalogue refuses a directory with shards and no catalogue: a new one would know none of their queues.
func hasCatalogue(dir string) error {
	path := filepath.Join(dir, catalogueFile)
	if there, err := exists(path); there || err != nil {
		return err
	}
	shards, err := os.ReadDir(filepath.Join(dir, "shards"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(shards) > 0 {
		return missing(path, "there are shards beside it")
	}
	return nil
}

// hasFiles refuses a queue of the catalogue whose files are gone, instead of starting over with an empty one. A queue comes into
// the catalogue after its files are on disk, and leaves it before they are removed.
func (l local) hasFiles(row store.QueueRow) error {
	for _, name := range []string{storeFile, journalFile} {
		path := filepath.Join(l.e.shardDir(row.Shard), name)
		there, err := exists(path)
		if err != nil {
			return err
		}
		if !there {
			return missing(path, fmt.Sprintf("the catalogue has its queue %q", row.Name))
		}
	}
	return nil
}

// knowsFolders refuses folders of shards that the catalogue does not have: it may have lost queues full of work. It removes the remains of
// a queue whose creation or deletion was cut off.
func (l local) knowsFolders(c *store.Catalogue) error {
	e := l.e
	rows, err := c.Queues()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, row := range rows {
		known[filepath.Base(e.shardDir(row.Shard))] = true
	}
	left, err := c.Leftovers()
	if err != nil {
		return err
	}
	for _, id := range left {
		dir := e.shardDir(id)
		if known[filepath.Base(dir)] {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	folders, err := os.ReadDir(filepath.Join(e.options.Dir, "shards"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, folder := range folders {
		if name := folder.Name(); folder.IsDir() && strings.Trim(name, "0123456789") == "" && !known[name] {
			return fmt.Errorf("%s is there, but the catalogue %s has no queue for it: the catalogue may have lost "+
				"one. Nothing was changed: restore the whole data directory from a backup, or, if the work in it is "+
				"not needed, move the folder out of the data directory",
				filepath.Join(e.options.Dir, "shards", name), filepath.Join(e.options.Dir, catalogueFile))
		}
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func missing(path, but string) error {
	return fmt.Errorf("%s is missing, but %s. Nothing was changed: restore the whole data directory from a backup, "+
		"or choose another with --data", path, but)
}

// dirLock keeps a second server off a data directory. The kernel lets go of it when the process ends, however it ends.
type dirLock struct {
	file   *os.File
	backup sync.Mutex // held by the one backup that is being made or read
}

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be written (%w): give this user write access, or choose "+
			"another with --data", dir, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("the data directory %s cannot be locked: %w", dir, err)
		}
		holder, _ := os.ReadFile(path)
		return nil, fmt.Errorf("the data directory %s is in use by %s: stop that server, or choose another directory "+
			"with --data", dir, strings.TrimSpace(string(holder)))
	}
	host, _ := os.Hostname()
	text := fmt.Sprintf("process %d on %s\n", os.Getpid(), host)
	if err := errors.Join(writeAt(file, text), file.Truncate(int64(len(text)))); err != nil { // in this order a full disk does not matter
		return nil, errors.Join(fmt.Errorf("the data directory %s cannot be written: %w", dir, err), file.Close())
	}
	return &dirLock{file: file}, nil
}

// HoldDir keeps servers from a data directory until release, without writing in it. A copy without a lock needs none.
func HoldDir(dir string) (release func() error, err error) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		if there, err := exists(filepath.Join(dir, catalogueFile)); err != nil || !there {
			return nil, errors.Join(err, fmt.Errorf("%s is no data directory: it has neither a lock nor a %s. Name another with --data",
				dir, catalogueFile))
		}
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := io.ReadAll(f)
		err = fmt.Errorf("the data directory %s is in use by %s: stop that server, or check a backup of it: quern backup FILE, "+
			"quern check FILE", dir, strings.TrimSpace(string(holder)))
	} else if err != nil {
		err = fmt.Errorf("the data directory %s cannot be locked: %w", dir, err)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// SwapDirs puts two folders into each other's place, in one step.
func SwapDirs(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// release lets go of the lock at once. Closing alone would not: a child that this process is starting, such as one that compiles a plugin,
// has the file open until it runs its own program.
func (l *dirLock) release() error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}
