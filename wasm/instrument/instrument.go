// Package instrument rewrites a scanned WebAssembly module so that it cannot run for ever, recurse without end or grow beyond
// its limits. The engine offers no such thing that holds: its own check leaves the module at every loop, costs a factor of four,
// and still lets a tree of calls without loops run on. Counting inside of the module costs some per cent and stops all of them.
//
// Added to every rewritten module:
//
//   - fuel: each straight piece of code subtracts what it costs before it runs. A loop and a function check at their head whether
//     there is any left. While a function runs, its fuel is in a local, which the compiler keeps in a register; around calls and
//     at the end it is written to the global SliceExport.
//   - slices: fuel is handed out in slices of Options.Slice units. At the end of each the import quern_v1.tick is called, where
//     the host may look at its clock, and where the rest of the process may stop the world. The fuel that is not yet in a slice is
//     in the global FuelExport. When that is used up too it is set below zero and the module traps.
//   - depth: functions that call others count how many of them are open, downwards in the global DepthExport. When it falls below
//     zero the module traps.
//   - the maximum size of the memory and of every table.
//   - exports of the module's own mutable globals, so that the host can bring an instance back to an earlier state.
//
// A trap with FuelExport and DepthExport at or above zero is the guest's own. After any trap the counters are void: discard the
// instance, or set all three again.
//
//quern:tests pure
package instrument

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/scan/decode"
)

// Version changes whenever the same module is rewritten into other bytes. It belongs into the key of everything that is kept of
// a rewritten module.
const Version = 2

// The exports that every rewritten module has: mutable globals of type i64.
const (
	FuelExport  = scan.ReservedPrefix + "fuel"  // units not yet handed out; below 0 after a trap for want of fuel
	SliceExport = scan.ReservedPrefix + "slice" // units left of the current slice
	DepthExport = scan.ReservedPrefix + "depth" // calls that may still be opened; below 0 after a trap for depth

	globalExport = scan.ReservedPrefix + "global_" // and the index of a mutable global of the guest
)

// Options are the limits of the rewritten module.
type Options struct {
	Slice        int64  // units of fuel between two calls of quern_v1.tick, 1 to 1<<40
	Depth        int64  // calls open at once of functions that call others, 1 to 100,000
	MemoryPages  uint32 // the memory never has more pages of 64 KiB, 1 to 65,536
	TableEntries uint32 // no table ever has more entries, at least 1
}

// DefaultOptions: a slice is some 70 microseconds, and about a millisecond of instructions that all wait for memory, by which a
// deadline may be missed; the rest is as in scan.DefaultLimits.
func DefaultOptions() Options {
	limits := scan.DefaultLimits()
	return Options{Slice: 200_000, Depth: 1_000, MemoryPages: uint32(limits.MemoryPages), TableEntries: uint32(limits.TableEntries)}
}

func (o Options) check() error {
	switch {
	case o.Slice < 1 || o.Slice > 1<<40:
		return fmt.Errorf("instrument: slice is %d; set it between 1 and 1<<40", o.Slice)
	case o.Depth < 1 || o.Depth > 100_000:
		return fmt.Errorf("instrument: depth is %d; set it between 1 and 100,000", o.Depth)
	case o.MemoryPages < 1 || o.MemoryPages > 65_536:
		return fmt.Errorf("instrument: memory pages are %d; set them between 1 and 65,536", o.MemoryPages)
	case o.TableEntries < 1:
		return errors.New("instrument: table entries are 0; set them to 1 or more")
	}
	return nil
}

// Arm splits a budget of fuel into the values to set FuelExport and SliceExport to before a call: the first slice is handed out at
// once, so that a short call never ticks. A call used the budget less the sum of both afterwards.
func (o Options) Arm(budget int64) (fuel, slice int64) {
	slice = min(max(budget, 0), o.Slice)
	return max(budget, 0) - slice, slice
}

// State is a mutable global of the guest, exported so that it can be saved and restored.
type State struct {
	Export string
	Type   byte // value type of the format: 0x7f i32, 0x7e i64, 0x7d f32, 0x7c f64
}

