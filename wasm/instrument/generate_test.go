package instrument_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// generator writes valid modules of structured code that end: every loop and function counts down global 0 and traps at zero.
type generator struct {
	*rand.Rand
	signatures [][2][]byte // of the functions, by index
	function   int
	locals     []byte
	targets    []bool // by depth from outside: whether a branch there carries nothing
	size       int    // statements left
}

var numbers = []byte{wasmtest.I32, wasmtest.I64}

func generate(seed uint64) []byte {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	b := &wasmtest.Builder{}
	functions := 2 + g.IntN(5)
	for range functions {
		signature := [2][]byte{g.someTypes(4), g.someTypes(4)}
		g.signatures = append(g.signatures, signature)
		b.Type(signature[0], signature[1])
	}
	b.Memory(1, int64(1+g.IntN(3)))
	b.Table(uint32(functions), -1)
	b.Global(wasmtest.I32, true, wasmtest.ConstI32(2_000))
	b.Global(wasmtest.I64, true, wasmtest.ConstI64(7))
	indexes := []uint32{}
	for i := range functions {
		g.function, g.size = i, 6+g.IntN(25)
		own := append(g.someTypes(4), wasmtest.I32)
		g.locals = slices.Concat(g.signatures[i][0], own)
		g.targets = []bool{len(g.signatures[i][1]) == 0}
		b.Function(uint32(i), own, g.countdown(), g.statements(), g.values(g.signatures[i][1], 2), wasmtest.End)
		b.Export(fmt.Sprint("f", i), wasmtest.Function, uint32(i))
		indexes = append(indexes, uint32(i))
	}
	b.Elements(0, indexes...)
	b.Export("memory", wasmtest.Memory, 0)
	b.Export("steps", wasmtest.Global, 0)
	b.Export("sum", wasmtest.Global, 1)
	return b.Bytes()
}

func (g *generator) someTypes(below int) []byte {
	types := make([]byte, g.IntN(below))
	for i := range types {
		types[i] = numbers[g.IntN(2)]
	}
	return types
}

func (g *generator) countdown() []byte {
	return wasmtest.Code(0x23, 0, 0x41, 1, 0x6b, 0x24, 0, 0x23, 0, 0x45, 0x04, wasmtest.Empty, 0x00, wasmtest.End)
}

// statements is code that takes and leaves nothing.
func (g *generator) statements() (c []byte) {
	for n := g.IntN(5); n >= 0 && g.size > 0; n-- {
		g.size--
		c = append(c, g.statement()...)
	}
	return c
}

func (g *generator) inside(open byte, results []byte, carries bool, c ...any) []byte {
	typ := wasmtest.Empty
	if len(results) > 0 {
		typ = results[0]
	}
	g.targets = append(g.targets, !carries)
	body := g.statements()
	if len(results) > 0 {
		body = append(body, g.values(results, 2)...)
	}
	g.targets = g.targets[:len(g.targets)-1]
	return wasmtest.Code(wasmtest.Code(c...), open, typ, body)
}

