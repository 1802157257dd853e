// Package wasmtest builds WebAssembly modules from Go for the tests of everything that treats modules: good ones, damaged ones,
// and the ones that people would upload to do harm. Nothing checks what is built; bodies are raw bytes.
package wasmtest

import (
	"encoding/binary"
	"math"
	"slices"
)

// The value types, and the empty block type.
const (
	I32       byte = 0x7f
	I64       byte = 0x7e
	F32       byte = 0x7d
	F64       byte = 0x7c
	V128      byte = 0x7b
	FuncRef   byte = 0x70
	ExternRef byte = 0x6f
	Empty     byte = 0x40
)

// The kinds of exports and imports.
const (
	Function byte = iota
	Table
	Memory
	Global
)

// Header is the beginning of a module.
const Header = "\x00asm\x01\x00\x00\x00"

// Unsigned is v as unsigned LEB128.
func Unsigned(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// Signed is v as signed LEB128.
func Signed(v int64) []byte {
	var b []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Name is s with its size before it.
func Name(s string) []byte { return append(Unsigned(uint64(len(s))), s...) }

// Vector is the entries with their count before them.
func Vector(entries ...[]byte) []byte {
	return append(Unsigned(uint64(len(entries))), slices.Concat(entries...)...)
}

// Section is a section with its id and size.
func Section(id byte, content []byte) []byte {
	return slices.Concat([]byte{id}, Unsigned(uint64(len(content))), content)
}

// Code joins pieces of a body: byte and int are one byte each, []byte goes in as it is. A body ends with End.
func Code(pieces ...any) []byte {
	var b []byte
	for _, piece := range pieces {
		switch p := piece.(type) {
		case byte:
			b = append(b, p)
		case int:
			b = append(b, byte(p))
		case []byte:
			b = append(b, p...)
		default:
			panic("wasmtest: a piece of code is a byte, an int or a slice of bytes")
		}
	}
	return b
}

// ConstI32 is i32.const v.
func ConstI32(v int32) []byte { return append([]byte{0x41}, Signed(int64(v))...) }

// ConstI64 is i64.const v.
func ConstI64(v int64) []byte { return append([]byte{0x42}, Signed(v)...) }

// ConstF64 is f64.const of the number with these bits.
func ConstF64(v float64) []byte {
	b := []byte{0x44}
	for bits, i := math.Float64bits(v), 0; i < 8; i++ {
		b = append(b, byte(bits>>(8*i)))
	}
	return b
}

// Op is an opcode with one unsigned immediate: local.get, call, br, ...
func Op(opcode byte, index uint32) []byte { return append([]byte{opcode}, Unsigned(uint64(index))...) }

// End is the instruction that closes a block or a body.
const End byte = 0x0b

// Builder collects a module. The zero value is an empty one; entries are numbered in the order in which they are added, and
// imports are added before functions, tables, memories and globals of the same kind.
type Builder struct {
	types, imports, functions, tables, memories, globals, exports, elements, bodies, data [][]byte
	imported                                                                              [4]uint32
	start                                                                                 []byte
	raw                                                                                   map[byte][]byte
	behind                                                                                []byte
}

// Type adds a function type and returns its index.
func (b *Builder) Type(params, results []byte) uint32 {
	b.types = append(b.types, slices.Concat([]byte{0x60}, Unsigned(uint64(len(params))), params, Unsigned(uint64(len(results))), results))
	return uint32(len(b.types) - 1)
}

// ImportFunction adds an imported function and returns its index.
func (b *Builder) ImportFunction(module, name string, typ uint32) uint32 {
	return b.Import(module, name, Function, Unsigned(uint64(typ)))
}

// Import adds an import of any kind with its description as raw bytes, and returns its index.
func (b *Builder) Import(module, name string, kind byte, description []byte) uint32 {
	b.imports = append(b.imports, slices.Concat(Name(module), Name(name), []byte{kind}, description))
	b.imported[kind&3]++
	return b.imported[kind&3] - 1
}

// Function adds a function and returns its index. The locals are one per byte; code is the body with its last End.
func (b *Builder) Function(typ uint32, locals []byte, code ...any) uint32 {
	groups := [][]byte{}
	for _, t := range locals {
		groups = append(groups, []byte{1, t})
	}
	return b.RawFunction(typ, slices.Concat(Vector(groups...), Code(code...)))
}

// RawFunction adds a function whose body, locals included, is raw bytes.
func (b *Builder) RawFunction(typ uint32, body []byte) uint32 {
	b.functions = append(b.functions, Unsigned(uint64(typ)))
	b.bodies = append(b.bodies, slices.Concat(Unsigned(uint64(len(body))), body))
	return b.imported[Function] + uint32(len(b.functions)-1)
}

// Limits is a pair of limits as the format writes them; a negative maximum is none.
func Limits(least uint32, most int64) []byte {
	if most < 0 {
		return append([]byte{0}, Unsigned(uint64(least))...)
	}
	return slices.Concat([]byte{1}, Unsigned(uint64(least)), Unsigned(uint64(most)))
}

// Memory adds a memory; sizes are pages of 64 KiB, a negative maximum is none.
func (b *Builder) Memory(least uint32, most int64) {
	b.memories = append(b.memories, Limits(least, most))
}

// Table adds a table of functions and returns its index; a negative maximum is none.
func (b *Builder) Table(least uint32, most int64) uint32 {
	b.tables = append(b.tables, append([]byte{FuncRef}, Limits(least, most)...))
	return b.imported[Table] + uint32(len(b.tables)-1)
}

// Global adds a global and returns its index; value is a constant expression without its End.
func (b *Builder) Global(typ byte, mutable bool, value []byte) uint32 {
	flag := byte(0)
	if mutable {
		flag = 1
	}
	b.globals = append(b.globals, slices.Concat([]byte{typ, flag}, value, []byte{End}))
	return b.imported[Global] + uint32(len(b.globals)-1)
}

// Export adds an export.
func (b *Builder) Export(name string, kind byte, index uint32) {
	b.exports = append(b.exports, slices.Concat(Name(name), []byte{kind}, Unsigned(uint64(index))))
}

// Start sets the start function.
func (b *Builder) Start(function uint32) { b.start = Unsigned(uint64(function)) }

// Elements adds an active segment that puts functions into table 0.
func (b *Builder) Elements(offset int32, functions ...uint32) {
	entries := [][]byte{}
	for _, f := range functions {
		entries = append(entries, Unsigned(uint64(f)))
	}
	b.RawElements(slices.Concat([]byte{0}, ConstI32(offset), []byte{End}, Vector(entries...)))
}

// RawElements adds an element segment as raw bytes.
func (b *Builder) RawElements(segment []byte) { b.elements = append(b.elements, segment) }

// Data adds an active data segment.
func (b *Builder) Data(offset int32, content []byte) {
	b.RawData(slices.Concat([]byte{0}, ConstI32(offset), []byte{End}, Name(string(content))))
}

// RawData adds a data segment as raw bytes.
func (b *Builder) RawData(segment []byte) { b.data = append(b.data, segment) }

// Custom adds a custom section behind all others.
func (b *Builder) Custom(name string, content []byte) {
	b.behind = append(b.behind, Section(0, append(Name(name), content...))...)
}

// Raw puts content in the place of a section, whatever else was added to it.
func (b *Builder) Raw(id byte, content []byte) {
	if b.raw == nil {
		b.raw = map[byte][]byte{}
	}
	b.raw[id] = content
}

// Bytes is the module.
func (b *Builder) Bytes() []byte {
	module := []byte(Header)
	for _, id := range []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11} {
		content, there := b.raw[id]
		if !there {
			content, there = b.section(id)
		}
		if there {
			module = append(module, Section(id, content)...)
		}
	}
	return append(module, b.behind...)
}

func (b *Builder) section(id byte) (content []byte, there bool) {
	if id == 8 {
		return b.start, b.start != nil
	}
	entries := map[byte][][]byte{
		1: b.types, 2: b.imports, 3: b.functions, 4: b.tables, 5: b.memories, 6: b.globals, 7: b.exports, 9: b.elements,
		10: b.bodies, 11: b.data,
	}[id]
	return Vector(entries...), len(entries) > 0
}