// Module is a rewritten module.
type Module struct {
	Bytes []byte
	// Globals are the guest's own mutable globals that hold numbers. With a copy of the memory they are all the state there is,
	// unless scan.Report.HiddenState says that there is more.
	Globals []State
}

// Instrument rewrites module. report must be its report, without violations. The same input always gives the same bytes.
func Instrument(module []byte, report *scan.Report, o Options) (*Module, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := report.Accepts(module); err != nil {
		return nil, fmt.Errorf("instrument: %w", err)
	}
	for _, e := range report.Exports {
		if strings.HasPrefix(e.Name, scan.ReservedPrefix) {
			return nil, fmt.Errorf("instrument: the export %q is reserved", e.Name)
		}
	}
	return newRewriter(module, report, o).module()
}

// rewriter holds where everything that is added will be.
type rewriter struct {
	in      []byte
	report  *scan.Report
	options Options

	tick, refill       uint32 // function indexes in the output
	fuel, slice, depth uint32 // global indexes
	tickType           uint32
	refillType         uint32
	resultTypes        map[string]uint32 // for functions with several results: the type of a block that gives them
	addedTypes         [][]byte          // the results of those, in the order of their indexes
	state              []State
	body               body // reused from function to function
}

func newRewriter(module []byte, report *scan.Report, o Options) *rewriter {
	w := &rewriter{in: module, report: report, options: o, resultTypes: map[string]uint32{}}
	w.tick = uint32(report.ImportedFunctions)
	w.refill = uint32(len(report.Functions)) + 1
	w.fuel = uint32(len(report.Globals))
	w.slice, w.depth = w.fuel+1, w.fuel+2
	w.tickType = uint32(len(report.Types))
	w.refillType = w.tickType + 1
	for _, index := range report.Functions[report.ImportedFunctions:] {
		results := report.Types[index].Results
		if _, there := w.resultTypes[string(results)]; len(results) > 1 && !there {
			w.resultTypes[string(results)] = w.refillType + 1 + uint32(len(w.addedTypes))
			w.addedTypes = append(w.addedTypes, results)
		}
	}
	return w
}

// function is the index that a function of the input has in the output: the tick is imported behind the other imports.
func (w *rewriter) function(index uint32) uint32 {
	if index < w.tick {
		return index
	}
	return index + 1
}

// module writes the sections in the order of the format. All that the rewriting needs is there even if the input has no such
// section; custom sections are left out, but for the names of functions, which traps are reported with.
func (w *rewriter) module() (*Module, error) {
	out := append(make(code, 0, len(w.in)+len(w.in)/2+256), w.in[:8]...)
	for _, id := range []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11} {
		r := decode.NewReader(nil)
		present := false
		for _, section := range w.report.Sections {
			if section.ID == id {
				r, present = decode.Range(w.in, section.Start, section.End), true
			}
		}
		var content code
		switch id {
		case 1:
			content = w.types(r, present)
		case 2:
			content = w.imports(r, present)
		case 3:
			content = w.functions(r, present)
		case 6:
			content = w.globals(r, present)
		case 7:
			content = w.exports()
		case 10:
			content = w.code(r, present)
		default:
			if !present {
				continue
			}
			content = w.section(id, r)
		}
		if err := r.Err(); present && err != nil {
			return nil, err // cannot be, of a module that the scan accepted
		}
		out.section(id, content)
	}
	out.raw(w.names())
	return &Module{Bytes: out, Globals: w.state}, nil
}

// section rewrites the sections that are only there if the input has them.
func (w *rewriter) section(id byte, r *decode.Reader) (c code) {
	switch id {
	case 4:
		own := w.report.Tables[w.report.ImportedTables:]
		c.unsigned(uint64(len(own)))
		for _, t := range own {
			c.op(t.Type)
			c.limits(t.Min, t.Max, t.HasMax, w.options.TableEntries)
		}
	case 5:
		own := w.report.Memories[w.report.ImportedMemories:]
		c.unsigned(uint64(len(own)))
		for _, m := range own {
			c.limits(m.Min, m.Max, m.HasMax, w.options.MemoryPages)
		}
	case 8:
		c.unsigned(uint64(w.function(r.U32())))
	case 9:
		c = w.elements(r)
	default:
		c.raw(r.Bytes(uint32(r.Len())))
	}
	return c
}

