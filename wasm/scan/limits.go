package scan

import (
	"fmt"

	"github.com/quern-queue/quern/wasm/scan/decode"
)

// Limits bound what an uploaded module may declare. Every field is inclusive: a module at the limit passes.
type Limits struct {
	ModuleBytes   int // size of the whole module
	Functions     int // functions with a body
	Types         int // entries of the type section
	TypeValues    int // parameters, and results, of one type
	Imports       int // imports of any kind
	Exports       int // exports of any kind
	Globals       int // globals of its own
	Segments      int // data and element segments together; Go's linker cuts its data at zeroes into tens of thousands
	BodyBytes     int // size of one function body
	Locals        int // parameters and locals of one function
	Blocks        int // block, loop, if and else of one function
	Nesting       int // blocks open at the same time, the function itself included
	BranchTable   int // targets of one br_table, without the default
	FunctionCost  int // estimated compile cost of one function: see below for the unit
	CompileCost   int // the same, summed over the module
	MemoryPages   int // declared minimum of the memory, in pages of 64 KiB; it never grows beyond either
	TableEntries  int // declared minimum of the table; it never grows beyond either
	ManifestBytes int // size of the custom section quern.manifest
}

// DefaultLimits are the limits of a server whose options set no others. The figures are three to ten times what guests of Go (with fmt and
// encoding/json), Rust, C and AssemblyScript were measured to need.
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes: 4 << 20, Functions: 20_000, Types: 4_096, TypeValues: 128, Imports: 64, Exports: 256, Globals: 1_024, Segments: 65_536,
		BodyBytes: 128 << 10, Locals: 1_024, Blocks: 4_096, Nesting: 1_024, BranchTable: 4_096,
		FunctionCost: 2_000_000, CompileCost: 50_000_000, MemoryPages: 256, TableEntries: 65_536, ManifestBytes: 16 << 10,
	}
}

// Ceilings are the limits that no configuration goes beyond. The compile child can still take such modules within its own limits of
// processor time and memory.
func Ceilings() Limits {
	return Limits{
		ModuleBytes: 16 << 20, Functions: 100_000, Types: 16_384, TypeValues: 1_000, Imports: 256, Exports: 4_096,
		Globals: 16_384, Segments: 262_144,
		BodyBytes: 512 << 10, Locals: 4_096, Blocks: 16_384, Nesting: 4_096, BranchTable: 16_384,
		FunctionCost: 20_000_000, CompileCost: 200_000_000, MemoryPages: 1_024, TableEntries: 1 << 20, ManifestBytes: 64 << 10,
	}
}

// limit is one field of Limits with its name in configuration.
type limit struct {
	name  string
	value *int
}

func (l *Limits) all() []limit {
	return []limit{
		{"module_bytes", &l.ModuleBytes},
		{"functions", &l.Functions},
		{"types", &l.Types},
		{"type_values", &l.TypeValues},
		{"imports", &l.Imports},
		{"exports", &l.Exports},
		{"globals", &l.Globals},
		{"segments", &l.Segments},
		{"body_bytes", &l.BodyBytes},
		{"locals", &l.Locals},
		{"blocks", &l.Blocks},
		{"nesting", &l.Nesting},
		{"branch_table", &l.BranchTable},
		{"function_cost", &l.FunctionCost},
		{"compile_cost", &l.CompileCost},
		{"memory_pages", &l.MemoryPages},
		{"table_entries", &l.TableEntries},
		{"manifest_bytes", &l.ManifestBytes},
	}
}

// Check says which field is out of range: every limit is between 1 and its ceiling.
func (l Limits) Check() error {
	ceilings := Ceilings()
	highest := ceilings.all()
	for i, field := range l.all() {
		if *field.value < 1 || *field.value > *highest[i].value {
			return fmt.Errorf("scan: limit %s is %d; set it between 1 and %d", field.name, *field.value, *highest[i].value)
		}
	}
	return nil
}

// within is l with every field brought between 0 and its ceiling, so that a wrong configuration cannot open the door.
func (l Limits) within() Limits {
	ceilings := Ceilings()
	highest := ceilings.all()
	for i, field := range l.all() {
		*field.value = min(max(*field.value, 0), *highest[i].value)
	}
	return l
}

// The compile-cost estimate is in units of about what one plain instruction costs the engine's compiler. Its passes over a
// function are worse than linear in two things: the number of blocks (dominators, layout, branch targets) and, at every block,
// the locals that may have changed on the way there (one merge per local and block). So a function costs
//
//	blocks²/8 + 4 × blocks × locals + values
//
// where blocks counts every block, loop, if, else, br_if, four for each bulk operation (a loop when compiled, and a check when rewritten),
// and, eight for one, the targets of br_table; locals includes parameters; and
// values counts every instruction (some that compile to many more), plus eight times the parameters and results that
// calls, blocks and branches carry. Against functions made for it (many loops over many locals, chains of ifs, deep
// nesting) a unit is 0.1 to 0.3 microseconds of compiling; a Go guest with encoding/json comes to a tenth of the
// default limit.
const (
	blocksPerOne  = 8
	mergeWeight   = 4
	targetsPerOne = 8
	carriedWeight = 8
	bulkBlocks    = 4
)

func (b *body) cost() int {
	blocks := b.blocks + b.conditions + bulkBlocks*b.bulk + b.targets/targetsPerOne
	return blocks*blocks/blocksPerOne + mergeWeight*blocks*b.locals + b.values
}

// carry counts the values that go with a call of this type, or in and out of a block of it.
func (b *body) carry(t FunctionType) { b.values += carriedWeight * (len(t.Params) + len(t.Results)) }

// weight is the number that one instruction adds to values.
func weight(op decode.Op) int {
	switch {
	case op == decode.CallIndirect:
		return 100
	case op >= 0xa8 && op <= 0xb1 && op != 0xac && op != 0xad, // float to integer, with its checks
		op >= 0xfc00 && op <= 0xfc07, op == decode.TableGet, op == decode.TableSet:
		return 30
	case op >= 0x6d && op <= 0x70, op >= 0x7f && op <= 0x82: // integer division
		return 20
	case op == decode.Call:
		return 10
	}
	return 1
}
