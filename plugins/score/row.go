package score

import (
	"math"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
)

// Locals of quern_score: its parameter, then those that every formula needs.
const (
	localBatch  = iota // where the region begins
	localRows          // rows left
	localWide          // 8 * row
	localNarrow        // 4 * row
	localByte          // row
	localScores        // where the scores begin
	firstLocal         // of the formula
)

// place is where a column is found: in locals.
type place struct {
	values, validity uint32 // addresses of the column's first row
	number           uint32 // f64: the row's value
	whole            uint32 // i64: likewise, exactly; 0 when it is not read
	word             uint32 // i32: the id of the row's string
	present          uint32 // i32: 1 or 0
}

// score is quern_score:
//
//	rows = batch.rows; if rows == 0 { return 0 }
//	find the columns, the scores and the ids of strings; read the context
//	do { read the row's columns; store the formula's value; go on by one } while --rows
//	return 0
func (g *generator) score() code {
	g.locals = []byte{typeI32, typeI32, typeI32, typeI32, typeI32}
	var c code
	c.with(opLocalGet, localBatch)
	c.memory(opI32Load, 2, abi.OffRows)
	c.with(opLocalTee, localRows)
	c.op(opI32Eqz, opIf, typeEmpty)
	c.i32(0)
	c.op(opReturn, opEnd)
	g.address(&c, abi.OffScores, localScores)
	g.findColumns(&c)
	for i := range g.texts {
		local := g.local(typeI32)
		c.with(opGlobalGet, uint32(heap+1+i))
		c.with(opLocalSet, local)
		g.words = append(g.words, local)
	}
	for i := range g.columns {
		if g.columns[i].Single {
			g.read(&c, i)
		}
	}
	c.op(opLoop, typeEmpty)
	c.with(opLocalGet, localScores)
	c.with(opLocalGet, localWide)
	c.op(opI32Add)
	for i := range g.columns {
		if !g.columns[i].Single {
			g.read(&c, i)
		}
	}
	g.number(&c, g.expression.Root())
	c.memory(opF64Store, 3, 0)
	for _, step := range []struct {
		local uint32
		by    int32
	}{{localWide, 8}, {localNarrow, 4}, {localByte, 1}} {
		c.with(opLocalGet, step.local)
		c.i32(step.by)
		c.op(opI32Add)
		c.with(opLocalSet, step.local)
	}
	c.with(opLocalGet, localRows)
	c.i32(1)
	c.op(opI32Sub)
	c.with(opLocalTee, localRows)
	c.with(opBrIf, 0)
	c.op(opEnd)
	c.i32(0)
	c.op(opEnd)

	var body code
	body.unsigned(uint32(len(g.locals)))
	for _, t := range g.locals {
		body.op(1, t)
	}
	return append(body, c...)
}

// local makes a local of quern_score.
func (g *generator) local(typ byte) uint32 {
	g.locals = append(g.locals, typ)
	return uint32(len(g.locals))
}

// address sets a local to the address that the header gives, as a distance from its beginning, at this offset.
func (g *generator) address(c *code, offset, local uint32) {
	c.with(opLocalGet, localBatch)
	c.with(opLocalGet, localBatch)
	c.memory(opI32Load, 2, offset)
	c.op(opI32Add)
	c.with(opLocalSet, local)
}

// findColumns sets the addresses of all columns from their descriptors.
func (g *generator) findColumns(c *code) {
	descriptors := g.local(typeI32)
	g.address(c, abi.OffDescriptors, descriptors)
	find := func(offset uint32) uint32 {
		local := g.local(typeI32)
		c.with(opLocalGet, localBatch)
		c.with(opLocalGet, descriptors)
		c.memory(opI32Load, 2, offset)
		c.op(opI32Add)
		c.with(opLocalSet, local)
		return local
	}
	for i := range g.columns {
		p := place{values: find(uint32(i) * abi.DescriptorSize)}
		if g.columns[i].Type == abi.I64 && g.columns[i].Nullable {
			p.validity = find(uint32(i)*abi.DescriptorSize + 8)
		}
		g.places = append(g.places, p)
	}
}

// read brings what the formula needs of a column's row into locals.
func (g *generator) read(c *code, index int) {
	p, column := &g.places[index], &g.columns[index]
	at := func(base, row uint32) {
		c.with(opLocalGet, base)
		if !column.Single {
			c.with(opLocalGet, row)
			c.op(opI32Add)
		}
	}
	switch column.Type {
	case abi.Str:
		p.word = g.local(typeI32)
		at(p.values, localNarrow)
		c.memory(opI32Load, 2, 0)
		c.with(opLocalSet, p.word)
		return
	case abi.U32:
		p.number = g.local(typeF64)
		at(p.values, localNarrow)
		c.memory(opI32Load, 2, 0)
		c.op(opF64ConvertI32U)
	default:
		p.number = g.local(typeF64)
		at(p.values, localWide)
		c.memory(opI64Load, 3, 0)
		if column.Nullable {
			p.whole = g.local(typeI64)
			c.with(opLocalTee, p.whole)
		}
		c.op(opF64ConvertI64S)
	}
	c.with(opLocalSet, p.number)
	if column.Nullable {
		p.present = g.local(typeI32)
		at(p.validity, localByte)
		c.memory(opI32Load8U, 0, 0)
		c.with(opLocalSet, p.present)
	}
}

