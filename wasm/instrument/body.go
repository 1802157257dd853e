package instrument

import (
	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/scan/decode"
)

// body is the function that is being rewritten.
type body struct {
	shape    shape
	fuel     uint32 // the local that holds the fuel while the function runs
	size     uint32 // the local that holds how much a bulk operation is about to move
	out      code
	segments []segment
	open     []frame
	current  int // the segment that instructions are charged to; none in code that cannot be reached
	in       decode.Instruction
}

const none = -1

// segment is a straight piece of code: when its first instruction runs, so do the others, or the module traps.
type segment struct {
	at     int // where in out its charge goes
	cost   int64
	kind   segmentKind
	before int // a segment that has always run before this one, in the same turn of the same loop
}

type segmentKind byte

const (
	entry     segmentKind = iota // the function's first
	head                         // of a loop: charged and checked at every turn
	dominated                    // runs only right behind its before: an arm of an if, the code behind a br_if
	joined                       // behind the end of a block, where branches meet
)

// A segment that costs no more than this is charged together with the one before it, whether it then runs or not. It keeps
// small code small. Joins get nearly none: the large switches that Go compiles its functions to are made of hundreds of them.
const (
	smallDominated = 12
	smallJoined    = 3
)

// frame is an open block.
type frame struct {
	op       decode.Op
	before   int  // the segment that was current when it was opened
	branched bool // a branch goes to its end
}

// shape has the facts that decide how a function is rewritten.
type shape struct {
	loops bool // has a loop
	calls bool // calls anything
	deep  bool // calls a function of the module, or any through a table
	bulk  bool // moves a size that is known at run time only, or grows the memory
	cost  int64
}

// tiny functions have nothing that repeats or calls and cost next to nothing: they are charged as a whole without a check.
// A function that calls them often checks.
func (s shape) tiny() bool { return !s.loops && !s.calls && !s.bulk && s.cost <= 64 }

// survey reads the instructions for their shape.
func (w *rewriter) survey(r decode.Reader) (s shape) {
	in := &w.body.in
	for r.Len() > 0 && r.Instruction(in) {
		s.cost += cost(in.Op)
		switch in.Op {
		case decode.Loop:
			s.loops = true
		case decode.Call:
			s.calls = true
			s.deep = s.deep || in.A >= w.tick
		case decode.CallIndirect:
			s.calls, s.deep = true, true
		}
		s.bulk = s.bulk || in.Op.Bulk()
	}
	return s
}

// rewrite returns the new body of a function: locals and code.
func (w *rewriter) rewrite(t scan.FunctionType, r *decode.Reader) code {
	b := &w.body
	from := r.Offset()
	groups := r.U32()
	groupsFrom := r.Offset()
	locals := uint32(len(t.Params))
	for i := uint32(0); i < groups && r.Err() == nil; i++ {
		locals += r.U32()
		r.Byte()
	}
	if r.Err() != nil {
		return nil
	}
	b.shape = w.survey(*r)
	if b.shape.tiny() {
		var c code
		c.raw(w.in[from:r.Offset()])
		w.chargeGlobal(&c, b.shape.cost)
		return w.copyTiny(c, r)
	}
	b.fuel, b.size = locals, locals+1
	b.out, b.segments, b.open = b.out[:0], append(b.segments[:0], segment{kind: entry, cost: 1}), append(b.open[:0], frame{before: 0})
	b.current = 0
	c := make(code, 0, r.Len()+r.Len()/2+64)
	c.unsigned(uint64(groups) + 2)
	c.raw(w.in[groupsFrom:r.Offset()])
	c.raw([]byte{1, decode.I64, 1, decode.I32})
	for len(b.open) > 0 && r.Instruction(&b.in) {
		w.instruction()
	}
	return w.assemble(c, t)
}

