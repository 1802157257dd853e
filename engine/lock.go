package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

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

// release lets go at once. Closing alone would not: a child that this process starts at the moment, such as one that
// compiles a plugin, has the file until it runs its own program.
func (l *dirLock) release() error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}
