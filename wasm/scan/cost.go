package scan

import "github.com/quern-queue/quern/wasm/scan/decode"

// The compile-cost estimate is in units of about what one plain instruction costs the engine's compiler. Its passes over a
// function are worse than linear in two things: the number of blocks (dominators, layout, branch targets) and, at every block,
// the locals that may have changed on the way there (one merge per local and block). So a function costs
//
//	blocks²/8 + 4 × blocks × locals + values
//
// where blocks counts every block, loop, if, else, br_if, four for each bulk operation (a loop when compiled, and a check when rewritten),
// and, eight for one, the targets of br_table; locals includes parameters; and
// values counts every instruction (some that compile to many more), plus eight times the parameters and results that
// calls, blocks and branches carry. Against functions made for it (many loops over many locals, chains of ifs, deep
// nesting) a unit is 0.1 to 0.3 microseconds of compiling; a Go guest with encoding/json comes to a tenth of the
// default limit.
const (
	blocksPerOne  = 8
	mergeWeight   = 4
	targetsPerOne = 8
	carriedWeight = 8
	bulkBlocks    = 4
)

func (b *body) cost() int {
	blocks := b.blocks + b.conditions + bulkBlocks*b.bulk + b.targets/targetsPerOne
	return blocks*blocks/blocksPerOne + mergeWeight*blocks*b.locals + b.values
}

// carry counts the values that go with a call of this type, or in and out of a block of it.
func (b *body) carry(t FunctionType) { b.values += carriedWeight * (len(t.Params) + len(t.Results)) }

// weight is what one instruction adds to values.
func weight(op decode.Op) int {
	switch {
	case op == decode.CallIndirect:
		return 100
	case op >= 0xa8 && op <= 0xb1 && op != 0xac && op != 0xad, // float to integer, with its checks
		op >= 0xfc00 && op <= 0xfc07, op == decode.TableGet, op == decode.TableSet:
		return 30
	case op >= 0x6d && op <= 0x70, op >= 0x7f && op <= 0x82: // integer division
		return 20
	case op == decode.Call:
		return 10
	}
	return 1
}
