package wasmtest

// The batch header of the plugin interface, version 1, as far as a scorer reads it: offsets in bytes from the batch's start.
const (
	headerRows        = 8
	headerDescriptors = 16
	headerScores      = 20
	descriptorSize    = 16
)

// each is the body of a quern_score that runs code once per row. Local 0 is the batch, 1 the row's number, 2 and 3 are free
// (i32), 4 is the address of the row's score. The code leaves the score, an f64, on the stack.
func each(perRow []byte) []byte {
	return Code(
		0x02, Empty, 0x03, Empty,
		0x20, 1, 0x20, 0, 0x28, 2, headerRows, 0x4f, 0x0d, 1, // done when row >= n
		0x20, 0, 0x20, 0, 0x28, 2, headerScores, 0x6a, 0x20, 1, 0x41, 3, 0x74, 0x6a, 0x22, 4, // batch + scores + 8*row
		perRow,
		0x39, 3, 0,
		0x20, 1, 0x41, 1, 0x6a, 0x21, 1, 0x0c, 0, End, End,
		0x41, 0, End)
}

var rowLocals = []byte{I32, I32, I32, I32}

// column is the row's value of an i64 column, as an f64.
func column(index int) []byte {
	return Code(
		0x20, 0, 0x20, 0, 0x20, 0, 0x28, 2, headerDescriptors, 0x6a, 0x28, 2, Unsigned(uint64(index*descriptorSize)), 0x6a,
		0x20, 1, 0x41, 3, 0x74, 0x6a, 0x29, 3, 0, 0xb9)
}

// Scorer is a good plugin for two i64 columns, priority and attempts: score = priority*10 - attempts*5.
func Scorer() []byte {
	return PluginWithLocals(rowLocals, each(Code(column(0), ConstF64(10), 0xa2, column(1), ConstF64(5), 0xa2, 0xa1)))
}

// Directed is a good plugin for an i64 column and one that has one row, such as one of the context: score = the first *
// the second.
func Directed() []byte {
	once := Code(0x20, 0, 0x20, 0, 0x20, 0, 0x28, 2, headerDescriptors, 0x6a, 0x28, 2, Unsigned(descriptorSize), 0x6a, 0x29, 3, 0, 0xb9)
	return PluginWithLocals(rowLocals, each(Code(column(0), once, 0xa2)))
}

// ScorerWith is Scorer with one more custom section, such as a manifest.
func ScorerWith(section string, content []byte) []byte {
	b := Base()
	b.Export("quern_score", Function, b.Function(1, rowLocals,
		each(Code(column(0), ConstF64(10), 0xa2, column(1), ConstF64(5), 0xa2, 0xa1))))
	b.Custom(section, content)
	return b.Bytes()
}

// Counter is a good plugin that keeps state: it scores every row with how many rows it has seen, in a global.
func Counter() []byte {
	b := Base()
	g := b.Global(I64, true, []byte{0x42, 0})
	b.Export("quern_score", Function, b.Function(1, rowLocals, each(Code(Op(0x23, g), 0x42, 1, 0x7c, Op(0x24, g), Op(0x23, g), 0xb9))))
	return b.Bytes()
}

// scoresOf gives every row the same score.
func scoresOf(score []byte) func() []byte {
	return func() []byte { return PluginWithLocals(rowLocals, each(score)) }
}

// halfWritten writes the scores of every second row.
func halfWritten() []byte {
	return PluginWithLocals(rowLocals, each(Code(ConstF64(1), 0x20, 1, 0x41, 1, 0x6a, 0x21, 1)))
}

// Quotient is a good plugin for two i64 columns: score = the first / the second, as floats. A second of 0 makes it
// infinite, and both 0 make it NaN.
func Quotient() []byte {
	return PluginWithLocals(rowLocals, each(Code(column(0), column(1), 0xa3)))
}
