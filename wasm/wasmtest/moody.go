package wasmtest

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

// NotDry holds in batches that are not dry runs: what an upload's check does not see.
func NotDry() []byte { return Code(0x20, 0, 0x28, 2, headerFlags, 0x41, 1, 0x71, 0x45) }

// NegativeSeed holds in batches whose seed has its highest bit set: tests choose it batch by batch.
func NegativeSeed() []byte { return Code(0x20, 0, 0x29, 3, headerSeed, 0x42, 0, 0x53) }

// FirstBelowZero holds in batches whose first row is below zero in the first column: tests choose it by what is first in line.
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
	b := Base()
	const first, depth = 2, 60
	for k := range uint32(depth) {
		if k == depth-1 {
			b.Function(0, nil, End)
		} else {
			b.Function(0, nil, Op(0x10, first+k+1), Op(0x10, first+k+1), End)
		}
	}
	b.Export("quern_score", Function, b.Function(1, rowLocals, moody(condition, Op(0x10, first))))
	return b.Bytes()
}
