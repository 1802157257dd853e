package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
)

// BlobFolder keeps blobs as files in a folder, which it makes with the first one. It implements blobs.Blobs. A file has the bytes, and
// behind them the SHA-256 of key and bytes. A file that is cut short, changed, or of another key is damaged.
type BlobFolder struct {
	dir   string
	seed  maphash.Seed
	locks [64]sync.Mutex // by key: a put or a delete of a key is alone with it
}

// blobSuffix ends the names of the files, so that no name is "..".
const blobSuffix = ".blob"

// OpenBlobFolder opens the folder at dir, and removes the files of a Put that a crash cut off.
func OpenBlobFolder(dir string) (*BlobFolder, error) {
	f := &BlobFolder{dir: dir, seed: maphash.MakeSeed()}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), Partial) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	return f, err
}

// path is the file of a key. Keys have no dots, so no two have the same one.
func (f *BlobFolder) path(key string) string {
	return filepath.Join(f.dir, strings.ReplaceAll(key, "/", ".")+blobSuffix)
}

func (f *BlobFolder) lock(key string) (unlock func()) {
	m := &f.locks[maphash.String(f.seed, key)%uint64(len(f.locks))]
	m.Lock()
	return m.Unlock
}

// Put implements blobs.Blobs.
func (f *BlobFolder) Put(ctx context.Context, key string, b []byte) error {
	if err := errors.Join(blobs.Check(key, len(b)), ctx.Err()); err != nil {
		return err
	}
	defer f.lock(key)()
	there, err := f.read(key)
	switch {
	case err == nil && bytes.Equal(there, b):
		return nil
	case err == nil || errors.Is(err, blobs.ErrDamaged):
		return fmt.Errorf("blob %s: %w", key, blobs.ErrExists)
	case !errors.Is(err, blobs.ErrMissing):
		return err
	}
	if err := makeDir(f.dir); err != nil {
		return full(err)
	}
	return full(WriteFile(f.path(key), func(w io.Writer) error {
		sum := blobSum(key, b)
		_, err := w.Write(b)
		if err == nil {
			_, err = w.Write(sum[:])
		}
		return err
	}))
}

// full gives the error of a disk without room the name that callers know.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", journal.ErrFull, err)
	}
	return err
}

func blobSum(key string, b []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	_, _ = io.WriteString(h, key+"\x00")
	h.Write(b)
	h.Sum(sum[:0])
	return sum
}

// read reads a whole blob.
func (f *BlobFolder) read(key string) ([]byte, error) {
	file, err := os.ReadFile(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", key, blobs.ErrMissing)
	}
	if err != nil {
		return nil, err
	}
	if n := len(file) - sha256.Size; n >= 0 {
		if sum := blobSum(key, file[:n]); bytes.Equal(sum[:], file[n:]) {
			return file[:n:n], nil
		}
	}
	return nil, fmt.Errorf("the file %s does not have what was written to it: %w", f.path(key), blobs.ErrDamaged)
}

// Get implements blobs.Blobs.
func (f *BlobFolder) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := f.read(key)
	if err == nil {
		b, err = blobs.Section(b, off, n)
	}
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// List implements blobs.Blobs.
func (f *BlobFolder) List(ctx context.Context, prefix, after string, most int) (list []blobs.Blob, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var keys []string
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), blobSuffix)
		if key := strings.ReplaceAll(name, ".", "/"); is && strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if len(list) >= min(most, blobs.MaxList) {
			break
		}
		info, err := os.Stat(f.path(key))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, blobs.Blob{Key: key, Bytes: max(info.Size()-sha256.Size, 0)})
	}
	return list, nil
}

// Delete implements blobs.Blobs.
func (f *BlobFolder) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer f.lock(key)()
	err := os.Remove(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDir(f.dir)
	}
	return err
}
