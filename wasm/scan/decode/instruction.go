package decode

// Op names an instruction: the opcode byte, or for the prefixes 0xFC and 0xFD the prefix times 256 plus the number behind it.
type Op uint32

// The instructions that the scan or the rewriter treat on their own.
const (
	Unreachable  Op = 0x00
	Nop          Op = 0x01
	Block        Op = 0x02
	Loop         Op = 0x03
	If           Op = 0x04
	Else         Op = 0x05
	End          Op = 0x0b
	Br           Op = 0x0c
	BrIf         Op = 0x0d
	BrTable      Op = 0x0e
	Return       Op = 0x0f
	Call         Op = 0x10
	CallIndirect Op = 0x11
	Drop         Op = 0x1a
	Select       Op = 0x1b
	SelectTyped  Op = 0x1c
	LocalGet     Op = 0x20
	LocalSet     Op = 0x21
	LocalTee     Op = 0x22
	GlobalGet    Op = 0x23
	GlobalSet    Op = 0x24
	TableGet     Op = 0x25
	TableSet     Op = 0x26
	MemorySize   Op = 0x3f
	MemoryGrow   Op = 0x40
	I32Const     Op = 0x41
	I64Const     Op = 0x42
	F32Const     Op = 0x43
	F64Const     Op = 0x44
	RefNull      Op = 0xd0
	RefIsNull    Op = 0xd1
	RefFunc      Op = 0xd2
	MemoryInit   Op = 0xfc08
	DataDrop     Op = 0xfc09
	MemoryCopy   Op = 0xfc0a
	MemoryFill   Op = 0xfc0b
	TableInit    Op = 0xfc0c
	ElemDrop     Op = 0xfc0d
	TableCopy    Op = 0xfc0e
	TableGrow    Op = 0xfc0f
	TableSize    Op = 0xfc10
	TableFill    Op = 0xfc11
	V128Const    Op = 0xfd0c
)

// The value types, as bytes of the format.
const (
	I32       byte = 0x7f
	I64       byte = 0x7e
	F32       byte = 0x7d
	F64       byte = 0x7c
	V128      byte = 0x7b
	FuncRef   byte = 0x70
	ExternRef byte = 0x6f
)

// EmptyBlock is the Block field of an instruction that opens a block without results.
const EmptyBlock int64 = -64

// Instruction is one decoded instruction. A Reader fills the same one again and again: Targets is only valid until then.
type Instruction struct {
	Op         Op
	Start, End int    // offsets in the module: the opcode, and behind the last immediate
	A, B       uint32 // index immediates in the order of the binary: function, local, depth, type and table, ...
	Block      int64  // block, loop, if: EmptyBlock, a value type as a negative number (byte - 128), or a type index
	Targets    []uint32
}

// Bulk says whether the instruction moves or grows by a size that is known at run time only.
func (op Op) Bulk() bool {
	switch op {
	case MemoryGrow, MemoryInit, MemoryCopy, MemoryFill, TableInit, TableCopy, TableGrow, TableFill:
		return true
	}
	return false
}

// IsValueType says whether b is one of the seven value types of core 2.0.
func IsValueType(b byte) bool {
	switch b {
	case I32, I64, F32, F64, V128, FuncRef, ExternRef:
		return true
	}
	return false
}

// Instruction reads the next instruction into in. It returns false when the Reader has failed, now or before.
func (r *Reader) Instruction(in *Instruction) bool {
	in.Start, in.A, in.B = r.at, 0, 0
	op := r.Byte()
	in.Op = Op(op)
	switch {
	case op >= 0x45 && op <= 0xc4: // numeric: no immediates
	case op >= 0x20 && op <= 0x26, op == 0x0c, op == 0x0d, op == 0x10, op == 0xd2:
		in.A = r.U32()
	case op >= 0x28 && op <= 0x3e:
		r.memoryArgument()
	case op == 0x41:
		r.Signed(32)
	case op == 0x42:
		r.Signed(64)
	case op == 0x43:
		r.Bytes(4)
	case op == 0x44:
		r.Bytes(8)
	case op == 0xfc:
		r.miscellaneous(in)
	case op == 0xfd:
		r.vector(in)
	default:
		r.control(in, op)
	}
	in.End = r.at
	return r.err == nil
}

