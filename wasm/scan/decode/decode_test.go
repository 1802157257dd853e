package decode_test

import (
	"bytes"
	"testing"

	"github.com/quern-queue/quern/wasm/scan/decode"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// Numbers are read to their exact width: padding is allowed as far as the format goes, and bits beyond the width are not.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bits  int // 0: unsigned 32
		in    []byte
		want  int64
		fails bool
	}{
		{0, []byte{0x80, 0x80, 0x80, 0x80, 0x00}, 0, false},
		{0, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 1<<32 - 1, false},
		{0, []byte{0xff, 0xff, 0xff, 0xff, 0x1f}, 0, true},
		{0, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, 0, true},
		{0, []byte{0x80}, 0, true},
		{0, nil, 0, true},
		{32, []byte{0x80, 0x80, 0x80, 0x80, 0x78}, -1 << 31, false},
		{32, []byte{0xff, 0xff, 0xff, 0xff, 0x07}, 1<<31 - 1, false},
		{32, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 0, true},
		{32, []byte{0x80, 0x80, 0x80, 0x80, 0x70}, 0, true},
		{32, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 0, true},
		{33, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 1<<32 - 1, false},
		{33, []byte{0x80, 0x80, 0x80, 0x80, 0x70}, -1 << 32, false},
		{33, []byte{0x40}, -64, false},
		{64, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f}, -1 << 63, false},
		{64, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02}, 0, true},
		{64, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00}, 1<<63 - 1, false},
	} {
		r := decode.NewReader(c.in)
		var got int64
		if c.bits == 0 {
			got = int64(r.U32())
		} else {
			got = r.Signed(c.bits)
		}
		if got != c.want || (r.Err() != nil) != c.fails || !c.fails && r.Len() != 0 {
			t.Errorf("% x as %d bits gives %d, %v, want %d, failure %v", c.in, c.bits, got, r.Err(), c.want, c.fails)
		}
	}
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, 1 << 40, -1 << 63, 1<<63 - 1} {
		if got := decode.NewReader(wasmtest.Signed(v)).Signed(64); got != v {
			t.Errorf("%d is read as %d", v, got)
		}
	}
}

// Every instruction is read to its end, and the next one begins there.
func TestInstructions(t *testing.T) {
	t.Parallel()
	zeroes := func(n int) []byte { return make([]byte, n) }
	for _, c := range []struct {
		in []byte
		op decode.Op
		a  uint32
		b  uint32
	}{
		{[]byte{0x00}, decode.Unreachable, 0, 0},
		{[]byte{0x02, 0x40}, decode.Block, 0, 0},
		{[]byte{0x03, 0x80, 0x01}, decode.Loop, 0, 0},
		{[]byte{0x0c, 5}, decode.Br, 5, 0},
		{[]byte{0x0e, 2, 7, 8, 9}, decode.BrTable, 2, 0},
		{[]byte{0x11, 3, 1}, decode.CallIndirect, 3, 1},
		{[]byte{0x1c, 1, 0x7f}, decode.SelectTyped, 0, 0},
		{[]byte{0x28, 2, 0x80, 0x80, 0x04}, 0x28, 0, 0},
		{append([]byte{0x44}, zeroes(8)...), decode.F64Const, 0, 0},
		{[]byte{0xd0, 0x6f}, decode.RefNull, 0, 0},
		{[]byte{0xfc, 0x8b, 0x00, 0}, decode.MemoryFill, 0, 0}, // the number behind the prefix may be padded
		{[]byte{0xfc, 12, 4, 1}, decode.TableInit, 4, 1},
		{append([]byte{0xfd, 12}, zeroes(16)...), decode.V128Const, 0, 0},
		{[]byte{0xfd, 21, 3}, 0xfd15, 0, 0},
		{[]byte{0xfd, 84, 0, 0, 1}, 0xfd54, 0, 0},
		{[]byte{0xfd, 0xff, 0x01}, 0xfdff, 0, 0},
	} {
		r := decode.NewReader(append(bytes.Clone(c.in), byte(decode.End)))
		var in, end decode.Instruction
		if !r.Instruction(&in) || in.Op != c.op || in.A != c.a || in.B != c.b || in.Start != 0 || in.End != len(c.in) {
			t.Errorf("% x gives %+v, %v; want opcode %#x with %d, %d and the end %d", c.in, in, r.Err(), c.op, c.a, c.b, len(c.in))
		} else if !r.Instruction(&end) || end.Op != decode.End || r.Len() != 0 {
			t.Errorf("behind % x comes %+v, %v; want the end", c.in, end, r.Err())
		}
		if c.op == decode.BrTable && (len(in.Targets) != 3 || in.Targets[2] != 9) {
			t.Errorf("the targets of % x are %v, want 7, 8, 9", c.in, in.Targets)
		}
	}
}

// Instructions that are not allowed are refused with the right kind of error.
func TestRefusedInstructions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []byte
		kind decode.Kind
	}{
		{[]byte{0x12, 0}, decode.Forbidden},
		{[]byte{0x27}, decode.Forbidden},
		{[]byte{0xc5}, decode.Forbidden},
		{[]byte{0xfc, 18}, decode.Forbidden},
		{[]byte{0xfd, 0x80, 0x02}, decode.Forbidden},
		{[]byte{0xfc, 0x8b, 0x02, 0}, decode.Forbidden}, // 267 is not 11, though its low byte is
		{[]byte{0xfd, 154, 1}, decode.Forbidden},
		{[]byte{0x02, 0x41}, decode.Malformed},
		{[]byte{0x02, 0xc0, 0x7f}, decode.Malformed}, // the empty block type in two bytes
		{[]byte{0x40, 1}, decode.Malformed},
		{[]byte{0x28, 5, 0}, decode.Malformed},
		{[]byte{0x28, 0x42, 0, 0}, decode.Malformed}, // an alignment with the bit of several memories
		{[]byte{0x1c, 2, 0x7f, 0x7f}, decode.Malformed},
		{[]byte{0xd0, 0x7f}, decode.Malformed},
		{[]byte{0x0e, 9, 0}, decode.CountLie},
		{[]byte{0x44, 0}, decode.Truncated},
	} {
		r := decode.NewReader(c.in)
		var in decode.Instruction
		if r.Instruction(&in) || r.Err() == nil || r.Err().Kind != c.kind {
			t.Errorf("% x gives %+v, %v; want a failure of kind %d", c.in, in, r.Err(), c.kind)
		}
	}
}
