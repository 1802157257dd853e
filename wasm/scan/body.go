package scan

import "github.com/quern-queue/quern/wasm/scan/decode"

// body has the facts about the function that is being read.
type body struct {
	locals       int    // parameters and locals
	blocks       int    // block, loop, if, else
	conditions   int    // br_if
	targets      int    // of all br_tables
	bulk         int    // operations on memory and tables whose size is known at run time only
	values       int    // see limits.go
	instructions int    // as written
	results      []int  // how many values a branch to each open block carries, the outermost first
	open         []byte // the opcodes that opened them
	in           decode.Instruction
}

// code reads every function body. A body that cannot be read does not keep the next from being read, since its size is known.
func (s *scanner) code(at place, r *decode.Reader) {
	s.bodies = s.count(idCode, at, r, TooManyFunctions, s.limits.Functions, "leave out what is not needed")
	for i := uint32(0); i < s.bodies; i++ {
		at = place{"code", s.report.ImportedFunctions + int(i), r.Offset()}
		content := r.Sub(r.U32())
		if r.Err() != nil {
			return
		}
		s.report.LargestBody = max(s.report.LargestBody, content.Len())
		if s.over(BodyTooLarge, at, s.limits.BodyBytes, uint64(content.Len()), "The function has too many bytes",
			"split it, or keep the compiler from inlining so much") {
			continue
		}
		s.function(at, content)
		if err := content.Err(); err != nil {
			s.undecodable(at, err)
		}
	}
}

func (s *scanner) function(at place, r *decode.Reader) {
	var t FunctionType
	switch index := s.typeOf(at.function); {
	case index >= 0:
		t = s.report.Types[index]
	case !s.broken[idFunction] && !s.broken[idType] && !s.broken[idImport]:
		return // more bodies than functions, or a type that is not there: noted elsewhere
	}
	b := &s.body
	*b = body{results: append(b.results[:0], len(t.Results)), open: append(b.open[:0], 0), in: b.in}
	if !s.locals(at, r, len(t.Params)) {
		return
	}
	for len(b.open) > 0 {
		if !r.Instruction(&b.in) {
			return
		}
		b.values += weight(b.in.Op)
		b.instructions++
		if !s.instruction(at, r) {
			return
		}
	}
	s.over(TooManyBlocks, at, s.limits.Blocks, uint64(b.blocks), "The function has too many blocks",
		"split it, or keep the compiler from inlining so much")
	if r.Len() > 0 {
		r.Fail(decode.Malformed, r.Offset(), "%d bytes behind the end of a function", r.Len())
		return
	}
	s.over(CompileBudget, at, s.limits.FunctionCost, uint64(b.cost()),
		"The function is too costly to compile (estimated units)", "split it, or use fewer blocks and locals")
	s.report.Bodies++
	s.report.Instructions += b.instructions
	s.report.CompileCost += b.cost()
}

// typeOf is the type index of a function, -1 when it is not known.
func (s *scanner) typeOf(function int) int {
	if function < len(s.report.Functions) && uint64(s.report.Functions[function]) < uint64(len(s.report.Types)) {
		return int(s.report.Functions[function])
	}
	return -1
}

// locals adds up the groups of locals. It is only the sum that could be large: nothing is made per local.
func (s *scanner) locals(at place, r *decode.Reader, params int) bool {
	sum := uint64(params)
	for range r.Count("groups of locals") {
		sum += uint64(r.U32())
		r.ValueType()
		if r.Err() != nil {
			return false
		}
	}
	if r.Err() != nil || s.over(TooManyLocals, at, s.limits.Locals, sum,
		"The function has too many parameters and locals", "split it, or optimise the build") {
		return false
	}
	s.body.locals = int(sum)
	return true
}