// control reads the instructions whose immediates have a shape of their own, and refuses what is none of ours.
func (r *Reader) control(in *Instruction, op byte) {
	switch Op(op) {
	case Unreachable, Nop, Else, End, Return, Drop, Select, RefIsNull:
	case Block, Loop, If:
		r.blockType(in)
	case BrTable:
		n := r.Count("branch targets")
		in.Targets = in.Targets[:0]
		for range uint64(n) + 1 {
			if r.err != nil {
				return
			}
			in.Targets = append(in.Targets, r.U32())
		}
		in.A = n
	case CallIndirect:
		in.A, in.B = r.U32(), r.U32()
	case SelectTyped:
		if n := r.U32(); n != 1 {
			r.Fail(Malformed, in.Start, "select names %d types; it is one", n)
		}
		r.ValueType()
	case MemorySize, MemoryGrow:
		r.memoryIndex()
	case RefNull:
		if t := r.Byte(); t != FuncRef && t != ExternRef {
			r.Fail(Malformed, in.Start, "ref.null of 0x%02x, which is no reference type", t)
		}
	default:
		r.Fail(Forbidden, in.Start, "opcode 0x%02x (%s)", op, family(op))
	}
}

func (r *Reader) blockType(in *Instruction) {
	at := r.at
	in.Block = r.Signed(33)
	if in.Block < 0 && (r.at != at+1 || in.Block != EmptyBlock && !IsValueType(byte(in.Block+128))) {
		r.Fail(Malformed, at, "a block type that is neither empty, a value type nor a type index")
	}
}

// ValueType reads the byte of a value type.
func (r *Reader) ValueType() byte {
	at := r.at
	t := r.Byte()
	if r.err == nil && !IsValueType(t) {
		r.Fail(Malformed, at, "0x%02x is no value type", t)
	}
	return t
}

func (r *Reader) memoryIndex() {
	at := r.at
	if b := r.Byte(); b != 0 {
		r.Fail(Malformed, at, "the memory index is %d; there is only 0", b)
	}
}

// memoryArgument reads alignment and offset. Alignments above 16 bytes exist nowhere; the larger bits belong to proposals.
func (r *Reader) memoryArgument() {
	at := r.at
	if align := r.U32(); align > 4 {
		r.Fail(Malformed, at, "an alignment of 2^%d bytes; at most 2^4", align)
	}
	r.U32()
}

// miscellaneous reads the instruction after the prefix 0xFC: saturating conversions, bulk memory, tables.
func (r *Reader) miscellaneous(in *Instruction) {
	sub := r.U32()
	in.Op = 0xfc00 | Op(sub&0xff)
	if sub > 17 {
		r.Fail(Forbidden, in.Start, "opcode 0xfc %d (not in WebAssembly 2.0)", sub)
		return
	}
	switch in.Op {
	case MemoryInit:
		in.A = r.U32()
		r.memoryIndex()
	case DataDrop, ElemDrop, TableGrow, TableSize, TableFill:
		in.A = r.U32()
	case MemoryCopy:
		r.memoryIndex()
		r.memoryIndex()
	case MemoryFill:
		r.memoryIndex()
	case TableInit, TableCopy:
		in.A, in.B = r.U32(), r.U32()
	}
}

// vector reads the instruction after the prefix 0xFD: the 236 instructions of SIMD.
func (r *Reader) vector(in *Instruction) {
	sub := r.U32()
	in.Op = 0xfd00 | Op(sub&0xff)
	switch {
	case sub <= 11, sub == 92, sub == 93:
		r.memoryArgument()
	case sub == 12, sub == 13:
		r.Bytes(16)
	case sub >= 21 && sub <= 34:
		r.Byte()
	case sub >= 84 && sub <= 91:
		r.memoryArgument()
		r.Byte()
	case sub > 255:
		r.Fail(Forbidden, in.Start, "opcode 0xfd %d (relaxed SIMD)", sub)
	case unassigned(sub):
		r.Fail(Forbidden, in.Start, "opcode 0xfd %d (not in WebAssembly 2.0)", sub)
	}
}

// unassigned says which of the first 256 SIMD numbers have no instruction.
func unassigned(sub uint32) bool {
	switch sub {
	case 154, 162, 165, 166, 175, 176, 178, 179, 180, 187, 194, 197, 198, 207, 208, 210, 211, 212, 226, 238:
		return true
	}
	return false
}

// family names what a refused opcode belongs to, for the person who has to change a compiler flag.
func family(op byte) string {
	switch {
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		return "exception handling"
	case op == 0x12, op == 0x13:
		return "tail calls"
	case op == 0x14, op == 0x15, op >= 0xd3 && op <= 0xd6:
		return "typed function references"
	case op == 0xfb:
		return "garbage collection"
	case op == 0xfe:
		return "threads and atomics"
	}
	return "not in WebAssembly 2.0"
}
