package scan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/wasm/scan/decode"
)

// The names of the plugin interface, version 1. docs describe what they do; here are their shapes.
const (
	HostModule     = "quern_v1"  // imports of the host's functions name this module
	TickImport     = "tick"      // added by the rewriter to HostModule, refused in an upload
	ReservedPrefix = "__quern_"  // exports with this prefix are added by the rewriter, refused in an upload
	markerPrefix   = "quern_abi" // quern_abi_1, quern_abi_2, ...: the versions that a module speaks
	newestABI      = 1           // the highest version that this program speaks; all below are spoken too
)

// signature parses a shape such as "iiI:f": parameters, colon, results, with i = i32, I = i64, d = f64.
func signature(shape string) FunctionType {
	types := map[rune]byte{'i': decode.I32, 'I': decode.I64, 'd': decode.F64}
	var t FunctionType
	params, results, _ := strings.Cut(shape, ":")
	for _, c := range params {
		t.Params = append(t.Params, types[c])
	}
	for _, c := range results {
		t.Results = append(t.Results, types[c])
	}
	return t
}

// importShapes are the functions that a plugin may import. The runtimes of Go and Rust ask for those of WASI; the host gives
// them a frozen clock, seeded chance and no files.
func importShapes() map[string]string {
	const wasi = "wasi_snapshot_preview1."
	return map[string]string{
		HostModule + ".log":          "iii:",
		HostModule + ".log_enabled":  "i:i",
		HostModule + ".metric_add":   "id:",
		HostModule + ".intern":       "iii:i",
		HostModule + ".str":          "iii:i",
		"env.abort":                  "iiii:",
		wasi + "args_get":            "ii:i",
		wasi + "args_sizes_get":      "ii:i",
		wasi + "environ_get":         "ii:i",
		wasi + "environ_sizes_get":   "ii:i",
		wasi + "clock_time_get":      "iIi:i",
		wasi + "random_get":          "ii:i",
		wasi + "fd_write":            "iiii:i",
		wasi + "fd_close":            "i:i",
		wasi + "fd_fdstat_get":       "ii:i",
		wasi + "fd_fdstat_set_flags": "ii:i",
		wasi + "fd_prestat_get":      "ii:i",
		wasi + "fd_prestat_dir_name": "iii:i",
		wasi + "fd_read":             "iiii:i",
		wasi + "fd_seek":             "iIii:i",
		wasi + "poll_oneoff":         "iiii:i",
		wasi + "proc_exit":           "i:",
		wasi + "sched_yield":         ":i",
	}
}

// interfaceRules holds the module against what a plugin may import and must export.
func (s *scanner) interfaceRules() {
	if s.startIndex >= 0 {
		s.refuse(StartSection, place{"start", -1, s.startIndex}, 0, 0, "The module has a start section, which would "+
			"run before any limit is set; export the function as _initialize instead.")
	}
	s.importRules()
	if !s.broken[idTable] && !s.broken[idImport] {
		s.over(TooManyTables, place{"table", -1, 0}, 1, uint64(len(s.report.Tables)), "Too many tables", "keep all functions in one")
	}
	s.memoryRules()
	if !s.broken[idExport] {
		s.markerRules()
		s.exportRule("quern_alloc", "i:i", true)
		s.exportRule("quern_score", "i:i", true)
		s.exportRule("quern_init", "ii:i", false)
		s.exportRule("_initialize", ":", false)
		for _, e := range s.report.Exports {
			if strings.HasPrefix(e.Name, ReservedPrefix) {
				s.refuse(ReservedName, place{"export", -1, e.Offset}, 0, 0, "The export %q begins with %s, which the "+
					"server adds itself; upload the module as the compiler wrote it, or rename it.", e.Name, ReservedPrefix)
			}
		}
	}
}

func (s *scanner) importRules() {
	shapes := importShapes()
	at := place{"import", -1, s.offsetOf(idImport)}
	for _, entry := range s.report.Imports {
		name := entry.Module + "." + entry.Name
		shape, known := shapes[name]
		switch {
		case entry.Module == HostModule && entry.Name == TickImport:
			s.refuse(ReservedName, at, 0, 0, "The import %s is added by the server; remove it.", name)
		case entry.Kind != KindFunction:
			s.refuse(ForbiddenImport, at, 0, 0,
				"The %s %q is imported; a plugin has its own: build without importing it.", entry.Kind, name)
		case !known:
			s.refuse(ForbiddenImport, at, 0, 0, "The import %q is not offered to plugins; remove what needs it "+
				"(files, sockets, processes and the like are not there).", name)
		case !s.has(entry.Type, shape):
			s.refuse(WrongSignature, at, 0, 0,
				"The import %q must have the signature %s; use the declarations of the SDK.", name, readable(shape))
		}
	}
}