// instruction holds one instruction against the module. It returns false when reading on makes no sense.
func (s *scanner) instruction(at place, r *decode.Reader) bool {
	in := &s.body.in
	at.offset = in.Start
	if in.Op.Bulk() {
		s.body.bulk++
	}
	switch in.Op {
	case decode.Block, decode.Loop, decode.If, decode.Else, decode.End:
		return s.structure(at, r)
	case decode.Br, decode.BrIf, decode.BrTable:
		s.branch(at)
	case decode.Call:
		s.functionIndex(at, in.A, r)
		if t := s.typeOf(int(in.A)); t >= 0 {
			s.body.carry(s.report.Types[t])
		}
	case decode.RefFunc:
		s.functionIndex(at, in.A, r)
	case decode.CallIndirect:
		s.index(at, r, "type", in.A, len(s.report.Types), idType)
		s.index(at, r, "table", in.B, len(s.report.Tables), idTable)
		if uint64(in.A) < uint64(len(s.report.Types)) {
			s.body.carry(s.report.Types[in.A])
		}
	case decode.LocalGet, decode.LocalSet, decode.LocalTee:
		if uint64(in.A) >= uint64(s.body.locals) {
			s.refuse(IndexOutOfRange, at, int64(s.body.locals), int64(in.A),
				"The local %d is named and the function has %d; the file is damaged, build it again.", in.A, s.body.locals)
		}
	case decode.GlobalGet, decode.GlobalSet:
		s.index(at, r, "global", in.A, len(s.report.Globals), idGlobal)
	case decode.TableGet, decode.TableSize:
		s.index(at, r, "table", in.A, len(s.report.Tables), idTable)
	case decode.TableSet, decode.TableGrow, decode.TableFill:
		s.report.HiddenState = true
		s.index(at, r, "table", in.A, len(s.report.Tables), idTable)
	case decode.TableCopy:
		s.report.HiddenState = true
		s.index(at, r, "table", max(in.A, in.B), len(s.report.Tables), idTable)
	case decode.TableInit, decode.ElemDrop:
		s.report.HiddenState = true
		s.index(at, r, "element segment", in.A, s.report.Elements, idElement)
		if in.Op == decode.TableInit {
			s.index(at, r, "table", in.B, len(s.report.Tables), idTable)
		}
	case decode.MemoryInit, decode.DataDrop:
		s.report.HiddenState = s.report.HiddenState || in.Op == decode.DataDrop
		s.index(at, r, "data segment", in.A, max(s.dataCount, 0), idDataCount)
	}
	return true
}

// structure opens and closes blocks.
func (s *scanner) structure(at place, r *decode.Reader) bool {
	b, in := &s.body, &s.body.in
	switch in.Op {
	case decode.Else:
		if b.open[len(b.open)-1] != byte(decode.If) {
			r.Fail(decode.Malformed, in.Start, "an else outside of an if")
			return false
		}
		b.open[len(b.open)-1] = byte(decode.Else)
		b.blocks++
		return true
	case decode.End:
		b.open, b.results = b.open[:len(b.open)-1], b.results[:len(b.results)-1]
		return true
	}
	carried := 0
	switch {
	case in.Block >= 0:
		s.index(at, r, "type", uint32(in.Block), len(s.report.Types), idType)
		if in.Block < int64(len(s.report.Types)) {
			t := s.report.Types[in.Block]
			b.carry(t)
			carried = len(t.Results)
			if in.Op == decode.Loop {
				carried = len(t.Params)
			}
		}
	case in.Block != decode.EmptyBlock && in.Op != decode.Loop:
		carried = 1
	}
	b.blocks++
	b.open, b.results = append(b.open, byte(in.Op)), append(b.results, carried)
	s.report.DeepestBody = max(s.report.DeepestBody, len(b.open))
	return !s.over(TooDeep, at, s.limits.Nesting, uint64(len(b.open)), "Blocks are nested too deeply",
		"split the function, or turn large switches into tables")
}

// branch checks that every target is an open block, and adds up what the branches carry.
func (s *scanner) branch(at place) {
	b, in := &s.body, &s.body.in
	if in.Op == decode.BrIf {
		b.conditions++
	}
	if in.Op != decode.BrTable {
		s.target(at, in.A)
		return
	}
	s.over(BranchTableTooLarge, at, s.limits.BranchTable, uint64(in.A), "A br_table has too many targets", "split the switch")
	b.targets += len(in.Targets)
	for _, depth := range in.Targets {
		s.target(at, depth)
	}
}

func (s *scanner) target(at place, depth uint32) {
	b := &s.body
	if uint64(depth) >= uint64(len(b.open)) {
		s.refuse(IndexOutOfRange, at, int64(len(b.open)), int64(depth),
			"A branch leaves %d blocks and %d are open; the file is damaged, build it again.", depth+1, len(b.open))
		return
	}
	b.values += carriedWeight * b.results[len(b.results)-1-int(depth)]
}