func (g *generator) statement() []byte {
	switch g.IntN(14) {
	case 0:
		return append(g.inside(0x02, nil, false), wasmtest.End)
	case 1: // a loop that may go round again
		g.targets = append(g.targets, true)
		c := wasmtest.Code(0x03, wasmtest.Empty, g.countdown(), g.statements(), g.value(wasmtest.I32, 2), 0x0d, 0, wasmtest.End)
		g.targets = g.targets[:len(g.targets)-1]
		return c
	case 2:
		c := g.inside(0x04, nil, false, g.value(wasmtest.I32, 2))
		if g.IntN(2) == 0 {
			g.targets = append(g.targets, true)
			c = append(append(c, 0x05), g.statements()...)
			g.targets = g.targets[:len(g.targets)-1]
		}
		return append(c, wasmtest.End)
	case 3: // a block with a result, into a local
		typ := numbers[g.IntN(2)]
		return wasmtest.Code(g.inside(0x02, []byte{typ}, true), wasmtest.End, g.consume(typ))
	case 4:
		if depth, ok := g.target(); ok {
			return wasmtest.Code(g.value(wasmtest.I32, 2), wasmtest.Op(0x0d, depth))
		}
	case 5: // leave, in an if
		if g.IntN(3) == 0 {
			return wasmtest.Code(g.value(wasmtest.I32, 2), 0x04, wasmtest.Empty, g.values(g.signatures[g.function][1], 1), 0x0f, wasmtest.End)
		}
	case 6:
		return g.switchOver()
	case 7:
		return g.callOne()
	case 8:
		return wasmtest.Code(g.address(), g.value(wasmtest.I64, 2), 0x37, 3, 8)
	case 9:
		return wasmtest.Code(0x23, 1, g.value(wasmtest.I64, 2), 0x7c, 0x24, 1)
	case 10: // memory.fill or memory.copy
		if g.IntN(2) == 0 {
			return wasmtest.Code(g.address(), g.value(wasmtest.I32, 1), wasmtest.ConstI32(int32(g.IntN(300))), 0xfc, 11, 0)
		}
		return wasmtest.Code(g.address(), g.address(), wasmtest.ConstI32(int32(g.IntN(300))), 0xfc, 10, 0, 0)
	case 11:
		return wasmtest.Code(0x41, g.IntN(3), 0x40, 0, g.consume(wasmtest.I32))
	case 12:
		if depth, ok := g.target(); ok && g.IntN(3) == 0 { // code behind it cannot be reached
			return wasmtest.Code(0x02, wasmtest.Empty, wasmtest.Op(0x0c, depth+1), g.value(wasmtest.I32, 1), 0x1a, g.deadCode(), wasmtest.End)
		}
	}
	typ := numbers[g.IntN(2)]
	return wasmtest.Code(g.value(typ, 3), g.consume(typ))
}

// deadCode is code that is valid and never runs: with loops, calls and bulk operations, which the rewriter must not choke on.
func (g *generator) deadCode() []byte {
	return wasmtest.Code(0x03, wasmtest.Empty, 0x0b, 0x41, 0, 0x41, 0, 0x41, 1, 0xfc, 11, 0, g.callOne(), 0x02, wasmtest.Empty, 0x0c, 0, 0x0b)
}

// target is the depth of an open block that a branch may go to with nothing on the stack.
func (g *generator) target() (uint32, bool) {
	n := len(g.targets)
	first := g.IntN(n)
	for i := range n {
		if depth := (first + i) % n; g.targets[n-1-depth] {
			return uint32(depth), true
		}
	}
	return 0, false
}

func (g *generator) switchOver() []byte {
	n := 1 + g.IntN(4)
	c := []byte{}
	for range n + 1 {
		c = append(c, 0x02, wasmtest.Empty)
		g.targets = append(g.targets, true)
	}
	targets := make([]byte, n+1)
	for i := range targets {
		targets[i] = byte(g.IntN(n + 1))
	}
	c = append(c, wasmtest.Code(g.value(wasmtest.I32, 1), 0x0e, n, targets)...)
	for range n + 1 {
		c = append(c, wasmtest.End)
		g.targets = g.targets[:len(g.targets)-1]
		c = append(c, g.statements()...)
	}
	return c
}

func (g *generator) callOne() []byte {
	callee := g.IntN(len(g.signatures)) // itself too: the countdown ends it
	signature := g.signatures[callee]
	c := g.values(signature[0], 1)
	if g.IntN(3) == 0 {
		c = append(c, wasmtest.Code(0x41, g.IntN(len(g.signatures)+1), 0x11, callee, 0)...) // may trap: another signature
	} else {
		c = append(c, 0x10, byte(callee))
	}
	for _, typ := range slices.Backward(signature[1]) {
		c = append(c, g.consume(typ)...)
	}
	return c
}

// consume takes one value from the stack, into a local of its type if there is one.
func (g *generator) consume(typ byte) []byte {
	if i := g.local(typ); i >= 0 && g.IntN(4) > 0 {
		return []byte{0x21, byte(i)}
	}
	return []byte{0x1a}
}

func (g *generator) local(typ byte) int {
	n := len(g.locals)
	first := g.IntN(n)
	for i := range n {
		if at := (first + i) % n; g.locals[at] == typ {
			return at
		}
	}
	return -1
}