// limits writes limits with a maximum, which is the declared one or ours, whichever is lower, and never below the minimum.
func (c *code) limits(least, most uint32, hasMost bool, ours uint32) {
	if !hasMost || most > ours {
		most = max(ours, least)
	}
	c.op(1)
	c.unsigned(uint64(least))
	c.unsigned(uint64(most))
}

// extended copies the entries of a section and leaves room for more: the count comes first.
func extended(r *decode.Reader, present bool, more int) (c code) {
	n := 0
	if present {
		n = int(r.U32())
	}
	c.unsigned(uint64(n + more))
	if present {
		c.raw(r.Bytes(uint32(r.Len())))
	}
	return c
}

func (w *rewriter) types(r *decode.Reader, present bool) code {
	c := extended(r, present, 2+len(w.addedTypes))
	c.raw([]byte{0x60, 0, 0})                         // tick: () -> ()
	c.raw([]byte{0x60, 1, decode.I64, 1, decode.I64}) // refill: (i64) -> (i64)
	for _, results := range w.addedTypes {
		c.raw([]byte{0x60, 0})
		c.unsigned(uint64(len(results)))
		c.raw(results)
	}
	return c
}

func (w *rewriter) imports(r *decode.Reader, present bool) code {
	c := extended(r, present, 1)
	c.name(scan.HostModule)
	c.name(scan.TickImport)
	c.op(byte(scan.KindFunction))
	c.unsigned(uint64(w.tickType))
	return c
}

func (w *rewriter) functions(r *decode.Reader, present bool) code {
	c := extended(r, present, 1)
	c.unsigned(uint64(w.refillType))
	return c
}

func (w *rewriter) globals(r *decode.Reader, present bool) (c code) {
	n := uint32(0)
	if present {
		n = r.U32()
	}
	c.unsigned(uint64(n) + 3)
	for range n {
		c.raw(r.Bytes(2))
		w.constant(&c, r)
	}
	for _, value := range []int64{0, 0, w.options.Depth} {
		c.raw([]byte{decode.I64, 1})
		c.constant(value)
		c.op(byte(decode.End))
	}
	return c
}

// constant copies a constant expression.
func (w *rewriter) constant(c *code, r *decode.Reader) {
	var in decode.Instruction
	for r.Instruction(&in) {
		if in.Op == decode.RefFunc {
			c.indexed(decode.RefFunc, w.function(in.A))
		} else {
			c.raw(w.in[in.Start:in.End])
		}
		if in.Op == decode.End {
			return
		}
	}
}

func (w *rewriter) exports() (c code) {
	type added struct {
		name  string
		index uint32
	}
	more := []added{{FuelExport, w.fuel}, {SliceExport, w.slice}, {DepthExport, w.depth}}
	for i, g := range w.report.Globals {
		numeric := g.Type == decode.I32 || g.Type == decode.I64 || g.Type == decode.F32 || g.Type == decode.F64
		if i >= w.report.ImportedGlobals && g.Mutable && numeric {
			name := globalExport + strconv.Itoa(i)
			more = append(more, added{name, uint32(i)})
			w.state = append(w.state, State{Export: name, Type: g.Type})
		}
	}
	c.unsigned(uint64(len(w.report.Exports) + len(more)))
	for _, e := range w.report.Exports {
		c.name(e.Name)
		c.op(byte(e.Kind))
		if e.Kind == scan.KindFunction {
			c.unsigned(uint64(w.function(e.Index)))
		} else {
			c.unsigned(uint64(e.Index))
		}
	}
	for _, e := range more {
		c.name(e.name)
		c.op(byte(scan.KindGlobal))
		c.unsigned(uint64(e.index))
	}
	return c
}

