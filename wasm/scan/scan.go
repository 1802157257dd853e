// Package scan looks at an uploaded WebAssembly module before anything else does, and says everything that is wrong with it at
// once. It exists because the engine that compiles modules believes what they declare: fifteen bytes are enough to make it ask
// for more memory than there is, and some kilobytes keep it compiling for minutes. The scan reads every byte at most twice,
// makes room for nothing on the strength of a declared count, and never panics.
//
// It does not check types: the engine does that afterwards. It checks structure, sizes and every index, which is what the
// rewriter (wasm/instrument) relies on: after a scan without violations no instruction names a local, global, function or type
// that is not the module's own.
//
//quern:tests pure
package scan

import (
	"crypto/sha256"

	"github.com/quern-queue/quern/wasm/scan/decode"
)

// scanner is one scan.
type scanner struct {
	module     []byte
	limits     Limits
	report     *Report
	violations []Violation
	perRule    map[Rule]int

	rank       int           // order of the last section that was not custom
	broken     map[byte]bool // sections of which not every entry is known: references to them are not judged
	dataCount  int           // of the data count section, -1 without one
	bodies     uint32        // declared in the code section
	exported   map[string]bool
	manifests  int
	body       body // reused from function to function
	startIndex int  // offset of the start section's content, -1 without one
}

// Scan decodes module and checks it against the limits and the rules for plugins. The module may be loaded when no violation
// is returned. The report holds everything that could be decoded, also of a module that is refused. Limits above the ceilings
// count as the ceilings.
func Scan(module []byte, limits Limits) (*Report, []Violation) { return run(module, limits, true) }

// Structure is Scan without the rules on imports, exports, the start section, memory and table counts: whether a module can be
// decoded and rewritten, not whether it is a plugin.
func Structure(module []byte, limits Limits) (*Report, []Violation) {
	return run(module, limits, false)
}

func run(module []byte, limits Limits, plugin bool) (report *Report, violations []Violation) {
	s := &scanner{
		module: module, limits: limits.within(), report: &Report{}, perRule: map[Rule]int{},
		broken: map[byte]bool{}, dataCount: -1, exported: map[string]bool{}, startIndex: -1,
	}
	// The code below has no way to panic that we know of. If there is one, it costs the upload and not the server.
	defer func() {
		if failure := recover(); failure != nil {
			s.refuse(Panicked, place{"module", -1, 0}, 0, 0,
				"The scan failed on this module (%v); please report it with the module.", failure)
			report, violations = s.report, s.violations
		}
	}()
	if s.header() {
		s.report.sum = sha256.Sum256(module)
		s.sections()
		s.totals()
		if plugin {
			s.interfaceRules()
		}
	}
	return s.report, s.violations
}

// header checks size, magic number and version. Without them nothing else is looked at.
func (s *scanner) header() bool {
	at := place{"header", -1, 0}
	if s.over(ModuleTooLarge, at, s.limits.ModuleBytes, uint64(len(s.module)), "The module has too many bytes",
		"build it with optimisation for size and without debug information, or raise the limit module_bytes") {
		return false
	}
	switch {
	case len(s.module) < 8 || string(s.module[:4]) != "\x00asm":
		s.refuse(NotWasm, at, 0, int64(len(s.module)), "This is no WebAssembly module: it does not begin with the "+
			"bytes 00 61 73 6d and a version; upload the .wasm file that the compiler wrote.")
	case s.module[6] == 1 && s.module[7] == 0:
		s.refuse(Component, at, 0, 0, "This is a component; upload a core module (build for wasm32-unknown-unknown "+
			"or wasip1, not for wasip2).")
	case string(s.module[4:8]) != "\x01\x00\x00\x00":
		s.refuse(NotWasm, at, 0, int64(s.module[4]),
			"The version of this WebAssembly binary is not 1; build a core module of WebAssembly 2.0 or earlier.")
	default:
		return true
	}
	return false
}

// section ids of the format.
const (
	idCustom byte = iota
	idType
	idImport
	idFunction
	idTable
	idMemory
	idGlobal
	idExport
	idStart
	idElement
	idCode
	idData
	idDataCount
)

// sectionName is the name of the section in a violation.
func sectionName(id byte) string {
	if names := [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start",
		"element", "code", "data", "data_count"}; int(id) < len(names) {
		return names[id]
	}
	return "unknown"
}

// sectionRank is the place of a section in the order of the format; data_count stands before code.
func sectionRank(id byte) int {
	if ranks := [...]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 10}; int(id) < len(ranks) {
		return ranks[id]
	}
	return 0
}

