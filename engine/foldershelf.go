package engine

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/quern-queue/quern/engine/journal"
)

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