func (w *rewriter) elements(r *decode.Reader) (c code) {
	n := r.U32()
	c.unsigned(uint64(n))
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		flags := r.U32()
		c.unsigned(uint64(flags))
		if flags&1 == 0 { // active
			if flags&2 != 0 {
				c.unsigned(uint64(r.U32()))
			}
			w.constant(&c, r)
		}
		if flags&3 != 0 {
			c.op(r.Byte())
		}
		entries := r.U32()
		c.unsigned(uint64(entries))
		for j := uint32(0); j < entries && r.Err() == nil; j++ {
			if flags&4 != 0 {
				w.constant(&c, r)
			} else {
				c.unsigned(uint64(w.function(r.U32())))
			}
		}
	}
	return c
}

func (w *rewriter) code(r *decode.Reader, present bool) (c code) {
	n := uint32(0)
	if present {
		n = r.U32()
	}
	c.unsigned(uint64(n) + 1)
	for i := uint32(0); i < n && r.Err() == nil; i++ {
		body := w.rewrite(w.report.FunctionType(uint32(w.report.ImportedFunctions)+i), r.Sub(r.U32()))
		c.unsigned(uint64(len(body)))
		c.raw(body)
	}
	body := w.refillBody()
	c.unsigned(uint64(len(body)))
	c.raw(body)
	return c
}

// Opcodes that the added code uses beside those that package decode names.
const (
	opIf         = byte(decode.If)
	opMemorySize = 0x3f
	opI64LtS     = 0x53
	opI64LtU     = 0x54
	opI64LeS     = 0x57
	opI64Add     = 0x7c
	opI64Sub     = 0x7d
	opI64Or      = 0x84
	opI64Shl     = 0x86
	opI64ShrU    = 0x88
	opExtendU    = 0xad
	emptyResult  = 0x40
)

// code is a growing piece of the output.
type code []byte

func (c *code) op(opcode byte) { *c = append(*c, opcode) }

func (c *code) unsigned(v uint64) { *c = binary.AppendUvarint(*c, v) }

func (c *code) signed(v int64) {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			*c = append(*c, b)
			return
		}
		*c = append(*c, b|0x80)
	}
}

func (c *code) raw(b []byte) { *c = append(*c, b...) }

func (c *code) name(s string) {
	c.unsigned(uint64(len(s)))
	*c = append(*c, s...)
}

// indexed is an instruction with one index behind it.
func (c *code) indexed(opcode decode.Op, index uint32) {
	c.op(byte(opcode))
	c.unsigned(uint64(index))
}

func (c *code) constant(v int64) {
	c.op(byte(decode.I64Const))
	c.signed(v)
}

// section appends a section.
func (c *code) section(id byte, content code) {
	c.op(id)
	c.unsigned(uint64(len(content)))
	c.raw(content)
}

const (
	nameSection       = "name"
	functionNames     = 1 // id of the subsection with the names of functions
	maxNameSubsection = 16
)

// names rewrites the name section: only the names of functions, under their new indexes. A name section that cannot be read
// is left out: it has no meaning for how the module runs.
func (w *rewriter) names() (c code) {
	for _, section := range w.report.Sections {
		if section.ID != 0 || section.Name != nameSection {
			continue
		}
		r := decode.Range(w.in, section.Start, section.End)
		for range maxNameSubsection {
			if r.Len() == 0 {
				break
			}
			id := r.Byte()
			content := r.Sub(r.U32())
			if id != functionNames {
				continue
			}
			names, ok := w.functionNames(content)
			if !ok {
				return nil
			}
			var kept code
			kept.name(nameSection)
			kept.section(functionNames, names)
			c.section(0, kept)
			return c
		}
	}
	return nil
}

func (w *rewriter) functionNames(r *decode.Reader) (c code, ok bool) {
	n := r.Count("names")
	c.unsigned(uint64(n))
	previous := int64(-1)
	for range n {
		index, name := r.U32(), r.Name()
		if r.Err() != nil || int64(index) <= previous || uint64(index) >= uint64(len(w.report.Functions)) {
			return nil, false
		}
		previous = int64(index)
		c.unsigned(uint64(w.function(index)))
		c.name(string(name))
	}
	return c, r.Err() == nil && r.Len() == 0
}
