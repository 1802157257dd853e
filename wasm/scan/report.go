package scan

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// FunctionType is a signature, as slices of value type bytes that share the module's memory.
type FunctionType struct{ Params, Results []byte }

// Import is one entry of the import section.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         uint32 // of a function: index into Report.Types
	Global       Global // of a global
	Table        Table  // of a table
}

// Export is one entry of the export section.
type Export struct {
	Name   string
	Kind   Kind
	Index  uint32
	Offset int // in the module
}

// Kind is the kind of an import or export, with the numbers of the format.
type Kind byte

// The kinds of imports and exports.
const (
	KindFunction Kind = iota
	KindTable
	KindMemory
	KindGlobal
)

func (k Kind) String() string {
	if names := [...]string{"function", "table", "memory", "global"}; int(k) < len(names) {
		return names[k]
	}
	return "unknown kind"
}

// Global is the type of a global.
type Global struct {
	Type    byte // a value type
	Mutable bool
}

// Table is the type of a table. Max is only meaningful with HasMax; entries.
type Table struct {
	Type     byte // a reference type
	Min, Max uint32
	HasMax   bool
}

// Memory is the type of the memory. Max is only meaningful with HasMax; pages of 64 KiB.
type Memory struct {
	Min, Max uint32
	HasMax   bool
}

// Section is where a section's content is in the module.
type Section struct {
	ID         byte
	Name       string // of a custom section
	Start, End int    // content, without id and size; for a custom section behind its name
}

// Report has the facts that a scan found about a module. Slices share the module's memory: keep both or neither.
type Report struct {
	ABI      int    // the highest version of the plugin interface that the module and this program both know; 0: none
	Manifest []byte // content of the custom section quern.manifest, not interpreted; nil without one

	Sections  []Section
	Types     []FunctionType
	Imports   []Import
	Functions []uint32 // type index of every function, imported ones first
	Tables    []Table  // imported ones first
	Memories  []Memory // imported ones first
	Globals   []Global // imported ones first
	Exports   []Export
	Elements  int // element segments
	Data      int // data segments

	ImportedFunctions, ImportedTables, ImportedMemories, ImportedGlobals int

	Bodies       int // function bodies read to their end
	Instructions int // in all bodies
	CompileCost  int // estimate, see limits.go
	LargestBody  int // bytes
	DeepestBody  int // blocks open at once

	// HiddenState says that the module has code that changes what a copy of memory and mutable globals does not bring back:
	// tables, dropped segments, and globals that hold a vector or a reference.
	HiddenState bool

	Refused int // violations found, listed or not

	sum [sha256.Size]byte
}

// Accepts returns nil when the report is that of module and nothing was refused: the condition for rewriting it.
func (r *Report) Accepts(module []byte) error {
	if r.Refused > 0 {
		return errors.New("scan: the module was refused")
	}
	if sha256.Sum256(module) != r.sum {
		return errors.New("scan: the report is that of another module")
	}
	return nil
}

// FunctionType is the type of the function with this index in the function space. The index is valid in a report that Accepts.
func (r *Report) FunctionType(index uint32) FunctionType { return r.Types[r.Functions[index]] }

// Rule is the stable name of a reason for which a module is refused.
type Rule string

// The rules. Those of the first group concern the bytes, of the second the limits, of the third what a plugin may and must have.
const (
	NotWasm         Rule = "not_wasm"         // no WebAssembly header
	Component       Rule = "component"        // a component, not a core module
	Truncated       Rule = "truncated"        // the bytes end inside of something
	Malformed       Rule = "malformed"        // the bytes are not what the format allows
	CountLie        Rule = "count_lie"        // more entries declared than bytes are left
	SectionOrder    Rule = "section_order"    // unknown, doubled or misplaced section
	IndexOutOfRange Rule = "index_range"      // an index of something that is not there
	ForbiddenOpcode Rule = "forbidden_opcode" // outside of core 2.0 with SIMD
	Panicked        Rule = "scan_panic"       // the scan itself failed

	ModuleTooLarge      Rule = "module_too_large"
	TooManyFunctions    Rule = "too_many_functions"
	TooManyTypes        Rule = "too_many_types"
	TypeTooLarge        Rule = "type_too_large"
	TooManyImports      Rule = "too_many_imports"
	TooManyExports      Rule = "too_many_exports"
	TooManyGlobals      Rule = "too_many_globals"
	TooManySegments     Rule = "too_many_segments"
	BodyTooLarge        Rule = "body_too_large"
	TooManyLocals       Rule = "too_many_locals"
	TooManyBlocks       Rule = "too_many_blocks"
	TooDeep             Rule = "nesting_too_deep"
	BranchTableTooLarge Rule = "br_table_too_large"
	CompileBudget       Rule = "compile_budget"
	MemoryTooLarge      Rule = "memory_too_large"
	TableTooLarge       Rule = "table_too_large"
	ManifestTooLarge    Rule = "manifest_too_large"

	ForbiddenImport   Rule = "forbidden_import"
	StartSection      Rule = "start_section"
	MissingMemory     Rule = "missing_memory"
	TooManyMemories   Rule = "too_many_memories"
	SharedMemory      Rule = "shared_memory"
	Memory64          Rule = "memory64"
	TooManyTables     Rule = "too_many_tables"
	MissingMarker     Rule = "missing_marker"
	ABIUnsupported    Rule = "abi_unsupported"
	MissingExport     Rule = "missing_export"
	WrongSignature    Rule = "wrong_signature"
	DuplicateExport   Rule = "duplicate_export"
	ReservedName      Rule = "reserved_name"
	DuplicateManifest Rule = "duplicate_manifest"
)

// maxViolations is how many violations a scan lists, and maxPerRule how many of one rule: enough to see all that is wrong
// with a module made by mistake, and little enough to answer to one made to harm.
const (
	maxViolations = 100
	maxPerRule    = 20
)

// Violation is one reason to refuse a module.
type Violation struct {
	Rule     Rule
	Section  string // "header", "type", ..., "code", "custom"; "module" for all of it
	Function int    // index in the module's function space (imports first), -1 when none is concerned
	Offset   int    // in bytes from the start of the module
	Limit    int64  // the limit that was passed, 0 where there is none
	Found    int64  // the number that was found, 0 where there is none
	Message  string // a sentence with the fault and advice
}

func (v Violation) String() string {
	where := v.Section
	if v.Function >= 0 {
		where = fmt.Sprintf("%s, function %d", v.Section, v.Function)
	}
	return fmt.Sprintf("%s (%s, offset %d): %s", v.Rule, where, v.Offset, v.Message)
}

// place is where a violation is.
type place struct {
	section  string
	function int
	offset   int
}

// refuse notes one violation.
func (s *scanner) refuse(rule Rule, at place, limit, found int64, format string, args ...any) {
	s.perRule[rule]++
	s.report.Refused++
	if s.perRule[rule] > maxPerRule || len(s.violations) >= maxViolations {
		return
	}
	s.violations = append(s.violations, Violation{
		Rule: rule, Section: at.section, Function: at.function, Offset: at.offset, Limit: limit, Found: found,
		Message: fmt.Sprintf(format, args...),
	})
}

// over refuses when found passes limit, and says whether it did.
func (s *scanner) over(rule Rule, at place, limit int, found uint64, what, advice string) bool {
	if found <= uint64(max(limit, 0)) {
		return false
	}
	s.refuse(rule, at, int64(limit), int64(min(found, 1<<62)), "%s: %d, and at most %d are allowed; %s.", what, found, limit, advice)
	return true
}
