package instrument

import (
	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/scan/decode"
)

// Fuel is counted in units of about a third of a nanosecond, what a plain instruction of a tight loop takes.
const (
	memoryGrowCost    = 20_000
	bytesPerUnitShift = 3  // a bulk operation moves 8 bytes per unit
	unitsPerPageShift = 13 // and so does an engine that moves a memory when it grows: pages of 64 KiB
)

// cost is the charge of one instruction, without the part that depends on a size at run time. An instruction that compiles to
// nothing is free.
func cost(op decode.Op) int64 {
	switch op {
	case decode.Nop, decode.Block, decode.Loop, decode.Else, decode.End, decode.Drop:
		return 0
	case decode.Call:
		return 4
	case decode.CallIndirect:
		return 8
	case decode.BrTable:
		return 3
	case 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, // integer division and remainder
		0x91, 0x95, 0x9f, 0xa3: // square root and division of floats
		return 8
	case decode.MemoryInit, decode.MemoryCopy, decode.MemoryFill, decode.TableInit, decode.TableCopy, decode.TableGrow, decode.TableFill:
		return 50
	}
	return 1
}

// chargeGlobal subtracts from the slice without a check.
func (w *rewriter) chargeGlobal(c *code, units int64) {
	c.indexed(decode.GlobalGet, w.slice)
	c.constant(units)
	c.op(opI64Sub)
	c.indexed(decode.GlobalSet, w.slice)
}

// chargeLocal subtracts from the fuel that the function holds. With check it asks for the next slice when there is none left.
func (w *rewriter) chargeLocal(c *code, units int64, check bool) {
	c.indexed(decode.LocalGet, w.body.fuel)
	c.constant(units)
	c.op(opI64Sub)
	if !check {
		c.indexed(decode.LocalSet, w.body.fuel)
		return
	}
	c.indexed(decode.LocalTee, w.body.fuel)
	w.check(c)
}

// check takes a number from the stack, and goes for more fuel if it is below zero.
func (w *rewriter) check(c *code) {
	c.constant(0)
	c.op(opI64LtS)
	c.raw([]byte{opIf, emptyResult})
	c.indexed(decode.LocalGet, w.body.fuel)
	c.indexed(decode.Call, w.refill)
	c.indexed(decode.LocalSet, w.body.fuel)
	c.op(byte(decode.End))
}

// chargeGrow charges for growing the memory by the number on top of the stack, which it leaves there: as for copying all pages to
// where there is room for the new ones and clearing those, which a memory on the heap takes. A number beyond the maximum is refused
// at once and charged like it.
func (w *rewriter) chargeGrow() {
	b := &w.body
	if b.current == none {
		return
	}
	most := int64(w.options.MemoryPages)
	b.out.indexed(decode.LocalTee, b.size)
	b.out.indexed(decode.LocalGet, b.fuel)
	b.out.indexed(decode.LocalGet, b.size)
	b.out.op(opExtendU)
	b.out.constant(most)
	b.out.indexed(decode.LocalGet, b.size)
	b.out.op(opExtendU)
	b.out.constant(most)
	b.out.op(opI64LtU)
	b.out.op(byte(decode.Select))
	b.out.raw([]byte{opMemorySize, 0})
	b.out.op(opExtendU)
	b.out.op(opI64Add)
	b.out.constant(unitsPerPageShift)
	b.out.op(opI64Shl)
	b.out.op(opI64Sub)
	b.out.constant(memoryGrowCost)
	b.out.op(opI64Sub)
	b.out.indexed(decode.LocalTee, b.fuel)
	w.check(&b.out)
}

// chargeSize charges for the number on top of the stack, which it leaves there: how much the operation behind it moves.
func (w *rewriter) chargeSize(shift int64) {
	b := &w.body
	if b.current == none {
		return
	}
	b.out.indexed(decode.LocalTee, b.size)
	b.out.indexed(decode.LocalGet, b.fuel)
	b.out.indexed(decode.LocalGet, b.size)
	b.out.op(opExtendU)
	b.out.constant(shift)
	b.out.op(opI64ShrU)
	b.out.op(opI64Sub)
	b.out.indexed(decode.LocalTee, b.fuel)
	w.check(&b.out)
}

