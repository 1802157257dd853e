package host

import (
	"unsafe"

	"github.com/quern-queue/quern/sdk/abi"
)

// fill writes a batch that was checked into the region. The processors that there is a compiler for store numbers as the ABI
// does, so columns are copied as they are.
func fill(region []byte, l *abi.Layout, b *abi.Batch, w *words, unwritten []byte) {
	l.Begin(region, b.Header)
	for k := range l.Columns {
		c, values := &l.Columns[k], &b.Columns[k]
		rows := c.Rows(b.Rows)
		at := region[l.Offset[k]:][:rows*c.Type.Size()]
		switch c.Type {
		case abi.I64:
			copy(at, bytesOf(values.I64))
		case abi.F64:
			copy(at, bytesOf(values.F64))
		case abi.U32:
			copy(at, bytesOf(values.U32))
		case abi.Str:
			w.translate(at, values.U32)
		}
		if c.Nullable {
			fillValidity(region[l.Validity[k]:][:rows], at, c, values)
		}
	}
	copy(region[l.Scores:], unwritten[:b.Rows*8])
}

// fillValidity says which rows are present and clears the values of the others, so that nothing shows through.
func fillValidity(validity, at []byte, c *abi.Column, values *abi.Values) {
	size := c.Type.Size()
	for row := range validity {
		present := values.Valid == nil || values.Valid[row]
		if c.Type == abi.Str && values.U32[row] == 0 {
			present = false
		}
		validity[row] = 0
		if present {
			validity[row] = 1
		} else {
			clear(at[uint32(row)*size:][:size])
		}
	}
}

// bytesOf is the memory of a slice of numbers.
func bytesOf[T int64 | uint32 | float64](values []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(one)))
}