// number puts the value of a term, an f64, on the stack.
func (g *generator) number(c *code, t *strategy.Term) {
	switch t.Op {
	case strategy.OpNumber:
		c.f64(t.Number)
	case strategy.OpColumn:
		c.with(opLocalGet, g.places[t.Int].number)
		if t.Number != 1 {
			c.f64(t.Number)
			c.op(opF64Div)
		}
	case strategy.OpValue:
		g.value(c, t)
	case strategy.OpIf:
		g.number(c, t.Terms[1])
		g.number(c, t.Terms[2])
		g.truth(c, t.Terms[0])
		c.op(opSelect)
	case strategy.OpMin, strategy.OpMax:
		g.number(c, t.Terms[0])
		for _, other := range t.Terms[1:] {
			g.number(c, other)
			c.op(numberOps[t.Op])
		}
	case strategy.OpClamp:
		g.number(c, t.Terms[1])
		g.number(c, t.Terms[2])
		g.number(c, t.Terms[0])
		c.op(opF64Min, opF64Max)
	case strategy.OpRemainder:
		g.remainder(c, t)
	default: // one or two numbers and one operation
		for _, inner := range t.Terms {
			g.number(c, inner)
		}
		c.op(numberOps[t.Op])
	}
}

var numberOps = map[strategy.Op]byte{
	strategy.OpNegate: opF64Neg, strategy.OpAdd: opF64Add, strategy.OpSubtract: opF64Sub, strategy.OpMultiply: opF64Mul,
	strategy.OpDivide: opF64Div,
	strategy.OpMin:    opF64Min, strategy.OpMax: opF64Max,
	strategy.OpAbs: opF64Abs, strategy.OpFloor: opF64Floor, strategy.OpCeil: opF64Ceil, strategy.OpSqrt: opF64Sqrt,
}

// value is a column that may be absent, and then the default.
func (g *generator) value(c *code, t *strategy.Term) {
	p := &g.places[t.Int]
	c.with(opLocalGet, p.number)
	if len(t.Terms) > 0 {
		g.number(c, t.Terms[0])
	} else {
		c.f64(math.NaN())
	}
	c.with(opLocalGet, p.present)
	c.op(opSelect)
}

// remainder is a - b*trunc(a/b).
func (g *generator) remainder(c *code, t *strategy.Term) {
	a, b := g.local(typeF64), g.local(typeF64)
	g.number(c, t.Terms[0])
	c.with(opLocalTee, a)
	g.number(c, t.Terms[1])
	c.with(opLocalTee, b)
	c.with(opLocalGet, a)
	c.with(opLocalGet, b)
	c.op(opF64Div, opF64Trunc, opF64Mul, opF64Sub)
}

var truthOps = map[strategy.Op]byte{
	strategy.OpLess: opF64Lt, strategy.OpLessEqual: opF64Le, strategy.OpGreater: opF64Gt, strategy.OpGreaterEqual: opF64Ge,
	strategy.OpEqual: opF64Eq, strategy.OpNotEqual: opF64Ne,
}

// truth puts a truth, 1 or 0, on the stack.
func (g *generator) truth(c *code, t *strategy.Term) {
	switch t.Op {
	case strategy.OpNot:
		g.truth(c, t.Terms[0])
		c.op(opI32Eqz)
	case strategy.OpAnd, strategy.OpOr:
		g.truth(c, t.Terms[0])
		g.truth(c, t.Terms[1])
		if t.Op == strategy.OpAnd {
			c.op(opI32And)
		} else {
			c.op(opI32Or)
		}
	case strategy.OpIf:
		g.truth(c, t.Terms[1])
		g.truth(c, t.Terms[2])
		g.truth(c, t.Terms[0])
		c.op(opSelect)
	case strategy.OpSame, strategy.OpDiffer:
		g.same(c, t.Terms[0], t.Terms[1])
		if t.Op == strategy.OpDiffer {
			c.op(opI32Eqz)
		}
	default:
		g.number(c, t.Terms[0])
		g.number(c, t.Terms[1])
		c.op(truthOps[t.Op])
	}
}

// same compares two values: their strings by their ids, where the id 0 means none, and their numbers where both
// have one.
func (g *generator) same(c *code, a, b *strategy.Term) {
	g.word(c, a)
	g.word(c, b)
	c.op(opI32Eq)
	if a.Op == strategy.OpText || b.Op == strategy.OpText {
		return // the id of a string of the formula is never 0
	}
	g.word(c, a)
	c.i32(0)
	c.op(opI32Ne, opI32And)
	left, right := &g.places[a.Int], &g.places[b.Int]
	c.with(opLocalGet, left.whole)
	c.with(opLocalGet, right.whole)
	c.op(opI64Eq)
	c.with(opLocalGet, left.present)
	c.with(opLocalGet, right.present)
	c.op(opI32And, opI32And, opI32Or)
}

func (g *generator) word(c *code, t *strategy.Term) {
	if t.Op == strategy.OpText {
		c.with(opLocalGet, g.words[g.text(t.Text)])
		return
	}
	c.with(opLocalGet, g.places[t.Word].word)
}
