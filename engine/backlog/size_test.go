package backlog

import (
	"testing"
	"unsafe"
)

// Types with very many values have the size that their layout was made for: whole cache lines, with the fields that a
// pick touches in the first ones, or as few bytes as possible.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		got, want uintptr
	}{
		{"a submission", unsafe.Sizeof(Submission{}), 192},
		{"a submission's first line", unsafe.Offsetof(Submission{}.few), 64},
		{"a submission's first two lines", unsafe.Offsetof(Submission{}.members), 128},
		{"a term", unsafe.Sizeof(term{}), 192},
		{"what a pick touches of a term", unsafe.Offsetof(term{}.gates), 64},
		{"a gate", unsafe.Sizeof(gate{}), 80},
		{"a group", unsafe.Sizeof(group{}), 40},
		{"a tenant", unsafe.Sizeof(tenant{}), 12},
	} {
		if test.got != test.want {
			t.Errorf("%s has %d bytes, want %d", test.name, test.got, test.want)
		}
	}
}
