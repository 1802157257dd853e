package engine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A data directory with any file of an unreleased build is refused. The error names the file and the build, and says what to do. No queue
// is put in quarantine for it, and the file stays as it was.
func TestUnreleasedDirectory(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"quern.db": "QrnC", "shards/0000/store.db": "QrnS", "shards/0000/journal.db": "QrnJ"} {
		dir := filepath.Join(t.TempDir(), "data")
		closed(t, openAt(t, dir))
		path := filepath.Join(dir, filepath.FromSlash(name))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copy(b[68:], id) // the application id
		b[63] = 10       // the version
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := openIn(t, dir)
		if err == nil {
			closed(t, e)
			t.Fatalf("%s: the directory opened", name)
		}
		format, is := errors.AsType[*queue.FormatError](err)
		for _, want := range []string{path, "an unreleased build of Quern made", "Start with a new data directory"} {
			if !is || !format.Unread || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: Open = %v; want a *queue.FormatError with %q", name, err, want)
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, b) {
			t.Errorf("%s: the file changed, %v", name, err)
		}
	}
}
