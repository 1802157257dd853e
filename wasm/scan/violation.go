package scan

import "fmt"

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
	Section  string // "header", "type", ..., "code", "custom"; "module" for what concerns all of it
	Function int    // index in the module's function space (imports first), -1 when none is concerned
	Offset   int    // in bytes from the start of the module
	Limit    int64  // the limit that was passed, 0 where there is none
	Found    int64  // what was found instead, 0 where it is no number
	Message  string // a sentence that says what is wrong and what to do
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
