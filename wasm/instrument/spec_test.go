package instrument_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/scan"
)

// specScript is the part of the specification's test scripts, as wast2json writes them, that this test follows.
type specScript struct {
	Commands []struct {
		Type     string
		Line     int
		Name     string
		Filename string
		Action   struct {
			Type, Field, Module string
			Args                []specValue
		}
	}
}

type specValue struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    any
}

// wide are options that do not get in the way of any module of the specification: the same limits as without rewriting.
func wide() instrument.Options {
	return instrument.Options{Slice: 1_000, Depth: 2_000, MemoryPages: 65_536, TableEntries: 1 << 26}
}

// The modules of the WebAssembly specification 2.0, as the engine's own tests have them, do the same rewritten as unchanged: the
// same results or a trap, call for call. An invalid module stays invalid. Modules that import each other are not linked, on
// neither side.
func TestSpecification(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("finding the engine's module: %v", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(out)), "internal", "integration_test", "spectest")
	scripts, err := filepath.Glob(filepath.Join(folder, "v2", "testdata", "*.json"))
	if err != nil || len(scripts) < 100 {
		t.Fatalf("%d scripts in %s (%v), want more than 100", len(scripts), folder, err)
	}
	host, err := os.ReadFile(filepath.Join(folder, "testdata", "spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	totals := make([]specTotals, len(scripts)) // one per script: they run at the same time
	t.Run("scripts", func(t *testing.T) {
		for n, script := range scripts {
			name := filepath.Base(filepath.Dir(filepath.Dir(script))) + "_" + strings.TrimSuffix(filepath.Base(script), ".json")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				totals[n] = runScript(t, script, host)
			})
		}
	})
	var all specTotals
	for _, one := range totals {
		all.modules += one.modules
		all.calls += one.calls
		all.traps += one.traps
		all.invalid += one.invalid
		all.refused += one.refused
	}
	t.Logf("%d modules, %d calls (%d trapped), %d invalid modules, of which the scan refused %d", all.modules, all.calls, all.traps, all.invalid, all.refused)
	if all.modules < 1_000 || all.calls < 30_000 || all.traps < 1_500 || all.invalid < 2_000 {
		t.Errorf("compared %+v, want far more: the scripts are not followed", all)
	}
}

type specTotals struct{ modules, calls, traps, invalid, refused int }

// side is one of the two runtimes that a script runs in.
type side struct {
	runtime wazero.Runtime
	current api.Module
	named   map[string]api.Module
}

func newSide(t *testing.T, host []byte) *side {
	t.Helper()
	ctx, r := newRuntime(t)
	if _, err := r.InstantiateWithConfig(ctx, host, wazero.NewModuleConfig().WithName("spectest")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.NewHostModuleBuilder(scan.HostModule).NewFunctionBuilder().WithFunc(func(context.Context) {}).Export(scan.TickImport).Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	return &side{runtime: r, named: map[string]api.Module{}}
}

func runScript(t *testing.T, path string, host []byte) (totals specTotals) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var script specScript
	if err := json.Unmarshal(text, &script); err != nil {
		t.Fatal(err)
	}
	plain, rewritten := newSide(t, host), newSide(t, host)
	for _, c := range script.Commands {
		where := fmt.Sprintf("%s, line %d", filepath.Base(path), c.Line)
		switch c.Type {
		case "module", "assert_uninstantiable", "assert_unlinkable":
			module := readModule(t, path, c.Filename)
			totals.modules++
			changed := structure(t, where, module)
			errPlain, errChanged := plain.load(c.Name, module), rewritten.load(c.Name, changed)
			if (errPlain == nil) != (errChanged == nil) {
				t.Fatalf("%s: unchanged loads with %v, rewritten with %v", where, errPlain, errChanged)
			}
		case "assert_invalid", "assert_malformed":
			if strings.HasSuffix(c.Filename, ".wasm") {
				totals.invalid++
				totals.refused += staysInvalid(t, where, readModule(t, path, c.Filename))
			}
		case "action", "assert_return", "assert_trap", "assert_exhaustion":
			if c.Action.Type != "invoke" {
				continue
			}
			args := arguments(c.Action.Args)
			want, errPlain := plain.call(c.Action.Module, c.Action.Field, args)
			got, errChanged := rewritten.call(c.Action.Module, c.Action.Field, args)
			totals.calls++
			if errPlain != nil {
				totals.traps++
			}
			if (errPlain == nil) != (errChanged == nil) || !slices.Equal(want, got) {
				t.Errorf("%s: %s%v unchanged gives %x, %v; rewritten %x, %v", where, c.Action.Field, args, want, errPlain, got, errChanged)
			}
		}
	}
	return totals
}

