package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine"
)

// dataNames are the files of a data directory that a check reads: databases with their logs, and the mark of a restore that is not done.
var dataNames = regexp.MustCompile(`^(restoring|quern\.db(-wal|-shm)?|shards/[0-9]{4}/(store|journal)\.db(-wal|-shm)?)$`)

const catalogueName = "quern.db"

// dataFiles lists those files, as paths below the directory.
func dataFiles(dir string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && dataNames.MatchString(path) {
			names = append(names, filepath.FromSlash(path))
		}
		return err
	})
	return names, err
}

// inCopy has `take` copy files into a folder, and `read` look at them. Then it removes the folder. While `take` copies, no server can have
// the directory.
func (o *Options) inCopy(dir string, take, read func(work string) error) (err error) {
	release, err := engine.HoldDir(dir)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.Work, "quern-inspect-")
	if err != nil {
		return errors.Join(err, release())
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := errors.Join(take(work), release()); err != nil {
		return err
	}
	return read(work)
}

// Copy copies the files of a data directory into another folder.
func (o *Options) Copy(ctx context.Context, from, to string) error { return o.copy(ctx, from, to, "") }

// CopyCatalogue copies the catalogue of a data directory into another folder.
func (o *Options) CopyCatalogue(ctx context.Context, from, to string) error {
	return o.copy(ctx, from, to, catalogueName)
}

// copy copies the files of a directory whose names begin with `begin`. On a file system that can share blocks between files, the copy takes
// no time and no room.
func (o *Options) copy(ctx context.Context, from, to, begin string) error {
	names, err := dataFiles(from)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(filepath.ToSlash(name), begin) })
	return o.CopyFiles(ctx, from, to, names)
}

// CopyFiles copies files of a folder, if they are there, into another folder.
func (o *Options) CopyFiles(ctx context.Context, from, to string, names []string) error {
	total := int64(0)
	names = slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Stat(filepath.Join(from, name))
		if err == nil {
			total += info.Size()
		}
		return errors.Is(err, fs.ErrNotExist)
	})
	if err := hasRoom(filepath.Dir(to), total); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	done := int64(0)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := copyFile(filepath.Join(from, name), filepath.Join(to, name))
		if err != nil {
			return err
		}
		if done += n; o.Copied != nil {
			o.Copied(done, total)
		}
	}
	return nil
}

// hasRoom refuses a copy that would fill a disk.
func hasRoom(folder string, bytes int64) error {
	need := bytes + bytes/4 + 1<<20 // opening the copy writes some of it again, and SQLite needs memory that it shares in a file
	if free := engine.Spare(folder); free < need {
		return fmt.Errorf("the copy needs %d bytes, and in %s there are %d: choose a folder with more room",
			need, filepath.Dir(folder), free)
	}
	return nil
}

func copyFile(from, to string) (n int64, err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return 0, err
	}
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(out, in)
	return n, errors.Join(err, out.Close())
}
