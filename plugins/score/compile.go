package score

import (
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
)

// The module's memory: the strings of the formula from textsAt on, and behind them the memory that quern_alloc gives out.
const (
	pageSize = 64 << 10
	textsAt  = 16 // 0 is no address
)

// The function types of the module, by index.
const (
	typeInit   = iota // (i32, i32) -> i32
	typeOne           // (i32) -> i32
	typeNone          // () -> ()
	typeIntern        // (i32, i32, i32) -> i32
)

// heap is the global with the address of the next free byte; those behind it hold the ids of the formula's strings.
const heap = 0

// Compile makes a module that scores as the formula says, and returns the columns of its batches, in order: those of
// strategy.Expression.Columns, under the names and with the types of the plugin interface. The same formula always gives the
// same bytes.
//
// The module imports quern_v1.intern if the formula has strings, and nothing otherwise. It keeps no state from batch to batch
// and allocates only when it is started.
func Compile(e *strategy.Expression) (module []byte, columns []abi.Column) {
	g := &generator{expression: e}
	for _, c := range e.Columns() {
		g.columns = append(g.columns, column(c))
	}
	g.collect(e.Root())
	return g.module(), g.columns
}

// column is a column of the language as the plugin interface has it.
func column(c strategy.Column) abi.Column {
	switch c.Property {
	case strategy.ContextInt:
		return abi.Context(c.Key, abi.I64)
	case strategy.ContextString:
		return abi.Context(c.Key, abi.Str)
	}
	name := columnNames[c.Property]
	if c.Key != "" {
		name += ":" + c.Key
	}
	found, ok := abi.Candidate(name)
	if !ok {
		panic(fmt.Sprintf("score: the plugin interface has no column %s", name))
	}
	return found
}

var columnNames = map[strategy.Property]string{
	strategy.ID:                 "submission_id",
	strategy.Index:              "index",
	strategy.Priority:           "priority",
	strategy.Age:                "age_ms",
	strategy.Attempts:           "attempts",
	strategy.MaxAttempts:        "max_attempts",
	strategy.Available:          "available",
	strategy.Total:              "total",
	strategy.Skipped:            "skipped",
	strategy.MetaInt:            "meta_i64",
	strategy.MetaString:         "meta_str",
	strategy.InFlight:           "inflight",
	strategy.InFlightSubmission: "inflight_submission",
	strategy.LimitOf:            "limit",
}

// generator is one compilation.
type generator struct {
	expression *strategy.Expression
	columns    []abi.Column
	texts      []string // the strings of the formula, each once
	offsets    []uint32 // of each of them in the memory
	end        uint32   // behind the last of them

	locals []byte // the types of quern_score's locals behind its parameter
	places []place
	words  []uint32 // the locals with the ids of texts
}

// collect finds the strings of the formula.
func (g *generator) collect(t *strategy.Term) {
	if t.Op == strategy.OpText && g.text(t.Text) < 0 {
		g.texts = append(g.texts, t.Text)
	}
	for _, inner := range t.Terms {
		g.collect(inner)
	}
}

// text is the number of a string, -1 when it is not known yet.
func (g *generator) text(text string) int {
	return slices.Index(g.texts, text)
}

func (g *generator) module() []byte {
	g.end = textsAt
	var data code
	for _, text := range g.texts {
		g.offsets = append(g.offsets, g.end)
		data = append(data, text...)
		g.end += uint32(len(text))
	}
	functions := []function{
		{abi.ExportMarker, typeNone, code{0, opEnd}},
		{abi.ExportAlloc, typeOne, g.alloc()},
		{abi.ExportScore, typeOne, g.score()},
	}
	if len(g.texts) > 0 {
		functions = append(functions, function{abi.ExportInit, typeInit, g.start()})
	}
	return g.assemble(functions, data)
}

type function struct {
	export string
	typ    byte
	body   code // locals and instructions
}