func readModule(t *testing.T, script, name string) []byte {
	t.Helper()
	module, err := os.ReadFile(filepath.Join(filepath.Dir(script), name))
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// specLimits are the limits that the modules of the specification need: a memory or table of the largest size that there is.
func specLimits() scan.Limits {
	limits := scan.Ceilings()
	limits.BranchTable = 16_384
	return limits
}

// structure scans and rewrites a valid module. The scan may refuse only its sizes, which the scan's own tests cover.
func structure(t *testing.T, where string, module []byte) []byte {
	t.Helper()
	report, violations := scan.Structure(module, specLimits())
	for _, v := range violations {
		if v.Rule != scan.MemoryTooLarge && v.Rule != scan.TableTooLarge && v.Rule != scan.BranchTableTooLarge && v.Rule != scan.CompileBudget {
			t.Fatalf("%s: the scan refuses a valid module: %v", where, v)
		}
	}
	if len(violations) > 0 {
		return module
	}
	out, err := instrument.Instrument(module, report, wide())
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	if _, again := scan.Structure(out.Bytes, specLimits()); len(again) > 0 {
		t.Fatalf("%s: the rewritten module does not pass the scan: %v", where, again)
	}
	if slices.ContainsFunc(report.Sections, func(s scan.Section) bool { return s.ID == 8 }) {
		return module // its start function would run before the fuel can be set, which is why plugins may not have one
	}
	return out.Bytes
}

// staysInvalid checks that an invalid module is refused by the scan or, rewritten, by the engine. It returns 1 for the former.
func staysInvalid(t *testing.T, where string, module []byte) int {
	t.Helper()
	report, violations := scan.Structure(module, specLimits())
	if len(violations) > 0 {
		return 1
	}
	out, err := instrument.Instrument(module, report, wide())
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	ctx, r := newRuntime(t)
	_, errPlain := r.CompileModule(ctx, module)
	if _, errChanged := r.CompileModule(ctx, out.Bytes); errChanged == nil && errPlain != nil {
		t.Errorf("%s: rewriting made an invalid module valid; unchanged it is refused with: %v", where, errPlain)
	}
	return 0
}

func (s *side) load(name string, module []byte) error {
	ctx := context.Background()
	m, err := s.runtime.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return err
	}
	s.current = m
	if name != "" {
		s.named[name] = m
	}
	return nil
}

func (s *side) module(name string) api.Module {
	if m := s.named[name]; m != nil {
		return m
	}
	return s.current
}

func (s *side) call(module, field string, args []uint64) (results []uint64, err error) {
	m := s.module(module)
	if m == nil {
		return nil, nil
	}
	for name, value := range map[string]uint64{instrument.FuelExport: 1 << 40, instrument.SliceExport: 0, instrument.DepthExport: uint64(wide().Depth)} {
		if g, ok := m.ExportedGlobal(name).(api.MutableGlobal); ok {
			g.Set(value)
		}
	}
	f := m.ExportedFunction(field)
	if f == nil {
		return nil, fmt.Errorf("no function %q", field)
	}
	results, err = f.Call(context.Background(), args...)
	return results, err
}

func arguments(values []specValue) (args []uint64) {
	number := func(v any, bits int) uint64 {
		s, _ := v.(string)
		if strings.HasPrefix(s, "nan") {
			if bits == 32 {
				return uint64(math.Float32bits(float32(math.NaN())))
			}
			return math.Float64bits(math.NaN())
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			signed, _ := strconv.ParseInt(s, 10, 64)
			n = uint64(signed)
		}
		return n
	}
	for _, v := range values {
		if v.Type != "v128" {
			if s, _ := v.Value.(string); s == "null" {
				args = append(args, 0)
				continue
			}
			args = append(args, number(v.Value, map[string]int{"f32": 32}[v.Type]))
			continue
		}
		lanes, _ := v.Value.([]any)
		width := 128 / max(len(lanes), 1)
		var halves [2]uint64
		for i, lane := range lanes {
			bits := number(lane, map[string]int{"f32": 32}[v.LaneType])
			if width < 64 {
				bits &= 1<<width - 1
			}
			halves[i*width/64] |= bits << (i * width % 64)
		}
		args = append(args, halves[0], halves[1])
	}
	return args
}
