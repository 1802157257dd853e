package sqlitelog

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
)

// A journal that grew while it could not be trimmed gives that room back when it is closed, and goes on where it was.
func TestLongJournalShrinks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	l := open(t, path, Options{})
	batch := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(batch)
	tail := journal.Position(0)
	for range 2 * keepFree >> 20 {
		var err error
		if tail, err = l.Append(t.Context(), tail, batch); err != nil {
			t.Fatal(err)
		}
	}
	full := l.Size()
	if err := l.Trim(t.Context(), tail-1); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > full/8 {
		t.Errorf("a journal of %d bytes, of which one batch of 1 MiB is left, has %d", full, info.Size())
	}
	l = open(t, path, Options{})
	defer l.Close()
	n := 0
	err = l.Read(t.Context(), tail-1, func(at journal.Position, got []byte) error {
		if n++; at != tail || !bytes.Equal(got, batch) {
			t.Errorf("afterwards it has %d bytes at %d; want the batch at %d", len(got), at, tail)
		}
		return nil
	})
	if n != 1 || err != nil {
		t.Errorf("it has %d batches afterwards, %v; want 1", n, err)
	}
	if _, err := l.Append(t.Context(), tail, batch); err != nil {
		t.Error(err)
	}
}