// copyTiny copies the instructions of a tiny function, in which there is nothing to rewrite but indexes.
func (w *rewriter) copyTiny(c code, r *decode.Reader) code {
	in := &w.body.in
	for r.Len() > 0 && r.Instruction(in) {
		if in.Op == decode.RefFunc {
			c.indexed(in.Op, w.function(in.A))
		} else {
			c.raw(w.in[in.Start:in.End])
		}
	}
	return c
}

// begin starts a new segment here.
func (b *body) begin(kind segmentKind, before int) {
	b.segments = append(b.segments, segment{at: len(b.out), kind: kind, before: before})
	b.current = len(b.segments) - 1
}

// instruction copies one instruction, with the code that has to stand around it, and finds where segments begin and end.
func (w *rewriter) instruction() {
	b := &w.body
	in := &b.in
	reachable := b.current != none
	if reachable {
		b.segments[b.current].cost += cost(in.Op)
	}
	raw := w.in[in.Start:in.End]
	switch in.Op {
	case decode.Block, decode.Loop, decode.If, decode.Else, decode.End:
		b.out.raw(raw)
		b.structure()
		return
	case decode.Br, decode.BrIf, decode.BrTable:
		b.out.raw(raw)
		b.branch()
		return
	case decode.Return: // to the end of the block that is put around the body
		b.out.indexed(decode.Br, uint32(len(b.open)-1))
		b.current = none
		return
	case decode.Unreachable:
		b.out.raw(raw)
		b.current = none
		return
	case decode.RefFunc:
		b.out.indexed(in.Op, w.function(in.A))
		return
	case decode.Call, decode.CallIndirect:
		w.call(raw, reachable)
		return
	case decode.MemoryGrow:
		w.chargeGrow()
	case decode.MemoryInit, decode.MemoryCopy, decode.MemoryFill:
		w.chargeSize(bytesPerUnitShift)
	case decode.TableInit, decode.TableCopy, decode.TableGrow, decode.TableFill:
		w.chargeSize(0)
	}
	b.out.raw(raw)
}

// structure keeps track of open blocks. Behind an end begins a new segment wherever control may come from more than one place.
func (b *body) structure() {
	switch b.in.Op {
	case decode.End:
		f := b.open[len(b.open)-1]
		b.open = b.open[:len(b.open)-1]
		switch {
		case f.before == none:
			b.current = none
		case len(b.open) == 0:
		case f.branched, f.op != decode.Block:
			b.begin(joined, f.before)
		}
		return
	case decode.Else:
		if f := b.open[len(b.open)-1]; f.before != none {
			b.begin(dominated, f.before)
		}
		return
	}
	b.open = append(b.open, frame{op: b.in.Op, before: b.current})
	switch {
	case b.current == none:
	case b.in.Op == decode.Loop:
		b.begin(head, none)
		b.segments[b.current].cost = 1
	case b.in.Op == decode.If:
		b.begin(dominated, b.current)
	}
}

func (b *body) branch() {
	mark := func(depth uint32) { b.open[len(b.open)-1-int(depth)].branched = true }
	switch {
	case b.in.Op == decode.BrTable:
		for _, depth := range b.in.Targets {
			mark(depth)
		}
		b.current = none
	case b.in.Op == decode.Br:
		mark(b.in.A)
		b.current = none
	default:
		mark(b.in.A)
		if b.current != none {
			b.begin(dominated, b.current)
		}
	}
}

// call writes the fuel to where the called function looks for it, and reads back what it left.
func (w *rewriter) call(raw []byte, reachable bool) {
	b := &w.body
	if reachable {
		b.out.indexed(decode.LocalGet, b.fuel)
		b.out.indexed(decode.GlobalSet, w.slice)
	}
	if b.in.Op == decode.Call {
		b.out.indexed(decode.Call, w.function(b.in.A))
	} else {
		b.out.raw(raw)
	}
	if reachable {
		b.out.indexed(decode.GlobalGet, w.slice)
		b.out.indexed(decode.LocalSet, b.fuel)
	}
}
