package strategy

// Limits of the formula of a Score block.
const (
	MaxTerms   = 256 // numbers, columns, operators and functions in all
	MaxNesting = 32  // parentheses, functions, "not" and "-" inside each other
	MaxColumns = 32  // different columns that it reads
)

// Expression is the formula of a Score block: arithmetic over the properties of a candidate. It is pure and has no loops,
// and every part of it is computed for every candidate. It never changes, so it may be shared.
//
// All numbers are float64, as IEEE 754 has them; whole numbers beyond 2^53 are rounded. An absent value is not a number
// (NaN) unless a default is given: arithmetic with it is NaN, comparisons with it are false (but != is true), and a score
// that is NaN skips the candidate.
type Expression struct {
	root    *Term
	columns []Column
	text    string
}

// ParseExpression reads a formula, as in priority*10 - attempts*5. A mistake is a *queue.Error of CodeInvalid whose one
// problem points at "/expression" and says at which line and column what was expected.
func ParseExpression(text string) (*Expression, error) { return parseFormula(text, "/expression") }

// String is the canonical text: two formulas of the same text are the same.
func (e *Expression) String() string { return e.text }

// Columns are those that the formula reads, each once, in the order of the text, except that those of the reservation's
// context come last. They belong to the expression: do not change them.
func (e *Expression) Columns() []Column { return e.columns }

// Root is the outermost term; its value is a number. The terms belong to the expression: do not change them.
func (e *Expression) Root() *Term { return e.root }

// Op is the operation of a term.
type Op uint8

// The operations. Those of the first block have no terms of their own, unless their comment says so.
const (
	OpNumber Op = iota // Number
	OpColumn           // column Int, divided by Number
	OpValue            // column Int, a value of the meta or the context as a number; where it is absent Terms[0], NaN if there is none
	OpText             // Text: only a term of OpSame and OpDiffer

	OpNegate
	OpAdd
	OpSubtract
	OpMultiply
	OpDivide
	OpRemainder // a - b*trunc(a/b): the remainder with the sign of a, exact for whole numbers up to 2^52

	OpLess // this and the following give true or false
	OpLessEqual
	OpGreater
	OpGreaterEqual
	OpEqual    // of numbers
	OpNotEqual // of numbers
	OpSame     // of values: each term is OpText or OpValue; false where one is absent or one is a string and the other a number
	OpDiffer   // the opposite of OpSame
	OpNot
	OpAnd
	OpOr

	OpIf  // Terms[1] where Terms[0] is true, otherwise Terms[2]: both numbers or both truths
	OpMin // of two or more; NaN if one is
	OpMax // likewise
	OpAbs
	OpFloor
	OpCeil
	OpSqrt
	OpClamp // max(Terms[1], min(Terms[2], Terms[0]))
)

// Term is one node of a formula.
type Term struct {
	Op     Op
	Terms  []*Term
	Number float64
	Text   string
	Int    int // index in Expression.Columns; -1: none
	Word   int // of an OpValue in OpSame and OpDiffer: index of the column that has its strings; -1: none

	kind       termKind
	name       string // of a column or function, as in the text
	key        string // of a column that is about one
	at         int    // offset in the source
	ints, text bool   // of an OpValue: which of its columns are read
}

// termKind is the type of a term.
type termKind uint8

const (
	numberKind termKind = iota
	truthKind
	textKind
	valueKind // a number or a string: the term around it decides
)

var kindNames = [...]string{"a number", "true or false", "a string", "a value"}
