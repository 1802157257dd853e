package host

import (
	"bytes"
	"testing"

	"github.com/quern-queue/quern/sdk/abi"
)

// An absent value is marked so and is 0 to the guest, whatever stood in its place. So is a string with the id 0 that is said to be
// there.
func TestFillMarksTheAbsent(t *testing.T) {
	t.Parallel()
	number, _ := abi.Candidate("meta_i64:n")
	text, _ := abi.Candidate("meta_str:s")
	l, err := abi.NewLayout([]abi.Column{number, text, abi.Context("zone", abi.I64)}, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		valid          []bool
		numbers, texts string // of the three rows
		present, named string
		context        string
	}{
		{"all", nil, "\x01\x02\x03", "\x01\x00\x02", "\x01\x01\x01", "\x01\x00\x01", "\x01"},
		{"some", []bool{true, true, false}, "\x01\x02\x00", "\x01\x00\x00", "\x01\x01\x00", "\x01\x00\x00", "\x00"},
		{"none", []bool{false, false, false}, "\x00\x00\x00", "\x00\x00\x00", "\x00\x00\x00", "\x00\x00\x00", "\x00"},
	} {
		// A region as numbers, so that it is aligned; full of bytes that must not show through.
		region := bytesOf(make([]int64, l.Size/8))
		for i := range region {
			region[i] = 0xee
		}
		b := &abi.Batch{Header: abi.Header{Rows: 3}, Dictionary: []string{"a", "b"}, Columns: []abi.Values{
			{I64: []int64{1, 2, 3}, Valid: c.valid}, {U32: []uint32{1, 0, 2}, Valid: c.valid}, {I64: []int64{7}, Valid: []bool{c.valid == nil}},
		}}
		w := &words{}
		w.load(b.Dictionary)
		fill(region, &l, b, w, make([]byte, 32))
		for what, pair := range map[string][2][]byte{
			"numbers": {lowBytes(region[l.Offset[0]:], 8, 3), []byte(c.numbers)}, "ids": {lowBytes(region[l.Offset[1]:], 4, 3), []byte(c.texts)},
			"present numbers": {region[l.Validity[0]:][:3], []byte(c.present)}, "present ids": {region[l.Validity[1]:][:3], []byte(c.named)},
			"context": {region[l.Validity[2]:][:1], []byte(c.context)},
		} {
			if !bytes.Equal(pair[0], pair[1]) {
				t.Errorf("%s: %s: got %x, want %x", c.name, what, pair[0], pair[1])
			}
		}
	}
}

// lowBytes are the lowest bytes of n numbers.
func lowBytes(b []byte, size, n int) (out []byte) {
	for i := range n {
		out = append(out, b[i*size])
	}
	return out
}
