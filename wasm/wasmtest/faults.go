package wasmtest

import (
	"bytes"
	"math"
)

// faults are plugins that load, and do wrong when they are called.
func faults() []Hostile {
	score := func(code ...any) func() []byte { return func() []byte { return Plugin(Code(code...)) } }
	return []Hostile{
		runs("infinite_loop", OutOfFuel, score(0x03, Empty, 0x0c, 0, End, 0x41, 0, End)),
		runs("infinite_loop_in_initialize", OutOfFuel, func() []byte {
			b := Base()
			b.Export("_initialize", Function, b.Function(0, nil, 0x03, Empty, 0x0c, 0, End, End))
			b.Export("quern_score", Function, b.Function(1, nil, 0x41, 0, End))
			return b.Bytes()
		}),
		runs("infinite_recursion", TooDeep, score(0x20, 0, 0x10, 2, End)),
		runs("recursion_through_a_table", TooDeep, func() []byte {
			b := Base()
			b.Table(1, -1)
			b.Elements(0, 2)
			b.Export("quern_score", Function, b.Function(1, nil, 0x20, 0, 0x41, 0, 0x11, 1, 0, End))
			return b.Bytes()
		}),
		runs("recursion_with_large_frames", TooDeep, recursionWithLargeFrames),
		runs("recursion_of_several_results", TooDeep, func() []byte {
			b := Base()
			pair := b.Type(nil, []byte{I32, I32})
			b.Function(pair, nil, 0x10, 2, End)
			b.Export("quern_score", Function, b.Function(1, nil, 0x10, 2, 0x6a, End))
			return b.Bytes()
		}),
		runs("exponential_calls", OutOfFuel, exponentialCalls),
		runs("exponential_calls_of_several_results", OutOfFuel, exponentialPairs),
		runs("memory_grow_loop", OutOfFuel, score(0x03, Empty, 0x41, 1, 0x40, 0, 0x1a, 0x0c, 0, End, 0x41, 0, End)),
		runs("memory_grow_once", Harmless,
			func() []byte { return PluginWithLocals(rowLocals, andScores(ConstI32(65_535), 0x40, 0, 0x1a)) }),
		runs("memory_fill_loop", OutOfFuel, score(
			ConstI32(200), 0x40, 0, 0x1a, 0x03, Empty, 0x41, 0, 0x41, 0, ConstI32(200<<16), 0xfc, 11, 0, 0x0c, 0, End, 0x41, 0, End)),
		runs("memory_fill_without_loop", OutOfFuel, func() []byte { return Fills(500) }),
		runs("memory_copy_loop", OutOfFuel,
			score(0x03, Empty, 0x41, 0, 0x41, 8, ConstI32(65_000), 0xfc, 10, 0, 0, 0x0c, 0, End, 0x41, 0, End)),
		runs("table_grow_4e9", Harmless, func() []byte {
			b := Base()
			b.Table(0, -1)
			b.Export("quern_score", Function, b.Function(1, rowLocals, andScores(0xd0, FuncRef, ConstI32(1<<20), 0xfc, 15, 0, 0x1a)))
			return b.Bytes()
		}),
		runs("table_grow_loop", OutOfFuel, func() []byte {
			b := Base()
			b.Table(0, -1)
			b.Export("quern_score", Function,
				b.Function(1, nil, 0x03, Empty, 0xd0, FuncRef, 0x41, 1, 0xfc, 15, 0, 0x1a, 0x0c, 0, End, 0x41, 0, End))
			return b.Bytes()
		}),
		runs("trap_unreachable", Trap, score(0x00, End)),
		runs("trap_division", Trap, score(0x41, 1, 0x41, 0, 0x6d, End)),
		runs("trap_out_of_bounds", Trap, score(0x41, 0x7f, 0x28, 2, 0, End)),
		runs("status_7", GuestError, score(0x41, 7, End)),
		runs("scores_nan", BadScores, scoresOf(ConstF64(math.NaN()))),
		runs("scores_infinite", BadScores, scoresOf(ConstF64(math.Inf(1)))),
		runs("scores_not_written", BadScores, score(0x41, 0, End)),
		runs("scores_half_written", BadScores, halfWritten),
		runs("proc_exit", ExitCalled, importing("wasi_snapshot_preview1", "proc_exit", []byte{I32}, nil)),
		runs("log_10000", Harmless, log10000),
		{Name: "type_error", Stage: Compile, Build: score(0x42, 0, End)},
		{Name: "stack_underflow", Stage: Compile, Build: score(0x6a, End)},
		{Name: "data_out_of_memory", Stage: Compile, Build: func() []byte {
			b := Base()
			b.Export("quern_score", Function, b.Function(1, nil, 0x41, 0, End))
			b.Data(65_530, make([]byte, 100))
			return b.Bytes()
		}},
	}
}