// sections reads one section after the other. An error inside of one does not keep the next from being read.
func (s *scanner) sections() {
	r := decode.NewReader(s.module)
	r.Bytes(8)
	for r.Len() > 0 {
		start := r.Offset()
		id := r.Byte()
		size := r.U32()
		content := r.Sub(size)
		if err := r.Err(); err != nil {
			s.undecodable(place{sectionName(id), -1, start}, err)
			s.broken[id] = true
			return
		}
		s.section(id, start, content)
	}
}

func (s *scanner) section(id byte, start int, r *decode.Reader) {
	at := place{sectionName(id), -1, start}
	if id > idDataCount {
		s.refuse(SectionOrder, at, int64(idDataCount), int64(id),
			"Section id %d is not in WebAssembly 2.0; turn the proposal off that writes it.", id)
		return
	}
	if id != idCustom {
		if rank := sectionRank(id); rank <= s.rank {
			s.refuse(SectionOrder, at, 0, int64(id),
				"The section %s is doubled or misplaced; the file is damaged, build it again.", sectionName(id))
			return
		} else {
			s.rank = rank
		}
	}
	entry := Section{ID: id, Start: r.Offset(), End: r.Offset() + r.Len()}
	if id == idCustom {
		s.custom(&entry, at, r)
	} else {
		s.entries(id, at, r)
	}
	if err := r.Err(); err != nil {
		s.undecodable(place{at.section, -1, err.Offset}, err)
		s.broken[id] = true
	} else if r.Len() > 0 && id != idCustom && !s.broken[id] {
		s.refuse(Malformed, place{at.section, -1, r.Offset()}, 0, int64(r.Len()),
			"The section %s is %d bytes longer than its entries; the file is damaged, build it again.", at.section, r.Len())
	}
	s.report.Sections = append(s.report.Sections, entry)
}

func (s *scanner) entries(id byte, at place, r *decode.Reader) {
	switch id {
	case idType:
		s.types(at, r)
	case idImport:
		s.imports(at, r)
	case idFunction:
		s.functions(at, r)
	case idTable:
		s.tables(at, r)
	case idMemory:
		s.memories(at, r)
	case idGlobal:
		s.globals(at, r)
	case idExport:
		s.exports(at, r)
	case idStart:
		s.startIndex = at.offset
		s.functionIndex(at, r.U32(), r)
	case idElement:
		s.elements(at, r)
	case idDataCount:
		s.dataCount = int(r.U32())
	case idCode:
		s.code(at, r)
	case idData:
		s.data(at, r)
	}
}

// undecodable turns what stopped a reader into a violation.
func (s *scanner) undecodable(at place, err *decode.Error) {
	at.offset = err.Offset
	switch err.Kind {
	case decode.Truncated:
		s.refuse(Truncated, at, 0, 0, "The module ends too early: %s; upload all of the file, or build it again.", err.Text)
	case decode.Forbidden:
		s.refuse(ForbiddenOpcode, at, 0, 0, "The code uses %s, which plugins may not; turn the feature off in the compiler.", err.Text)
	case decode.CountLie:
		s.refuse(CountLie, at, 0, 0, "A count cannot be true: %s; the file is damaged or made to harm, build it again.", err.Text)
	default:
		s.refuse(Malformed, at, 0, 0, "The module is not valid: %s; the file is damaged, build it again.", err.Text)
	}
}

// totals compares the sections that must agree on how many they are.
func (s *scanner) totals() {
	defined := len(s.report.Functions) - s.report.ImportedFunctions
	if !s.broken[idFunction] && !s.broken[idCode] && !s.broken[idImport] && int(s.bodies) != defined {
		s.refuse(Malformed, place{"code", -1, len(s.module)}, int64(defined), int64(s.bodies),
			"%d functions are declared and %d bodies are there; the file is damaged, build it again.", defined, s.bodies)
	}
	if s.dataCount >= 0 && !s.broken[idData] && s.dataCount != s.report.Data {
		s.refuse(Malformed, place{"data_count", -1, len(s.module)}, int64(s.dataCount), int64(s.report.Data),
			"%d data segments are announced and %d are there; the file is damaged, build it again.", s.dataCount, s.report.Data)
	}
	at := place{"code", -1, len(s.module)}
	s.over(CompileBudget, at, s.limits.CompileCost, uint64(s.report.CompileCost),
		"All functions together are too costly to compile (estimated units)",
		"leave out what is not needed, or split large functions")
	s.over(TooManySegments, place{"data", -1, len(s.module)}, s.limits.Segments,
		uint64(s.report.Data+s.report.Elements), "Too many data and element segments", "let the linker merge them")
}
