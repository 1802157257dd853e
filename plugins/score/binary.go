package score

import (
	"encoding/binary"
	"math"
)

// code is a piece of a module: the binary format of WebAssembly is written from the inside to the outside.
type code []byte

// The value types, and the type of a block without result.
const (
	typeI32   = 0x7f
	typeI64   = 0x7e
	typeF64   = 0x7c
	typeEmpty = 0x40
)

// The opcodes that formulas need.
const (
	opLoop, opIf, opEnd        = 0x03, 0x04, 0x0b
	opBrIf, opReturn, opCall   = 0x0d, 0x0f, 0x10
	opSelect                   = 0x1b
	opLocalGet, opLocalSet     = 0x20, 0x21
	opLocalTee                 = 0x22
	opGlobalGet, opGlobalSet   = 0x23, 0x24
	opI32Load, opI64Load       = 0x28, 0x29
	opI32Load8U                = 0x2d
	opF64Store                 = 0x39
	opMemorySize, opMemoryGrow = 0x3f, 0x40
	opI32Const, opF64Const     = 0x41, 0x44
	opI32Eqz, opI32Eq, opI32Ne = 0x45, 0x46, 0x47
	opI64Eq                    = 0x51
	opF64Eq, opF64Ne           = 0x61, 0x62
	opF64Lt, opF64Gt           = 0x63, 0x64
	opF64Le, opF64Ge           = 0x65, 0x66
	opI32Add, opI32Sub         = 0x6a, 0x6b
	opI32And, opI32Or          = 0x71, 0x72
	opI32ShrU                  = 0x76
	opI32GtU                   = 0x4b
	opF64Abs, opF64Neg         = 0x99, 0x9a
	opF64Ceil, opF64Floor      = 0x9b, 0x9c
	opF64Trunc, opF64Sqrt      = 0x9d, 0x9f
	opF64Add, opF64Sub         = 0xa0, 0xa1
	opF64Mul, opF64Div         = 0xa2, 0xa3
	opF64Min, opF64Max         = 0xa4, 0xa5
	opF64ConvertI32U           = 0xb8
	opF64ConvertI64S           = 0xb9
)

func (c *code) op(ops ...byte) { *c = append(*c, ops...) }

// unsigned appends a number as LEB128.
func (c *code) unsigned(v uint32) { *c = binary.AppendUvarint(*c, uint64(v)) }

// with appends an opcode and the index that belongs to it: of a local, a global, a function, a block.
func (c *code) with(op byte, index uint32) {
	c.op(op)
	c.unsigned(index)
}

func (c *code) i32(v int32) {
	c.op(opI32Const)
	for {
		low := byte(v & 0x7f)
		v >>= 7
		if v == 0 && low&0x40 == 0 || v == -1 && low&0x40 != 0 {
			c.op(low)
			return
		}
		c.op(low | 0x80)
	}
}

func (c *code) f64(v float64) {
	c.op(opF64Const)
	*c = binary.LittleEndian.AppendUint64(*c, math.Float64bits(v))
}

// memory appends a load or a store: 1<<align bytes wide, offset bytes behind the address on the stack.
func (c *code) memory(op byte, align, offset uint32) {
	c.op(op)
	c.unsigned(align)
	c.unsigned(offset)
}

// sized appends content with its size before it.
func (c *code) sized(content []byte) {
	c.unsigned(uint32(len(content)))
	*c = append(*c, content...)
}

// section appends a section of entries.
func (c *code) section(id byte, entries ...code) {
	content := vector(entries...)
	if len(entries) > 0 {
		c.op(id)
		c.sized(content)
	}
}

// vector is the entries with their count before them.
func vector(entries ...code) (content code) {
	content.unsigned(uint32(len(entries)))
	for _, entry := range entries {
		content = append(content, entry...)
	}
	return content
}

// name is a text with its size before it.
func name(text string) (c code) {
	c.sized([]byte(text))
	return c
}
