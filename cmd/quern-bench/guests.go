package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins/score"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/manifest"
)

// guests builds the plugins of the suite. Formulas need nothing; the languages need their toolchain, and a checkout of Quern with their SDK
// and the sources of examples/plugins.
type guests struct {
	checkout string // its root; "" when the suite does not run in one
	dir      string // for the built modules
}

func newGuests(dir string) *guests {
	at, err := os.Getwd()
	for err == nil {
		if text, missing := os.ReadFile(filepath.Join(at, "go.mod")); missing == nil &&
			strings.HasPrefix(string(text), "module github.com/quern-queue/quern\n") {
			return &guests{checkout: at, dir: dir}
		}
		if filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	return &guests{dir: dir}
}

// missing says what a language lacks here, or nothing.
func (g *guests) missing(tools ...string) string {
	if g.checkout == "" {
		return "this is no checkout of Quern"
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed"
		}
	}
	return ""
}

// golang builds one of the example plugins with the plain Go toolchain.
func (g *guests) golang(ctx context.Context, name string) ([]byte, error) {
	out := filepath.Join(g.dir, "go.wasm")
	source := "./" + filepath.ToSlash(filepath.Join("examples", "plugins", name))
	build := exec.CommandContext(ctx, "go", "build", "-buildmode=c-shared", "-o", out, source)
	build.Dir, build.Env = g.checkout, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w: %s", source, err, said)
	}
	list := exec.CommandContext(ctx, "go", "run", source)
	list.Dir = g.checkout
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("printing the manifest of %s: %w", source, err)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	return manifest.Pack(module, text)
}

// c builds the comparison's plugin in C.
func (g *guests) c(ctx context.Context) ([]byte, error) {
	out := filepath.Join(g.dir, "c.wasm")
	build := exec.CommandContext(ctx, "clang", "--target=wasm32", "-std=c11", "-O3", "-msimd128", "-mbulk-memory",
		"-ffreestanding", "-nostdlib",
		"-Isdk/c", "-Wl,--no-entry", "-Wl,-zstack-size=16384", "-o", out, "examples/plugins/compare/c/compare.c")
	build.Dir = g.checkout
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the plugin in C: %w: %s", err, said)
	}
	return os.ReadFile(out)
}

// formula is a small plugin that scores by a formula.
func formula(name, version, text string) ([]byte, error) {
	x, err := strategy.ParseExpression(text)
	if err != nil {
		return nil, err
	}
	module, columns := score.Compile(x)
	return packed(module, name, version, columns)
}

func packed(module []byte, name, version string, columns []abi.Column) ([]byte, error) {
	declared := struct {
		Name    string         `json:"name"`
		Version string         `json:"version"`
		ABI     int            `json:"abi"`
		Columns []string       `json:"columns"`
		Window  map[string]int `json:"window"`
	}{name, version, 1, []string{}, map[string]int{"max": 1024}}
	for _, c := range columns {
		declared.Columns = append(declared.Columns, c.Name)
	}
	text, err := json.Marshal(declared)
	if err != nil {
		return nil, err
	}
	return manifest.Pack(module, text)
}

// hostiles are what a plugin may do instead of scoring, as instructions in front of its work.
func hostiles() map[string][]byte {
	pages := []byte{0x41, 0xc8, 0x01, 0x40, 0, 0x1a} // grow by 200 pages
	const size = "\x41\x80\x80\xa0\x06"              // 200 pages in bytes
	return map[string][]byte{
		"loop":        {0x03, 0x40, 0x0c, 0, 0x0b},
		"recursion":   {0x20, 0, 0x10, 2, 0x1a},
		"exponential": {0x10, 3},
		"grow":        {0x03, 0x40, 0x41, 1, 0x40, 0, 0x1a, 0x0c, 0, 0x0b},
		"fill":        slices.Concat(pages, []byte("\x03\x40\x41\x00\x41\x00"+size+"\xfc\x0b\x00\x0c\x00\x0b")),
		"copy":        slices.Concat(pages, []byte("\x03\x40\x41\x00\x41\x08\x41\xf8\xff\x9f\x06\xfc\x0a\x00\x00\x0c\x00\x0b")),
		// Loads all over 8 MiB, at addresses that each calculates from the one before: such instructions are slow for their charge. Local 1
		// has the address.
		"scattered": slices.Concat(pages, []byte("\x03\x40"+
			"\x20\x01\x41\x8d\xcc\xe5\x00\x6c\x41\xdf\xe6\xbb\xe3\x03\x6a\x22\x01"+ // local 1 = local 1 * 1664525 + 1013904223
			"\x41\xfc\xff\xff\x03\x71\x28\x02\x00\x20\x01\x6a\x21\x01\x0c\x00\x0b")),
		"division": []byte("\x03\x40\x42\x7f\x42\x03\x7f\x42\x03\x7f\x42\x03\x7f\x42\x03\x7f\x42\x03\x7f\x42\x03\x7f\x1a\x0c\x00\x0b"),
	}
}

// hostile is a plugin that scores every candidate with 0 in dry runs, and otherwise does bad first.
func hostile(name string, bad []byte) ([]byte, error) {
	sized := func(content []byte) []byte { return append(number(len(content)), content...) }
	section := func(id byte, entries ...[]byte) []byte {
		return append([]byte{id}, sized(append(number(len(entries)), slices.Concat(entries...)...))...)
	}
	export := func(name string, kind, index byte) []byte { return append(sized([]byte(name)), kind, index) }
	scoring := slices.Concat(
		[]byte{1, 1, 0x7f}, // one local, i32
		[]byte{0x20, 0, 0x28, 2, abi.OffFlags, 0x41, abi.FlagDryRun, 0x71, 0x45, 0x04, 0x40}, bad, []byte{0x0b},
		// scores = 0
		[]byte{0x20, 0, 0x20, 0, 0x28, 2, abi.OffScores, 0x6a, 0x41, 0, 0x20, 0, 0x28, 2, abi.OffRows, 0x41, 3, 0x74, 0xfc, 11, 0},
		[]byte{0x41, 0, 0x0b})
	types, bodies := [][]byte{{0}, {1}, {1}}, [][]byte{sized([]byte{0, 0x0b}), sized([]byte{0, 0x41, 0x80, 8, 0x0b}), sized(scoring)}
	const tree = 60 // functions that call the next one twice each
	for k := range byte(tree) {
		body := []byte{0, 0x10, 4 + k, 0x10, 4 + k, 0x0b}
		if k == tree-1 {
			body = []byte{0, 0x0b}
		}
		types, bodies = append(types, []byte{0}), append(bodies, sized(body))
	}
	module := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte{0x60, 0, 0}, []byte{0x60, 1, 0x7f, 1, 0x7f}), // () -> (), (i32) -> i32
		section(3, types...), section(5, []byte{0, 1}),
		section(7, export(abi.ExportMemory, 2, 0), export(abi.ExportMarker, 0, 0), export(abi.ExportAlloc, 0, 1),
			export(abi.ExportScore, 0, 2)),
		section(10, bodies...))
	return packed(module, name, "1.0.0", nil)
}

// number is a number as the format writes it (unsigned LEB128).
func number(n int) (out []byte) {
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}
