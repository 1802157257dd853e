package sqlitelog

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
)

// A journal that was closed after an append of unknown outcome refuses every call: a checkpoint may still trim the one that a reload closed.
func TestClosedLogRefuses(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), 0, []byte{1}); err != nil {
		t.Fatal(err)
	}
	l.doubt = true
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, appended := l.Append(t.Context(), 1, []byte{2})
	_, tail := l.Tail(t.Context())
	for what, err := range map[string]error{
		"append": appended, "tail": tail, "trim": l.Trim(t.Context(), 1),
		"read": l.Read(t.Context(), 0, func(journal.Position, []byte) error { return errors.New("a batch was read") }),
	} {
		if err == nil || err.Error() == "a batch was read" {
			t.Errorf("%s of a closed journal: %v", what, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}
