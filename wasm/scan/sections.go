package scan

import (
	"bytes"

	"github.com/quern-queue/quern/wasm/scan/decode"
)

// ManifestSection is the name of the custom section with a plugin's manifest.
const ManifestSection = "quern.manifest"

const maxPages = 65_536 // of 64 KiB, of a memory with 32-bit addresses

// count reads how many entries a section has and holds it against a limit. Over it, the entries are not read.
func (s *scanner) count(id byte, at place, r *decode.Reader, rule Rule, limit int, advice string) uint32 {
	what := sectionName(id) + " entries"
	n := r.Count(what)
	if s.over(rule, at, limit, uint64(n), "Too many "+what, advice) {
		s.broken[id] = true
		return 0
	}
	return n
}

func (s *scanner) types(at place, r *decode.Reader) {
	n := s.count(idType, at, r, TooManyTypes, s.limits.Types, "leave out what is not needed")
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		at.offset = r.Offset()
		if form := r.Byte(); form != 0x60 {
			r.Fail(decode.Malformed, at.offset, "0x%02x does not begin a function type", form)
			return
		}
		t := FunctionType{Params: s.valueTypes(r), Results: s.valueTypes(r)}
		s.over(TypeTooLarge, at, s.limits.TypeValues, uint64(max(len(t.Params), len(t.Results))),
			"A function type has too many parameters or results", "pass a pointer to memory instead")
		s.report.Types = append(s.report.Types, t)
	}
}

func (s *scanner) valueTypes(r *decode.Reader) []byte {
	at := r.Offset()
	types := r.Bytes(r.U32())
	for i, t := range types {
		if !decode.IsValueType(t) {
			r.Fail(decode.Malformed, at+1+i, "0x%02x is no value type", t)
			return nil
		}
	}
	return types
}

func (s *scanner) imports(at place, r *decode.Reader) {
	n := s.count(idImport, at, r, TooManyImports, s.limits.Imports, "leave out what is not needed")
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		at.offset = r.Offset()
		entry := Import{Module: string(r.Name()), Name: string(r.Name()), Kind: Kind(r.Byte())}
		switch entry.Kind {
		case KindFunction:
			entry.Type = r.U32()
			s.index(at, r, "type", entry.Type, len(s.report.Types), idType)
			s.report.Functions = append(s.report.Functions, entry.Type)
			s.report.ImportedFunctions++
		case KindTable:
			entry.Table = s.table(at, r)
			s.report.Tables = append(s.report.Tables, entry.Table)
			s.report.ImportedTables++
		case KindMemory:
			s.report.Memories = append(s.report.Memories, s.memory(at, r))
			s.report.ImportedMemories++
		case KindGlobal:
			entry.Global = s.global(r)
			s.report.Globals = append(s.report.Globals, entry.Global)
			s.report.ImportedGlobals++
		default:
			r.Fail(decode.Malformed, at.offset, "an import of kind %d", entry.Kind)
		}
		if r.Err() == nil {
			s.report.Imports = append(s.report.Imports, entry)
		}
	}
}

func (s *scanner) functions(at place, r *decode.Reader) {
	n := s.count(idFunction, at, r, TooManyFunctions, s.limits.Functions, "leave out what is not needed")
	for range n {
		at.offset, at.function = r.Offset(), len(s.report.Functions)
		index := r.U32()
		if r.Err() != nil {
			return
		}
		s.index(at, r, "type", index, len(s.report.Types), idType)
		s.report.Functions = append(s.report.Functions, index)
	}
}

func (s *scanner) tables(at place, r *decode.Reader) {
	n := r.Count("tables")
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		at.offset = r.Offset()
		s.report.Tables = append(s.report.Tables, s.table(at, r))
	}
}

func (s *scanner) table(at place, r *decode.Reader) Table {
	offset := r.Offset()
	t := Table{Type: r.Byte()}
	if r.Err() == nil && t.Type != decode.FuncRef && t.Type != decode.ExternRef {
		r.Fail(decode.Malformed, offset, "0x%02x is no type of a table", t.Type)
		return t
	}
	flags := r.Byte()
	if flags > 1 {
		r.Fail(decode.Malformed, offset+1, "limits with the flags 0x%02x", flags)
		return t
	}
	t.HasMax = flags == 1
	t.Min = r.U32()
	if t.HasMax {
		t.Max = r.U32()
	}
	if r.Err() == nil {
		s.over(TableTooLarge, at, s.limits.TableEntries, uint64(t.Min), "The table begins with too many entries",
			"declare what is needed at the start, it may grow up to the limit")
		s.ordered(at, t.HasMax, t.Min, t.Max)
	}
	return t
}

