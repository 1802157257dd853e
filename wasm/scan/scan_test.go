package scan_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// Every hostile module is refused by the rule that is made for it, with a place inside of the module and a sentence; the others
// pass, since what is wrong with them shows only later.
func TestHostileCorpus(t *testing.T) {
	t.Parallel()
	for _, h := range wasmtest.Corpus() {
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			module := h.Build()
			_, violations := scan.Scan(module, scan.DefaultLimits())
			if h.Stage != wasmtest.Scan {
				if len(violations) > 0 {
					t.Errorf("refused with %v, want it to pass the scan", violations)
				}
				return
			}
			if !slices.ContainsFunc(violations, func(v scan.Violation) bool { return string(v.Rule) == h.Rule }) {
				t.Errorf("violations are %v, want one of the rule %s", violations, h.Rule)
			}
			for _, v := range violations {
				if v.Offset < 0 || v.Offset > len(module) || v.Section == "" || v.Function < -1 || !strings.HasSuffix(v.Message, ".") || strings.Contains(v.Message, "%!") {
					t.Errorf("violation %+v has no good place or sentence (the module has %d bytes)", v, len(module))
				}
			}
		})
	}
}

// The scan takes memory by the real size of a hostile module, not by the sizes that the module claims.
func TestScanTakesLittleMemory(t *testing.T) { // not parallel: it measures the process
	for _, h := range wasmtest.Corpus() {
		module := h.Build()
		if taken, bound := allocated(func() { scan.Scan(module, scan.DefaultLimits()) }), uint64(1<<20+32*len(module)); taken > bound {
			t.Errorf("%s: the scan of %d bytes took %d bytes, want at most %d", h.Name, len(module), taken, bound)
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A good plugin passes, and the report says what it is.
func TestScanReports(t *testing.T) {
	t.Parallel()
	module := wasmtest.ScorerWith("quern.manifest", []byte(`{"name":"x"}`))
	report, violations := scan.Scan(module, scan.DefaultLimits())
	if len(violations) > 0 {
		t.Fatalf("a good plugin is refused: %v", violations)
	}
	if report.ABI != 1 || string(report.Manifest) != `{"name":"x"}` || len(report.Functions) != 3 || report.Bodies != 3 || len(report.Exports) != 4 ||
		len(report.Memories) != 1 || report.Memories[0].Min != 1 || report.HiddenState || report.CompileCost == 0 || report.DeepestBody != 3 {
		t.Errorf("the report is %+v", report)
	}
	if err := report.Accepts(module); err != nil {
		t.Errorf("the report does not accept its module: %v", err)
	}
	if err := report.Accepts(append(bytes.Clone(module), 0, 1, 0)); err == nil {
		t.Error("the report accepts another module")
	}
	refused, _ := scan.Scan(module[:len(module)-1], scan.DefaultLimits())
	if err := refused.Accepts(module[:len(module)-1]); err == nil {
		t.Error("the report of a refused module accepts it")
	}
}

// Everything that is wrong with a module is said at once.
func TestScanFindsAllViolations(t *testing.T) {
	t.Parallel()
	b := &wasmtest.Builder{}
	b.Type(nil, nil)
	b.ImportFunction("env", "system", 0)
	b.ImportFunction("wasi_snapshot_preview1", "path_open", 0)
	b.Import("env", "table", wasmtest.Table, append([]byte{wasmtest.FuncRef}, wasmtest.Limits(1, -1)...))
	b.Memory(300, -1)
	b.Export("quern_score", wasmtest.Function, b.RawFunction(0, wasmtest.Code(1, wasmtest.Unsigned(5_000), wasmtest.I64, wasmtest.End)))
	b.Function(0, nil, 0xfe, 0)
	b.Function(0, nil, 0x12, 0, wasmtest.End)
	b.Function(0, nil, 0x20, 9, wasmtest.End)
	b.Start(2)
	_, violations := scan.Scan(b.Bytes(), scan.DefaultLimits())
	got := map[scan.Rule][]int{}
	for _, v := range violations {
		got[v.Rule] = append(got[v.Rule], v.Function)
	}
	want := map[scan.Rule][]int{
		scan.ForbiddenImport: {-1, -1, -1}, scan.MemoryTooLarge: {-1}, scan.TooManyLocals: {2}, scan.ForbiddenOpcode: {3, 4}, scan.IndexOutOfRange: {5},
		scan.StartSection: {-1}, scan.MissingMemory: {-1}, scan.MissingMarker: {-1}, scan.MissingExport: {-1}, scan.WrongSignature: {2},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("violations by rule and function are\n%v, want\n%v", got, want)
	}
}

// However much is wrong, the list stays short, and the count does not.
func TestScanListsFewViolations(t *testing.T) {
	t.Parallel()
	b := wasmtest.Base()
	for range 1_000 {
		b.Function(0, nil, 0xfe, 0)
	}
	report, violations := scan.Scan(b.Bytes(), scan.DefaultLimits())
	if len(violations) != 21 || report.Refused != 1_001 {
		t.Errorf("%d violations listed of %d, want 21 (20 of one rule, and quern_score) of 1,001", len(violations), report.Refused)
	}
}

// A module at a limit passes; one beyond is refused by that limit's rule, which says both numbers.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, c := range limitCases() {
		t.Run(string(c.rule)+"_"+c.name, func(t *testing.T) {
			t.Parallel()
			for _, at := range []struct {
				n       int
				refused bool
			}{{c.limit, false}, {c.limit + 1, true}} {
				limits := scan.DefaultLimits()
				if c.set != nil {
					c.set(&limits, c.limit)
				}
				module := c.build(at.n)
				_, violations := scan.Scan(module, limits)
				i := slices.IndexFunc(violations, func(v scan.Violation) bool { return v.Rule == c.rule })
				if (i >= 0) != at.refused {
					t.Fatalf("at %d of %d the violations are %v, want refused by %s = %v", at.n, c.limit, violations, c.rule, at.refused)
				}
				if at.refused && (violations[i].Limit != int64(c.limit) || violations[i].Found != int64(at.n)) {
					t.Errorf("the violation %+v, want limit %d and found %d", violations[i], c.limit, at.n)
				}
			}
		})
	}
}

type limitCase struct {
	rule  scan.Rule
	name  string
	limit int
	set   func(*scan.Limits, int)
	build func(n int) []byte
}

func limitCases() []limitCase {
	defaults := scan.DefaultLimits()
	repeated := func(n int, add func(*wasmtest.Builder)) []byte {
		b := wasmtest.Base()
		for range n {
			add(b)
		}
		return b.Bytes()
	}
	raw := func(body []byte) []byte {
		b := wasmtest.Base()
		b.RawFunction(1, body)
		return b.Bytes()
	}
	size := len(wasmtest.ScorerWith("", nil))
	return []limitCase{
		{scan.ModuleTooLarge, "bytes", size + 1_000, func(l *scan.Limits, n int) { l.ModuleBytes = n }, func(n int) []byte {
			return wasmtest.ScorerWith("", make([]byte, n-size-1)) // the section's size takes one byte more from 128 on
		}},
		{scan.TooManyFunctions, "functions", 50, func(l *scan.Limits, n int) { l.Functions = n }, wasmtest.Functions},
		{scan.TooManyTypes, "types", defaults.Types, nil, func(n int) []byte { return repeated(n-2, func(b *wasmtest.Builder) { b.Type(nil, nil) }) }},
		{scan.TypeTooLarge, "params", defaults.TypeValues, nil, func(n int) []byte {
			return repeated(1, func(b *wasmtest.Builder) { b.Type(bytes.Repeat([]byte{wasmtest.I64}, n), nil) })
		}},
		{scan.TypeTooLarge, "results", defaults.TypeValues, nil, func(n int) []byte {
			return repeated(1, func(b *wasmtest.Builder) { b.Type(nil, bytes.Repeat([]byte{wasmtest.I64}, n)) })
		}},
		{scan.TooManyImports, "imports", defaults.Imports, nil, func(n int) []byte {
			b := &wasmtest.Builder{}
			b.Type(nil, nil)
			for range n {
				b.ImportFunction("env", "abort", 0)
			}
			return b.Bytes()
		}},
		{scan.TooManyExports, "exports", defaults.Exports, nil, func(n int) []byte {
			i := 0
			return repeated(n-3, func(b *wasmtest.Builder) { i++; b.Export(fmt.Sprint("x", i), wasmtest.Function, 0) })
		}},
		{scan.TooManyGlobals, "globals", defaults.Globals, nil, func(n int) []byte {
			return repeated(n, func(b *wasmtest.Builder) { b.Global(wasmtest.I32, true, wasmtest.ConstI32(1)) })
		}},
		{scan.TooManySegments, "data", defaults.Segments, nil, func(n int) []byte {
			return repeated(n, func(b *wasmtest.Builder) { b.Data(0, []byte("x")) })
		}},
		{scan.TooManySegments, "elements_and_data", defaults.Segments, nil, func(n int) []byte {
			b := wasmtest.Base()
			b.Table(1, 1)
			for range n / 2 {
				b.Elements(0, 0)
			}
			for range n - n/2 {
				b.Data(0, []byte("x"))
			}
			return b.Bytes()
		}},
		{scan.BodyTooLarge, "body", defaults.BodyBytes, nil, func(n int) []byte {
			return raw(wasmtest.Code(0, bytes.Repeat([]byte{0x01}, n-4), 0x41, 0, wasmtest.End))
		}},
		{scan.TooManyLocals, "with_the_parameter", defaults.Locals, nil, func(n int) []byte {
			return raw(wasmtest.Code(2, wasmtest.Unsigned(uint64(n-3)), wasmtest.I64, 2, wasmtest.F64, 0x41, 0, wasmtest.End))
		}},
		{scan.TooManyBlocks, "blocks", 200, func(l *scan.Limits, n int) { l.Blocks = n }, wasmtest.IfChain},
		{scan.TooDeep, "with_the_function", defaults.Nesting, nil, func(n int) []byte { return wasmtest.Nested(n - 1) }},
		{scan.BranchTableTooLarge, "targets", defaults.BranchTable, nil, wasmtest.Switch},
		{scan.MemoryTooLarge, "pages", defaults.MemoryPages, nil, func(n int) []byte {
			return repeated(1, func(b *wasmtest.Builder) { b.Raw(5, wasmtest.Vector(wasmtest.Limits(uint32(n), -1))) })
		}},
		{scan.TableTooLarge, "entries", defaults.TableEntries, nil, func(n int) []byte {
			return repeated(1, func(b *wasmtest.Builder) { b.Table(uint32(n), -1) })
		}},
		{scan.TooManyTables, "tables", 1, nil, func(n int) []byte { return repeated(n, func(b *wasmtest.Builder) { b.Table(1, 1) }) }},
		{scan.TooManyMemories, "memories", 1, nil, func(n int) []byte {
			return repeated(n-1, func(b *wasmtest.Builder) { b.Memory(1, 1) })
		}},
		{scan.ManifestTooLarge, "manifest", defaults.ManifestBytes, nil, func(n int) []byte {
			return wasmtest.ScorerWith("quern.manifest", make([]byte, n))
		}},
		{scan.CompileBudget, "function", 8, func(l *scan.Limits, n int) { l.FunctionCost = n }, func(n int) []byte {
			return raw(wasmtest.Code(0, bytes.Repeat([]byte{0x01}, n-2), 0x41, 0, wasmtest.End)) // n instructions, no block
		}},
	}
}

// A configuration cannot go beyond the ceilings, and Check names the field.
func TestCeilings(t *testing.T) {
	t.Parallel()
	limits := scan.DefaultLimits()
	if err := limits.Check(); err != nil {
		t.Errorf("the default limits are out of range: %v", err)
	}
	if err := scan.Ceilings().Check(); err != nil {
		t.Errorf("the ceilings are out of range: %v", err)
	}
	limits.ModuleBytes, limits.Nesting = 1<<40, 0
	if err := limits.Check(); err == nil || !strings.Contains(err.Error(), "module_bytes") {
		t.Errorf("Check says %v, want an error that names module_bytes", err)
	}
	_, violations := scan.Scan(make([]byte, scan.Ceilings().ModuleBytes+1), limits)
	if len(violations) != 1 || violations[0].Rule != scan.ModuleTooLarge || violations[0].Limit != int64(scan.Ceilings().ModuleBytes) {
		t.Errorf("violations are %v, want the module too large by its ceiling", violations)
	}
}

// Of the versions of the interface that a module speaks, the highest that this program knows wins. A name that only looks like
// a marker is none.
func TestMarkers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		markers []string
		abi     int
		rule    scan.Rule
	}{
		{[]string{"quern_abi_1"}, 1, ""},
		{[]string{"quern_abi_9", "quern_abi_1"}, 1, ""},
		{[]string{"quern_abi_2", "quern_abi_10"}, 0, scan.ABIUnsupported},
		{[]string{"quern_abi_0", "quern_abi_01", "quern_abi_x", "quern_abi_", "quern_abi_+1", "quern_abi_-1"}, 0, scan.MissingMarker},
	} {
		b := &wasmtest.Builder{}
		b.Type(nil, nil)
		b.Type([]byte{wasmtest.I32}, []byte{wasmtest.I32})
		b.Memory(1, -1)
		b.Export("memory", wasmtest.Memory, 0)
		score := b.Function(1, nil, 0x41, 0, wasmtest.End)
		b.Export("quern_alloc", wasmtest.Function, score)
		b.Export("quern_score", wasmtest.Function, score)
		for _, name := range c.markers {
			b.Export(name, wasmtest.Function, score)
		}
		report, violations := scan.Scan(b.Bytes(), scan.DefaultLimits())
		rule := scan.Rule("")
		if len(violations) > 0 {
			rule = violations[0].Rule
		}
		if report.ABI != c.abi || rule != c.rule {
			t.Errorf("markers %q give version %d and %v, want %d and rule %q", c.markers, report.ABI, violations, c.abi, c.rule)
		}
	}
}