// assemble writes the sections in their order.
func (g *generator) assemble(functions []function, data code) []byte {
	m := code("\x00asm\x01\x00\x00\x00")
	m.section(1,
		code{0x60, 2, typeI32, typeI32, 1, typeI32},
		code{0x60, 1, typeI32, 1, typeI32},
		code{0x60, 0, 0},
		code{0x60, 3, typeI32, typeI32, typeI32, 1, typeI32})
	imported := uint32(0)
	if len(g.texts) > 0 {
		imported = 1
		m.section(2, append(append(name(abi.HostModule), name("intern")...), 0, typeIntern))
	}
	var types, exports, bodies []code
	for i, f := range functions {
		types = append(types, code{f.typ})
		export := append(name(f.export), 0)
		export.unsigned(imported + uint32(i))
		exports = append(exports, export)
		var body code
		body.sized(f.body)
		bodies = append(bodies, body)
	}
	m.section(3, types...)
	m.section(5, g.memorySize())
	m.section(6, g.globals()...)
	m.section(7, append(exports, append(name(abi.ExportMemory), 2, 0))...)
	m.section(10, bodies...)
	if len(data) > 0 {
		segment := code{0}
		segment.i32(textsAt)
		segment.op(opEnd)
		segment.sized(data)
		m.section(11, segment)
	}
	return m
}

// memorySize starts with the room for the strings, and bounds the memory to the need of the largest batch.
func (g *generator) memorySize() (limits code) {
	layout, err := abi.NewLayout(g.columns, abi.MaxCapacity)
	if err != nil {
		panic(fmt.Sprintf("score: the columns of a formula have no layout: %v", err)) // at most strategy.MaxColumns, of known types
	}
	most := g.end + abi.MaxConfigBytes + layout.Size + 4*abi.Align
	limits.op(1)
	limits.unsigned(pages(g.end))
	limits.unsigned(pages(most))
	return limits
}

func pages(bytes uint32) uint32 { return (bytes + pageSize - 1) / pageSize }

func (g *generator) globals() []code {
	list := make([]code, 1+len(g.texts))
	for i := range list {
		list[i].op(typeI32, 1)
		list[i].i32(0)
		if i == heap {
			list[i] = list[i][:2]
			list[i].i32(int32(g.end))
		}
		list[i].op(opEnd)
	}
	return list
}

// alloc is quern_alloc: it gives out the memory from its beginning, aligned, and never takes any back.
//
//	at = (heap + 15) &^ 15; heap = at + size
//	if heap < at { return 0 }
//	need = ((heap - 1) >> 16) + 1
//	if need > memory.size && memory.grow(need - memory.size) == -1 { return 0 }
//	return at
func (g *generator) alloc() (c code) {
	const size, at, need = 0, 1, 2
	c.op(1, 2, typeI32)
	c.with(opGlobalGet, heap)
	c.i32(abi.Align - 1)
	c.op(opI32Add)
	c.i32(-abi.Align)
	c.op(opI32And)
	c.with(opLocalTee, at)
	c.with(opLocalGet, size)
	c.op(opI32Add)
	c.with(opGlobalSet, heap)
	c.with(opLocalGet, at)
	c.with(opGlobalGet, heap)
	c.op(opI32GtU, opIf, typeEmpty)
	c.i32(0)
	c.op(opReturn, opEnd)
	c.with(opGlobalGet, heap)
	c.i32(1)
	c.op(opI32Sub)
	c.i32(16)
	c.op(opI32ShrU)
	c.i32(1)
	c.op(opI32Add)
	c.with(opLocalTee, need)
	c.op(opMemorySize, 0, opI32GtU, opIf, typeEmpty)
	c.with(opLocalGet, need)
	c.op(opMemorySize, 0, opI32Sub, opMemoryGrow, 0)
	c.i32(-1)
	c.op(opI32Eq, opIf, typeEmpty)
	c.i32(0)
	c.op(opReturn, opEnd, opEnd)
	c.with(opLocalGet, at)
	c.op(opEnd)
	return c
}

// start is quern_init: it asks for the ids of the formula's strings, and fails when the host has no room for one.
func (g *generator) start() (c code) {
	c.op(0)
	column := 0
	for g.columns[column].Type != abi.Str {
		column++
	}
	for i, text := range g.texts {
		c.i32(int32(column))
		c.i32(int32(g.offsets[i]))
		c.i32(int32(len(text)))
		c.with(opCall, 0)
		c.with(opGlobalSet, uint32(heap+1+i))
		c.with(opGlobalGet, uint32(heap+1+i))
		c.op(opI32Eqz, opIf, typeEmpty)
		c.i32(1)
		c.op(opReturn, opEnd)
	}
	c.i32(0)
	c.op(opEnd)
	return c
}
