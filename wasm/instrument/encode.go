package instrument

import (
	"encoding/binary"

	"github.com/quern-queue/quern/wasm/scan/decode"
)

// Opcodes that the added code uses beside those that package decode names.
const (
	opIf         = byte(decode.If)
	opMemorySize = 0x3f
	opI64LtS     = 0x53
	opI64LtU     = 0x54
	opI64LeS     = 0x57
	opI64Add     = 0x7c
	opI64Sub     = 0x7d
	opI64Or      = 0x84
	opI64Shl     = 0x86
	opI64ShrU    = 0x88
	opExtendU    = 0xad
	emptyResult  = 0x40
)

// code is a growing piece of the output.
type code []byte

func (c *code) op(opcode byte) { *c = append(*c, opcode) }

func (c *code) unsigned(v uint64) { *c = binary.AppendUvarint(*c, v) }

func (c *code) signed(v int64) {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			*c = append(*c, b)
			return
		}
		*c = append(*c, b|0x80)
	}
}

func (c *code) raw(b []byte) { *c = append(*c, b...) }

func (c *code) name(s string) {
	c.unsigned(uint64(len(s)))
	*c = append(*c, s...)
}

// indexed is an instruction with one index behind it.
func (c *code) indexed(opcode decode.Op, index uint32) {
	c.op(byte(opcode))
	c.unsigned(uint64(index))
}

func (c *code) constant(v int64) {
	c.op(byte(decode.I64Const))
	c.signed(v)
}

// section appends a section.
func (c *code) section(id byte, content code) {
	c.op(id)
	c.unsigned(uint64(len(content)))
	c.raw(content)
}