func (s *scanner) memories(at place, r *decode.Reader) {
	n := r.Count("memories")
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		at.offset = r.Offset()
		s.report.Memories = append(s.report.Memories, s.memory(at, r))
	}
}

// memory reads the limits of a memory. With the flags of a proposal the numbers behind have another width: after these the
// section is not read on.
func (s *scanner) memory(at place, r *decode.Reader) Memory {
	offset := r.Offset()
	flags := r.Byte()
	switch {
	case r.Err() != nil:
		return Memory{}
	case flags&4 != 0:
		s.refuse(Memory64, at, 0, int64(flags), "The memory is addressed with 64 bits; build for wasm32.")
	case flags&2 != 0:
		s.refuse(SharedMemory, at, 0, int64(flags), "The memory is shared between threads; build without threads and atomics.")
	case flags > 1:
		r.Fail(decode.Malformed, offset, "limits with the flags 0x%02x", flags)
		return Memory{}
	}
	if flags > 1 {
		r.Bytes(uint32(r.Len()))
		return Memory{}
	}
	m := Memory{HasMax: flags == 1, Min: r.U32()}
	if m.HasMax {
		m.Max = r.U32()
	}
	if r.Err() == nil {
		s.over(MemoryTooLarge, at, s.limits.MemoryPages, uint64(m.Min),
			"The memory begins with too many pages of 64 KiB",
			"declare a smaller initial memory and stack, or raise the limit memory_pages")
		s.ordered(at, m.HasMax, m.Min, m.Max)
		if m.HasMax && m.Max > maxPages { // lowering it would make a valid memory of an invalid one
			s.refuse(Malformed, at, maxPages, int64(m.Max),
				"The memory's maximum is %d pages, and 32 bits address %d; the file is damaged, build it again.", m.Max, maxPages)
		}
	}
	return m
}

func (s *scanner) ordered(at place, hasMax bool, least, most uint32) {
	if hasMax && most < least {
		s.refuse(Malformed, at, int64(least), int64(most),
			"The maximum %d is below the minimum %d; the file is damaged, build it again.", most, least)
	}
}

func (s *scanner) globals(at place, r *decode.Reader) {
	n := s.count(idGlobal, at, r, TooManyGlobals, s.limits.Globals, "keep state in memory")
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		at.offset = r.Offset()
		g := s.global(r)
		s.constant(at, r)
		s.report.Globals = append(s.report.Globals, g)
	}
}

func (s *scanner) global(r *decode.Reader) Global {
	g := Global{Type: r.ValueType()}
	at := r.Offset()
	mutable := r.Byte()
	if mutable > 1 {
		r.Fail(decode.Malformed, at, "a global with the mutability %d", mutable)
	}
	g.Mutable = mutable == 1
	if g.Mutable && (g.Type == decode.V128 || g.Type == decode.FuncRef || g.Type == decode.ExternRef) {
		s.report.HiddenState = true
	}
	return g
}

// constant reads a constant expression: in core 2.0 that is one instruction and the end.
func (s *scanner) constant(at place, r *decode.Reader) {
	var in decode.Instruction
	if !r.Instruction(&in) {
		return
	}
	switch in.Op {
	case decode.I32Const, decode.I64Const, decode.F32Const, decode.F64Const, decode.V128Const, decode.RefNull:
	case decode.GlobalGet:
		s.index(at, r, "global", in.A, len(s.report.Globals), idGlobal)
	case decode.RefFunc:
		s.functionIndex(at, in.A, r)
	default:
		r.Fail(decode.Malformed, in.Start, "a constant expression with an instruction that is no constant")
		return
	}
	if r.Instruction(&in) && in.Op != decode.End {
		r.Fail(decode.Malformed, in.Start, "a constant expression of more than one instruction")
	}
}