// assemble puts the charges into the copied code, and the entry and exit of the function around it. A block around the body
// gathers every way out, so that the counters are written back exactly once.
func (w *rewriter) assemble(c code, t scan.FunctionType) code {
	b := &w.body
	for i := len(b.segments) - 1; i > 0; i-- {
		s := &b.segments[i]
		if s.kind == dominated && s.cost <= smallDominated || s.kind == joined && s.cost <= smallJoined {
			b.segments[s.before].cost += s.cost
			s.cost = 0
		}
	}
	w.enter(&c, b.segments[0].cost)
	switch {
	case len(t.Results) == 0:
		c.raw([]byte{byte(decode.Block), emptyResult})
	case len(t.Results) == 1:
		c.raw([]byte{byte(decode.Block), t.Results[0]})
	default:
		c.op(byte(decode.Block))
		c.signed(int64(w.resultTypes[string(t.Results)]))
	}
	written := 0
	for _, s := range b.segments[1:] {
		c.raw(b.out[written:s.at])
		written = s.at
		if s.cost > 0 {
			w.chargeLocal(&c, s.cost, s.kind == head)
		}
	}
	c.raw(b.out[written:]) // its last end now closes the block
	c.indexed(decode.LocalGet, b.fuel)
	c.indexed(decode.GlobalSet, w.slice)
	if b.shape.deep {
		c.indexed(decode.GlobalGet, w.depth)
		c.constant(1)
		c.op(opI64Add)
		c.indexed(decode.GlobalSet, w.depth)
	}
	c.op(byte(decode.End))
	return c
}

// enter charges the first segment and opens one more call. Both counters are checked with one comparison: of two numbers
// joined by or, the sign is set if one of them is negative.
func (w *rewriter) enter(c *code, units int64) {
	b := &w.body
	if b.shape.deep {
		c.indexed(decode.GlobalGet, w.depth)
		c.constant(1)
		c.op(opI64Sub)
		c.indexed(decode.LocalTee, b.fuel)
		c.indexed(decode.GlobalSet, w.depth)
		c.indexed(decode.LocalGet, b.fuel)
	}
	c.indexed(decode.GlobalGet, w.slice)
	c.constant(units)
	c.op(opI64Sub)
	c.indexed(decode.LocalTee, b.fuel)
	if b.shape.deep {
		c.op(opI64Or)
	}
	w.check(c)
}

// refillBody is the function that the checks call: the slice that is used up goes in, the next one comes out.
//
//	if depth < 0 { trap }
//	for {
//		if fuel <= 0 { fuel, slice = in, 0; trap }
//		taken = min(fuel, Options.Slice)
//		fuel -= taken; slice = in + taken
//		tick()
//		in = slice            // the host may have changed it
//		if in >= 0 { return in }
//	}
func (w *rewriter) refillBody() (c code) {
	const in, taken = 0, 1
	c.raw([]byte{1, 1, decode.I64})
	c.indexed(decode.GlobalGet, w.depth)
	c.constant(0)
	c.op(opI64LtS)
	c.raw([]byte{opIf, emptyResult, byte(decode.Unreachable), byte(decode.End)})
	c.raw([]byte{byte(decode.Loop), emptyResult})
	c.indexed(decode.GlobalGet, w.fuel)
	c.constant(0)
	c.op(opI64LeS)
	c.raw([]byte{opIf, emptyResult})
	c.indexed(decode.LocalGet, in)
	c.indexed(decode.GlobalSet, w.fuel)
	c.constant(0)
	c.indexed(decode.GlobalSet, w.slice)
	c.raw([]byte{byte(decode.Unreachable), byte(decode.End)})
	c.indexed(decode.GlobalGet, w.fuel)
	c.constant(w.options.Slice)
	c.indexed(decode.GlobalGet, w.fuel)
	c.constant(w.options.Slice)
	c.op(opI64LtS)
	c.op(byte(decode.Select))
	c.indexed(decode.LocalSet, taken)
	c.indexed(decode.GlobalGet, w.fuel)
	c.indexed(decode.LocalGet, taken)
	c.op(opI64Sub)
	c.indexed(decode.GlobalSet, w.fuel)
	c.indexed(decode.LocalGet, in)
	c.indexed(decode.LocalGet, taken)
	c.op(opI64Add)
	c.indexed(decode.GlobalSet, w.slice)
	c.indexed(decode.Call, w.tick)
	c.indexed(decode.GlobalGet, w.slice)
	c.indexed(decode.LocalTee, in)
	c.constant(0)
	c.op(opI64LtS)
	c.indexed(decode.BrIf, 0)
	c.op(byte(decode.End))
	c.indexed(decode.LocalGet, in)
	c.op(byte(decode.End))
	return c
}
