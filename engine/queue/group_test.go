package queue

import (
	"strings"
	"testing"
)

// A group may be named in the field and in the meta, so both allow names of the same length. A longer one is refused under the name
// that the caller gave.
func TestGroupNamesHaveOneLimit(t *testing.T) {
	t.Parallel()
	long := NewSubmission{Group: strings.Repeat("x", MaxMetaValueBytes), OperationsPerChunk: 1}
	if err := long.Grouped(); err != nil {
		t.Fatal(err)
	}
	if err := long.Valid(); err != nil || long.Meta.GroupOf() != long.Group {
		t.Errorf("a name of %d bytes: %v", len(long.Group), err)
	}
	long = NewSubmission{Group: strings.Repeat("x", MaxMetaValueBytes+1)}
	if err := long.Grouped(); err == nil || !strings.Contains(err.Error(), "/group has 257 bytes; at most 256 are allowed") {
		t.Errorf("a longer name: %v", err)
	}
}