func (g *generator) address() []byte {
	return wasmtest.Code(g.value(wasmtest.I32, 1), wasmtest.ConstI32(0x1fff8), 0x71)
}

func (g *generator) values(types []byte, depth int) (c []byte) {
	for _, typ := range types {
		c = append(c, g.value(typ, depth)...)
	}
	return c
}

// value is an expression of this type.
func (g *generator) value(typ byte, depth int) []byte {
	if i := g.local(typ); depth == 0 || i >= 0 && g.IntN(3) == 0 {
		switch {
		case i >= 0 && g.IntN(4) > 0:
			return []byte{0x20, byte(i)}
		case typ == wasmtest.I32:
			return wasmtest.ConstI32(int32(g.IntN(9) - 2))
		}
		return wasmtest.ConstI64(int64(g.IntN(1000)) - 100)
	}
	if typ == wasmtest.I32 {
		switch g.IntN(6) {
		case 0:
			return wasmtest.Code(g.value(wasmtest.I64, depth-1), 0xa7)
		case 1:
			return wasmtest.Code(g.value(wasmtest.I64, depth-1), 0x50)
		case 2:
			return []byte{0x3f, 0}
		case 3: // a division, which may trap
			return wasmtest.Code(g.value(typ, depth-1), g.value(typ, depth-1), 0x6d+g.IntN(4))
		}
		return wasmtest.Code(g.value(typ, depth-1), g.value(typ, depth-1), 0x6a+g.IntN(3))
	}
	switch g.IntN(5) {
	case 0:
		return wasmtest.Code(g.value(wasmtest.I32, depth-1), 0xac)
	case 1:
		return wasmtest.Code(g.address(), 0x29, 3, 0)
	case 2:
		return wasmtest.Code(g.value(typ, depth-1), g.value(typ, depth-1), g.value(wasmtest.I32, depth-1), 0x1b)
	}
	return wasmtest.Code(g.value(typ, depth-1), g.value(typ, depth-1), 0x7c+g.IntN(3))
}

// Generated modules do the same rewritten as unchanged: results or a trap, the memory and the globals afterwards.
func TestGeneratedModules(t *testing.T) {
	t.Parallel()
	const modules = 300
	calls, traps := 0, 0
	for seed := range uint64(modules) {
		c, trapped := compareGenerated(t, seed)
		calls, traps = calls+c, traps+trapped
	}
	t.Logf("%d modules, %d calls, %d trapped", modules, calls, traps)
	if traps == 0 || traps > calls*9/10 {
		t.Errorf("%d of %d calls trapped: the generator is of no use", traps, calls)
	}
}

