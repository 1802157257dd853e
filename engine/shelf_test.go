package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"testing"
)

// An owner that was overtaken may remove older copies after the next owner has made a newer one. It removes only copies older than its own,
// because the journal before the newer copy is gone.
func TestOldOwnerKeepsNewerCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := makeDir(filepath.Join(dir, "place")); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]shelf{"folder": folderShelf{dir}, "blobs": blobShelf{blobFolder(t, t.TempDir())}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := func(epoch, position int) string { return fmt.Sprintf("place/%010d-%020d", epoch, position) }
			older, kept, newer, newest := key(1, 900), key(2, 10), key(2, 2000), key(3, 11)
			for _, key := range []string{older, kept, newer, newest} {
				if err := s.write(key, func(w io.Writer) error { _, err := io.WriteString(w, key); return err }); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.keep("place", kept); err != nil {
				t.Fatal(err)
			}
			for key, want := range map[string]error{older: fs.ErrNotExist, kept: nil, newer: nil, newest: nil} {
				r, err := s.read(key)
				if !errors.Is(err, want) {
					t.Errorf("%s is read with %v, want %v", filepath.Base(key), err, want)
				}
				if err == nil {
					r.Close()
				}
			}
		})
	}
}
