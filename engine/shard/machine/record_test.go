package machine

import (
	"testing"
	"unsafe"
)

// A record is three whole cache lines, so that records do not share lines, and a completion reads the first one and a pick the first two.
func TestRecordLayout(t *testing.T) {
	t.Parallel()
	const line = 64
	var r Record
	if size := unsafe.Sizeof(r); size != 3*line {
		t.Errorf("a record has %d bytes, want %d: put a field that few submissions need into details", size, 3*line)
	}
	if at := unsafe.Offsetof(r.Reshaped); at != line-1 {
		t.Errorf("the last field of the first cache line is at %d, want %d", at, line-1)
	}
	if at := unsafe.Offsetof(r.Ended); at != 2*line {
		t.Errorf("the first field of the third cache line is at %d, want %d", at, 2*line)
	}
}