func compareGenerated(t *testing.T, seed uint64) (calls, traps int) {
	t.Helper()
	module := generate(seed)
	report, violations := scan.Structure(module, scan.DefaultLimits())
	if len(violations) > 0 {
		t.Fatalf("seed %d: the scan refuses a generated module: %v", seed, violations)
	}
	o := wide()
	o.MemoryPages = 3
	changed, err := instrument.Instrument(module, report, o)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	ctx, r := newRuntime(t)
	if _, err := r.NewHostModuleBuilder(scan.HostModule).NewFunctionBuilder().WithFunc(func(context.Context) {}).Export(scan.TickImport).Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	sides := [2]*side{{runtime: r}, {runtime: r}}
	for i, m := range [][]byte{module, changed.Bytes} {
		if err := sides[i].load("", m); err != nil {
			t.Fatalf("seed %d: side %d: %v", seed, i, err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 2))
	for range 3 {
		for i := range report.Functions {
			args := make([]uint64, len(report.FunctionType(uint32(i)).Params))
			for n, typ := range report.FunctionType(uint32(i)).Params {
				if args[n] = uint64(random.IntN(12)); typ == wasmtest.I32 && random.IntN(8) == 0 {
					args[n] = 0xffffffff
				}
			}
			var results [2][]uint64
			var failed [2]error
			for n, s := range sides {
				s.current.ExportedGlobal("steps").(api.MutableGlobal).Set(2_000)
				results[n], failed[n] = s.call("", fmt.Sprint("f", i), args)
			}
			calls++
			if failed[0] != nil {
				traps++
			}
			if (failed[0] == nil) != (failed[1] == nil) || !slices.Equal(results[0], results[1]) || state(t, sides[0].current) != state(t, sides[1].current) {
				t.Fatalf("seed %d: f%d%v unchanged gives %v, %v; rewritten %v, %v; state equal: %v", seed, i, args, results[0], failed[0], results[1], failed[1],
					state(t, sides[0].current) == state(t, sides[1].current))
			}
			// A countdown is seven instructions that cost something, so the fuel has a lower bound that the rewriter cannot see.
			steps := 2_000 - int64(int32(sides[1].current.ExportedGlobal("steps").Get()))
			used := 1<<40 - int64(sides[1].current.ExportedGlobal(instrument.FuelExport).Get()) - int64(sides[1].current.ExportedGlobal(instrument.SliceExport).Get())
			if failed[1] == nil && used < 7*steps {
				t.Fatalf("seed %d: f%d used %d units for %d countdowns, want at least 7 for each", seed, i, used, steps)
			}
			if left := int64(sides[1].current.ExportedGlobal(instrument.DepthExport).Get()); failed[1] == nil && left != o.Depth {
				t.Fatalf("seed %d: f%d leaves the depth at %d, want %d", seed, i, left, o.Depth)
			}
		}
	}
	return calls, traps
}

// state is the memory and the globals of a generated module.
func state(t *testing.T, m api.Module) string {
	t.Helper()
	memory, ok := m.Memory().Read(0, m.Memory().Size())
	if !ok {
		t.Fatal("the memory cannot be read")
	}
	return fmt.Sprint(len(memory), m.ExportedGlobal("steps").Get(), m.ExportedGlobal("sum").Get()) + string(bytes.TrimRight(memory, "\x00"))
}

// Every module that the scan accepts is rewritten to one that the scan can read again, the same one every time. A module that
// the engine refuses is still refused.
func FuzzInstrument(f *testing.F) {
	for _, h := range wasmtest.Corpus() {
		if module := h.Build(); len(module) < 4<<10 {
			f.Add(module)
		}
	}
	for seed := range uint64(20) {
		f.Add(generate(seed))
	}
	f.Add(wasmtest.Scorer())
	f.Add([]byte(wasmtest.Header + "\x00\x05\x04abcd")) // found by fuzzing: an empty custom section
	ctx, r := newRuntime(f)
	f.Fuzz(func(t *testing.T, module []byte) {
		report, violations := scan.Structure(module, scan.DefaultLimits())
		if len(violations) > 0 {
			return
		}
		o := instrument.DefaultOptions()
		out, err := instrument.Instrument(module, report, o)
		if err != nil {
			for _, e := range report.Exports {
				if len(e.Name) > len(scan.ReservedPrefix) && e.Name[:len(scan.ReservedPrefix)] == scan.ReservedPrefix {
					return
				}
			}
			t.Fatal(err)
		}
		again, err := instrument.Instrument(module, report, o)
		if err != nil || !bytes.Equal(out.Bytes, again.Bytes) {
			t.Fatalf("rewriting twice gives two modules (%v)", err)
		}
		loose := scan.Ceilings()
		if _, violations := scan.Structure(out.Bytes, loose); len(violations) > 0 {
			t.Fatalf("the rewritten module does not pass the scan: %v", violations)
		}
		// The engine cannot read an empty custom section at the end of a module. The rewriter leaves such sections out, so that
		// the engine takes modules that it refused: harmless, since these sections have no meaning.
		if report.CompileCost > 100_000 || slices.ContainsFunc(report.Sections, func(s scan.Section) bool { return s.ID == 0 }) {
			return
		}
		plain, errPlain := r.CompileModule(ctx, module)
		changed, errChanged := r.CompileModule(ctx, out.Bytes)
		if (errPlain == nil) != (errChanged == nil) {
			t.Fatalf("unchanged compiles with %v, rewritten with %v", errPlain, errChanged)
		}
		for _, m := range []wazero.CompiledModule{plain, changed} {
			if m != nil {
				_ = m.Close(ctx)
			}
		}
	})
}