func (s *scanner) exports(at place, r *decode.Reader) {
	n := s.count(idExport, at, r, TooManyExports, s.limits.Exports, "export only what the plugin interface names")
	for range n {
		at.offset = r.Offset()
		entry := Export{Name: string(r.Name()), Kind: Kind(r.Byte()), Index: r.U32(), Offset: at.offset}
		if r.Err() != nil {
			return
		}
		switch entry.Kind {
		case KindFunction:
			s.functionIndex(at, entry.Index, r)
		case KindTable:
			s.index(at, r, "table", entry.Index, len(s.report.Tables), idTable)
		case KindMemory:
			s.index(at, r, "memory", entry.Index, len(s.report.Memories), idMemory)
		case KindGlobal:
			s.index(at, r, "global", entry.Index, len(s.report.Globals), idGlobal)
		default:
			r.Fail(decode.Malformed, at.offset, "an export of kind %d", entry.Kind)
			return
		}
		if s.exported[entry.Name] {
			s.refuse(DuplicateExport, at, 0, 0, "The name %q is exported twice; the file is damaged, build it again.", entry.Name)
		}
		s.exported[entry.Name] = true
		s.report.Exports = append(s.report.Exports, entry)
	}
}

// index refuses an index at or over n. An index into a section that could not be read is not judged.
func (s *scanner) index(at place, r *decode.Reader, what string, index uint32, n int, section byte) {
	if r.Err() == nil && uint64(index) >= uint64(n) && !s.broken[section] && !s.broken[idImport] {
		s.refuse(IndexOutOfRange, at, int64(n), int64(index),
			"The %s %d is named and there are %d; the file is damaged, build it again.", what, index, n)
	}
}

func (s *scanner) functionIndex(at place, index uint32, r *decode.Reader) {
	s.index(at, r, "function", index, len(s.report.Functions), idFunction)
}

// elements reads the element segments, whose flags choose between eight shapes.
func (s *scanner) elements(at place, r *decode.Reader) {
	n := s.count(idElement, at, r, TooManySegments, s.limits.Segments, "let the linker merge them")
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		at.offset = r.Offset()
		flags := r.U32()
		if flags > 7 {
			r.Fail(decode.Malformed, at.offset, "an element segment with the flags %d", flags)
			return
		}
		if active := flags&1 == 0; active {
			if flags&2 != 0 {
				s.index(at, r, "table", r.U32(), len(s.report.Tables), idTable)
			} else {
				s.index(at, r, "table", 0, len(s.report.Tables), idTable)
			}
			s.constant(at, r)
		}
		if flags&3 != 0 {
			s.elementKind(r, flags&4 != 0)
		}
		entries := r.Count("table entries")
		for range entries {
			if r.Err() != nil {
				return
			}
			if flags&4 != 0 {
				s.constant(at, r)
			} else {
				s.functionIndex(at, r.U32(), r)
			}
		}
		s.report.Elements++
	}
}

func (s *scanner) elementKind(r *decode.Reader, expressions bool) {
	at := r.Offset()
	kind := r.Byte()
	if fine := !expressions && kind == 0 || expressions && (kind == decode.FuncRef || kind == decode.ExternRef); !fine {
		r.Fail(decode.Malformed, at, "an element segment of kind 0x%02x", kind)
	}
}

func (s *scanner) data(at place, r *decode.Reader) {
	n := s.count(idData, at, r, TooManySegments, s.limits.Segments, "let the linker merge them")
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		at.offset = r.Offset()
		flags := r.U32()
		switch flags {
		case 0:
			s.index(at, r, "memory", 0, len(s.report.Memories), idMemory)
			s.constant(at, r)
		case 1:
		case 2:
			s.index(at, r, "memory", r.U32(), len(s.report.Memories), idMemory)
			s.constant(at, r)
		default:
			r.Fail(decode.Malformed, at.offset, "a data segment with the flags %d", flags)
			return
		}
		r.Bytes(r.U32())
		s.report.Data++
	}
}

// custom reads the name of a custom section, and the manifest. The contents of the others do not matter here.
func (s *scanner) custom(entry *Section, at place, r *decode.Reader) {
	name := r.Name()
	entry.Start = r.Offset()
	if r.Err() != nil {
		return
	}
	if len(name) <= 64 {
		entry.Name = string(name)
	}
	if entry.Name != ManifestSection {
		return
	}
	if s.manifests++; s.manifests > 1 {
		s.refuse(DuplicateManifest, at, 1, int64(s.manifests), "There is more than one section %s; keep one.", ManifestSection)
		return
	}
	if !s.over(ManifestTooLarge, at, s.limits.ManifestBytes, uint64(r.Len()), "The manifest has too many bytes",
		"shorten its descriptions and schema") {
		s.report.Manifest = bytes.Clone(r.Bytes(uint32(r.Len())))
	}
}