func (s *scanner) memoryRules() {
	if s.broken[idMemory] || s.broken[idImport] {
		return
	}
	at := place{"memory", -1, s.offsetOf(idMemory)}
	s.over(TooManyMemories, at, 1, uint64(len(s.report.Memories)), "Too many memories", "build without the proposal for multiple memories")
	switch e := s.export("memory"); {
	case len(s.report.Memories) == 0:
		s.refuse(MissingMemory, at, 1, 0,
			"The module has no memory, through which candidates come in and scores go out; declare one and export it as memory.")
	case !s.broken[idExport] && (e == nil || e.Kind != KindMemory):
		s.refuse(MissingMemory, place{"export", -1, s.offsetOf(idExport)}, 1, 0,
			"The memory is not exported; export it under the name memory.")
	}
}

// markerRules finds the version of the interface: the highest that both sides know.
func (s *scanner) markerRules() {
	at := place{"export", -1, s.offsetOf(idExport)}
	spoken := []string{}
	for _, e := range s.report.Exports {
		text, isMarker := strings.CutPrefix(e.Name, markerPrefix+"_")
		version, err := strconv.Atoi(text)
		if !isMarker || err != nil || strconv.Itoa(version) != text || version < 1 || e.Kind != KindFunction {
			continue
		}
		spoken = append(spoken, e.Name)
		if version <= newestABI {
			s.report.ABI = max(s.report.ABI, version)
		}
		at.offset = e.Offset
	}
	switch {
	case len(spoken) == 0:
		s.refuse(MissingMarker, at, 0, 0, "No version of the plugin interface is marked; export an empty function "+
			"with the name %s_%d.", markerPrefix, newestABI)
	case s.report.ABI == 0:
		s.refuse(ABIUnsupported, at, newestABI, 0, "The module speaks only %s; this server speaks %s_1 to %s_%d: "+
			"build with the matching SDK.", strings.Join(spoken[:min(len(spoken), 8)], ", "), markerPrefix, markerPrefix, newestABI)
	}
}

// exportRule refuses a function of the interface that is missing or has another signature.
func (s *scanner) exportRule(name, shape string, needed bool) {
	e := s.export(name)
	switch {
	case e == nil && needed:
		s.refuse(MissingExport, place{"export", -1, s.offsetOf(idExport)}, 0, 0,
			"The function %s with the signature %s is not exported; export it.", name, readable(shape))
	case e != nil && e.Kind != KindFunction:
		s.refuse(WrongSignature, place{"export", -1, e.Offset}, 0, 0,
			"The export %s is a %s; it must be a function with the signature %s.", name, e.Kind, readable(shape))
	case e != nil && uint64(e.Index) < uint64(len(s.report.Functions)) && !s.has(s.report.Functions[e.Index], shape):
		s.refuse(WrongSignature, place{"export", int(e.Index), e.Offset}, 0, 0,
			"The export %s must have the signature %s; change the function.", name, readable(shape))
	}
}

func (s *scanner) export(name string) *Export {
	i := slices.IndexFunc(s.report.Exports, func(e Export) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &s.report.Exports[i]
}

// has says whether the type is of the shape. A type that could not be read is not judged.
func (s *scanner) has(index uint32, shape string) bool {
	if uint64(index) >= uint64(len(s.report.Types)) {
		return true
	}
	want, got := signature(shape), s.report.Types[index]
	return slices.Equal(want.Params, got.Params) && slices.Equal(want.Results, got.Results)
}

// offsetOf is where a section begins, the end of the module when there is none.
func (s *scanner) offsetOf(id byte) int {
	for _, section := range s.report.Sections {
		if section.ID == id {
			return section.Start
		}
	}
	return len(s.module)
}

// readable writes a shape as (i32, i64) -> (i32).
func readable(shape string) string {
	params, results, _ := strings.Cut(shape, ":")
	names := func(letters string) string {
		words := []string{}
		for _, c := range letters {
			words = append(words, map[rune]string{'i': "i32", 'I': "i64", 'd': "f64"}[c])
		}
		return "(" + strings.Join(words, ", ") + ")"
	}
	return names(params) + " -> " + names(results)
}