func recursionWithLargeFrames() []byte {
	const locals = 200
	var before, after []byte
	for i := range uint32(locals) {
		before = append(before, Code(Op(0x20, 1+i), 0x42, 3, 0x7c, Op(0x21, 1+i))...)
		after = append(after, Code(Op(0x20, 1+i), 0xa7, 0x1a)...)
	}
	return PluginWithLocals(bytes.Repeat([]byte{I64}, locals), Code(before, 0x20, 0, 0x10, 2, 0x1a, after, 0x41, 0, End))
}

// tree has 60 functions without a loop that each call the next one twice. The first one calls all of them.
func tree() (b *Builder, first uint32) {
	b, first = Base(), 2
	for next := first + 1; next < first+60; next++ {
		b.Function(0, nil, Op(0x10, next), Op(0x10, next), End)
	}
	b.Function(0, nil, End)
	return b, first
}

// exponentialCalls calls a tree of functions.
func exponentialCalls() []byte {
	b, first := tree()
	b.Export("quern_score", Function, b.Function(1, nil, 0x10, byte(first), 0x41, 0, End))
	return b.Bytes()
}

func exponentialPairs() []byte {
	b := Base()
	pair := b.Type(nil, []byte{I32, I32})
	const first, depth = 2, 60
	for k := range uint32(depth) {
		if k == depth-1 {
			b.Function(pair, nil, 0x41, 1, 0x41, 1, End)
		} else {
			b.Function(pair, nil, Op(0x10, first+k+1), 0x6a, Op(0x10, first+k+1), 0x6a, End)
		}
	}
	b.Export("quern_score", Function, b.Function(1, nil, 0x10, first, 0x6a, 0x1a, 0x41, 0, End))
	return b.Bytes()
}

func log10000() []byte {
	b := signed([2][]byte{{I32, I32, I32}, nil})
	log := b.ImportFunction("quern_v1", "log", 2)
	b.Memory(1, -1)
	b.Data(0, []byte("the same line again"))
	b.finish()
	b.Export("quern_score", Function, b.Function(1, rowLocals, andScores(0x03, Empty,
		0x41, 2, 0x41, 0, 0x41, 19, Op(0x10, log),
		0x20, 2, 0x41, 1, 0x6a, 0x22, 2, ConstI32(10_000), 0x49, 0x0d, 0, End)))
	return b.Bytes()
}

// andScores is a quern_score with the locals rowLocals that does this first, and then scores every row with 1.
func andScores(first ...any) []byte { return Code(Code(first...), each(ConstF64(1))) }

// Moody is Scorer, except in batches for which the condition, which leaves an i32 on the stack, is not 0: there it does what bad says
// first. Both may use local 0, the batch, and the locals 1 to 3.
func Moody(condition, bad []byte) []byte {
	return PluginWithLocals(rowLocals, moody(condition, bad))
}

func moody(condition, bad []byte) []byte {
	return Code(
		condition, 0x04, Empty, bad, End,
		0x41, 0, 0x21, 1, 0x41, 0, 0x21, 2, 0x41, 0, 0x21, 3,
		each(Code(column(0), ConstF64(10), 0xa2, column(1), ConstF64(5), 0xa2, 0xa1)))
}

// NotDry holds in batches that are not dry runs, so that an upload's check does not see it.
func NotDry() []byte { return Code(0x20, 0, 0x28, 2, headerFlags, 0x41, 1, 0x71, 0x45) }

// NegativeSeed holds in batches whose seed has its highest bit set: tests choose it batch by batch.
func NegativeSeed() []byte { return Code(0x20, 0, 0x29, 3, headerSeed, 0x42, 0, 0x53) }

// FirstBelowZero holds in batches whose first row is below zero in the first column: tests choose it by the first candidate.
func FirstBelowZero() []byte { return Code(column(0), ConstF64(0), 0x63) }

// Both holds where two conditions do.
func Both(one, other []byte) []byte { return Code(one, other, 0x71) }

// Endless is a loop without end, to be bad with.
func Endless() []byte { return Code(0x03, Empty, 0x0c, 0, End) }

const (
	headerSeed  = 32
	headerFlags = 44
)

// Recursion calls quern_score again, to be bad with.
func Recursion() []byte { return Code(0x20, 0, 0x10, 2, 0x1a) }

// ReturnAtOnce writes no score and says that all is well, to be bad with.
func ReturnAtOnce() []byte { return Code(0x41, 0, 0x0f) }

// FillLoop grows the memory to 201 pages and fills it again and again, to be bad with.
func FillLoop() []byte {
	return Code(ConstI32(200), 0x40, 0, 0x1a, 0x03, Empty, 0x41, 0, 0x41, 0, ConstI32(200<<16), 0xfc, 11, 0, 0x0c, 0, End)
}

// MoodyTree is Scorer, except where the condition holds: there it first calls 60 functions without a loop that each call the next one
// twice.
func MoodyTree(condition []byte) []byte {
	b, first := tree()
	b.Export("quern_score", Function, b.Function(1, rowLocals, moody(condition, Op(0x10, first))))
	return b.Bytes()
}
