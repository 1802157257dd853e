package instrument_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

var update = flag.Bool("update", false, "rewrite the golden files; if they change, raise instrument.Version")

// The rewritten bytes of small modules stay what they are, one module per shape of function. When they change on purpose,
// Version is raised, since caches are keyed by it.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, module := range map[string][]byte{
		"tiny":       wasmtest.Plugin(wasmtest.Code(0x20, 0, wasmtest.End)),
		"loop":       wasmtest.Plugin(wasmtest.Code(0x03, wasmtest.Empty, 0x20, 0, 0x0d, 0, wasmtest.End, 0x41, 0, wasmtest.End)),
		"call":       wasmtest.Plugin(wasmtest.Code(0x20, 0, 0x10, 2, wasmtest.End)),
		"bulk":       wasmtest.Plugin(wasmtest.Code(0x41, 0, 0x41, 0, 0x20, 0, 0xfc, 11, 0, 0x41, 1, 0x40, 0, wasmtest.End)),
		"early_exit": wasmtest.Plugin(wasmtest.Code(0x20, 0, 0x04, wasmtest.Empty, 0x41, 1, 0x0f, wasmtest.End, 0x20, 0, 0x10, 1, wasmtest.End)),
		"state":      wasmtest.Counter(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", "golden", name+".hex")
			got := []byte(hex.Dump(rewrite(t, module, instrument.DefaultOptions()).Bytes))
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the rewritten module is\n%s, want\n%s", got, want)
			}
		})
	}
}

// Options out of range, a report of another module and a refused module are errors, not modules.
func TestInstrumentRefuses(t *testing.T) {
	t.Parallel()
	module := wasmtest.Scorer()
	report, _ := scan.Scan(module, scan.DefaultLimits())
	for name, change := range map[string]func(*instrument.Options){
		"slice 0":     func(o *instrument.Options) { o.Slice = 0 },
		"slice large": func(o *instrument.Options) { o.Slice = 1<<40 + 1 },
		"depth 0":     func(o *instrument.Options) { o.Depth = 0 },
		"depth large": func(o *instrument.Options) { o.Depth = 100_001 },
		"no memory":   func(o *instrument.Options) { o.MemoryPages = 0 },
		"no table":    func(o *instrument.Options) { o.TableEntries = 0 },
	} {
		o := instrument.DefaultOptions()
		change(&o)
		if _, err := instrument.Instrument(module, report, o); err == nil {
			t.Errorf("%s: rewritten with %+v, want an error", name, o)
		}
	}
	if _, err := instrument.Instrument(wasmtest.Counter(), report, instrument.DefaultOptions()); err == nil {
		t.Error("rewritten with the report of another module")
	}
	bad := wasmtest.Plugin(wasmtest.Code(0xfe, 0))
	refused, _ := scan.Scan(bad, scan.DefaultLimits())
	if _, err := instrument.Instrument(bad, refused, instrument.DefaultOptions()); err == nil {
		t.Error("rewrote a module that the scan refused")
	}
	reserved := wasmtest.Base()
	reserved.Export(instrument.FuelExport, wasmtest.Function, 0)
	report, violations := scan.Structure(reserved.Bytes(), scan.DefaultLimits())
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	if _, err := instrument.Instrument(reserved.Bytes(), report, instrument.DefaultOptions()); err == nil {
		t.Error("rewrote a module with an export of a reserved name")
	}
}

// Every memory and table gets a maximum, and keeps a lower one of its own.
func TestMaximums(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ declared, want int64 }{{-1, 20}, {500, 20}, {5, 5}, {20, 20}} {
		b := &wasmtest.Builder{}
		b.Type(nil, nil)
		b.Memory(2, c.declared)
		b.Table(2, c.declared)
		report, violations := scan.Structure(b.Bytes(), scan.DefaultLimits())
		if len(violations) > 0 {
			t.Fatal(violations)
		}
		o := instrument.DefaultOptions()
		o.MemoryPages, o.TableEntries = 20, 20
		out, err := instrument.Instrument(b.Bytes(), report, o)
		if err != nil {
			t.Fatal(err)
		}
		after, _ := scan.Structure(out.Bytes, scan.DefaultLimits())
		if m, table := after.Memories[0], after.Tables[0]; !m.HasMax || int64(m.Max) != c.want || m.Min != 2 || !table.HasMax || int64(table.Max) != c.want || table.Min != 2 {
			t.Errorf("a maximum of %d becomes %+v and %+v, want %d", c.declared, m, table, c.want)
		}
	}
}

// Names of functions follow them to their new indexes; a damaged name section is left out.
func TestNames(t *testing.T) {
	t.Parallel()
	name := func(content ...byte) []byte {
		b := &wasmtest.Builder{}
		b.Type(nil, nil)
		b.ImportFunction("env", "f", 0)
		b.Function(0, nil, wasmtest.End)
		b.Custom("other", []byte("dropped"))
		b.Custom("name", content)
		report, violations := scan.Structure(b.Bytes(), scan.DefaultLimits())
		if len(violations) > 0 {
			t.Fatal(violations)
		}
		out, err := instrument.Instrument(b.Bytes(), report, instrument.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		return out.Bytes
	}
	if got, want := name(0, 2, 1, 'm', 1, 7, 2, 0, 1, 'a', 1, 1, 'b'), wasmtest.Section(0, append(wasmtest.Name("name"), 1, 7, 2, 0, 1, 'a', 2, 1, 'b')); !bytes.HasSuffix(got, want) {
		t.Errorf("the module ends with % x, want % x", got[len(got)-20:], want)
	}
	for _, damaged := range [][]byte{{1, 7, 2, 0, 1, 'a', 9, 1, 'b'}, {1, 7, 2, 1, 1, 'a', 1, 1, 'b'}, {1, 99}, {1, 4, 1, 0, 9, 'a'}, {}} {
		if got := name(damaged...); bytes.Contains(got, []byte("name")) || bytes.Contains(got, []byte("dropped")) {
			t.Errorf("the name section % x is kept: % x", damaged, got)
		}
	}
}
