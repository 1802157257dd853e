package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/blobs/blobtest"
)

// A folder of files is a medium of blobs.
func TestBlobFolder(t *testing.T) {
	t.Parallel()
	blobtest.Exercise(t, blobtest.Medium{
		Open: func(t *testing.T, dir string) (blobs.Blobs, func() error) {
			return blobFolder(t, dir), func() error { return nil }
		},
		Damage: func(t *testing.T, dir, key string) {
			path := blobFolder(t, dir).path(key)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func blobFolder(t *testing.T, dir string) *BlobFolder {
	t.Helper()
	f, err := OpenBlobFolder(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A file that is cut short at any byte, that is longer, or that is another blob of equal length is damaged; a file that a crash left half
// written is no blob, and is removed.
func TestFilesOfBlobs(t *testing.T) {
	t.Parallel()
	f := blobFolder(t, t.TempDir())
	for key, text := range map[string]string{"a": "some bytes", "b": "more bytes"} {
		if err := f.Put(t.Context(), key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(f.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(f.path("b"))
	if err != nil {
		t.Fatal(err)
	}
	files := [][]byte{append(whole[:len(whole):len(whole)], 0), other}
	for n := range whole {
		files = append(files, whole[:n])
	}
	for _, b := range files {
		if err := os.WriteFile(f.path("a"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := blobs.All(t.Context(), f, "a"); !errors.Is(err, blobs.ErrDamaged) || got != nil {
			t.Fatalf("a file of %d bytes, of %d: read as %q, %v; want ErrDamaged", len(b), len(whole), got, err)
		}
	}
	if err := os.WriteFile(f.path("c")+Partial, whole[:5], 0o600); err != nil {
		t.Fatal(err)
	}
	f, err = OpenBlobFolder(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := f.List(t.Context(), "", "", 10); len(list) != 2 || err != nil {
		t.Errorf("List = %v, %v; want a and b", list, err)
	}
	if left, err := filepath.Glob(filepath.Join(f.dir, "*"+Partial)); len(left) > 0 || err != nil {
		t.Errorf("%v is left, %v", left, err)
	}
}
