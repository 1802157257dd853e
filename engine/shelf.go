package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
)

// blobShelf keeps the copies of stores as blobs: KEY/PART, each but the last of blobs.MaxBytes.
type blobShelf struct{ blobs blobs.Blobs }

func (blobShelf) name(key string) string { return "blob " + key }

func (b blobShelf) write(key string, fn func(io.Writer) error) error {
	w := partWriter{to: b.blobs, key: key}
	if err := fn(&w); err != nil {
		return err
	}
	return w.flush()
}

// partWriter writes its input as blobs, part by part.
type partWriter struct {
	to   blobs.Blobs
	key  string
	part int
	b    bytes.Buffer
}

func (w *partWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		some := b[:min(len(b), blobs.MaxBytes-w.b.Len())]
		w.b.Write(some)
		b, n = b[len(some):], n+len(some)
		if w.b.Len() == blobs.MaxBytes {
			err = w.flush()
		}
	}
	return n, err
}

func (w *partWriter) flush() error {
	err := w.to.Put(context.Background(), fmt.Sprintf("%s/%05d", w.key, w.part), w.b.Bytes())
	w.part++
	w.b.Reset()
	return err
}

// parts are the blobs of a copy, in their order, and how many bytes they have.
func (b blobShelf) parts(key string) (keys []string, bytes int64, err error) {
	err = blobs.Each(context.Background(), b.blobs, key+"/", func(part blobs.Blob) error {
		keys, bytes = append(keys, part.Key), bytes+part.Bytes
		return nil
	})
	return keys, bytes, err
}

func (b blobShelf) read(key string) (io.ReadCloser, error) {
	keys, _, err := b.parts(key)
	if err == nil && len(keys) == 0 {
		err = fs.ErrNotExist
	}
	return &partReader{from: b.blobs, keys: keys}, err
}

// partReader reads blobs one behind the other.
type partReader struct {
	from blobs.Blobs
	keys []string
	part []byte
}

func (r *partReader) Read(b []byte) (n int, err error) {
	for len(r.part) == 0 {
		if len(r.keys) == 0 {
			return 0, io.EOF
		}
		if r.part, err = blobs.All(context.Background(), r.from, r.keys[0]); err != nil {
			return 0, err
		}
		r.keys = r.keys[1:]
	}
	n = copy(b, r.part)
	r.part = r.part[n:]
	return n, nil
}

func (*partReader) Close() error { return nil }

func (b blobShelf) has(s journal.Snapshot) (bool, error) {
	_, bytes, err := b.parts(s.Key)
	return bytes == int64(s.Size), err
}

func (b blobShelf) keep(place, key string) error {
	return deleteBlobs(b.blobs, place+"/", func(of string) bool { return key != "" && of >= key })
}

// deleteBlobs deletes the blobs whose keys begin with prefix, but for those that stay.
func deleteBlobs(from blobs.Blobs, prefix string, stays func(key string) bool) (failed error) {
	ctx := context.Background()
	err := blobs.Each(ctx, from, prefix, func(b blobs.Blob) error {
		if !stays(b.Key) {
			failed = errors.Join(failed, from.Delete(ctx, b.Key))
		}
		return nil
	})
	return errors.Join(err, failed)
}

// folderShelf keeps the copies of stores as files in a folder.
type folderShelf struct{ dir string }

func (f folderShelf) name(key string) string { return filepath.Join(f.dir, filepath.FromSlash(key)) }

func (f folderShelf) write(key string, fn func(io.Writer) error) error {
	return WriteFile(f.name(key), fn)
}

func (f folderShelf) read(key string) (io.ReadCloser, error) { return os.Open(f.name(key)) }

func (f folderShelf) has(s journal.Snapshot) (bool, error) { return exists(f.name(s.Key)) }

func (f folderShelf) keep(place, key string) error {
	if key == "" {
		return os.RemoveAll(f.name(place))
	}
	entries, err := os.ReadDir(f.name(place))
	for _, entry := range entries {
		if path := filepath.Join(f.name(place), entry.Name()); entry.Name() != blobsFolder && path < f.name(key) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// blobsFolder is the folder, beside the copies of a queue's store, of the blobs that are in none of them.
const blobsFolder = "blobs"

// Blobs are the blobs that are kept beside the copies in a folder.
func (p Snapshots) Blobs() (*BlobFolder, error) {
	return OpenBlobFolder(filepath.Join(p.shelf.name(p.place), blobsFolder))
}
