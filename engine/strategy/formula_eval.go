package strategy

import "math"

// Eval is the score of one row of a window whose columns are those of the expression. It is slow: tests compare the compiled
// formula with it, bit for bit except for the bits of a NaN.
//
// Products are converted explicitly where a sum follows, so that a compiler does not round only once for both.
func (e *Expression) Eval(w *Window, row int) float64 { return evaluation{w, row}.number(e.root) }

type evaluation struct {
	window *Window
	row    int
}

// column finds the values of a column, the row in it, and whether it is present there.
func (e evaluation) column(index int) (values *Values, row int, present bool) {
	values, row = &e.window.Columns[index], e.row
	if row >= values.Rows() {
		row = 0 // columns of the context have one row
	}
	return values, row, values.Present == nil || values.Present[row]
}

func (e evaluation) number(t *Term) float64 {
	switch t.Op {
	case OpNumber:
		return t.Number
	case OpColumn, OpValue:
		return e.read(t)
	case OpNegate:
		return -e.number(t.Terms[0])
	case OpIf:
		if e.truth(t.Terms[0]) {
			return e.number(t.Terms[1])
		}
		return e.number(t.Terms[2])
	case OpMin, OpMax:
		return e.extreme(t)
	case OpClamp:
		return max(e.number(t.Terms[1]), min(e.number(t.Terms[2]), e.number(t.Terms[0])))
	case OpAbs:
		return math.Abs(e.number(t.Terms[0]))
	case OpFloor:
		return math.Floor(e.number(t.Terms[0]))
	case OpCeil:
		return math.Ceil(e.number(t.Terms[0]))
	case OpSqrt:
		return math.Sqrt(e.number(t.Terms[0]))
	}
	return arithmetic(t.Op, e.number(t.Terms[0]), e.number(t.Terms[1]))
}

func (e evaluation) read(t *Term) float64 {
	values, row, present := e.column(t.Int)
	switch {
	case t.Op == OpColumn:
		return float64(values.Number(row)) / t.Number
	case present:
		return float64(values.Number(row))
	case len(t.Terms) > 0:
		return e.number(t.Terms[0])
	}
	return notANumber
}

func (e evaluation) extreme(t *Term) float64 {
	value := e.number(t.Terms[0])
	for _, other := range t.Terms[1:] {
		if t.Op == OpMin {
			value = min(value, e.number(other))
		} else {
			value = max(value, e.number(other))
		}
	}
	return value
}

func arithmetic(op Op, a, b float64) float64 {
	switch op {
	case OpAdd:
		return a + b
	case OpSubtract:
		return a - b
	case OpMultiply:
		return float64(a * b)
	case OpDivide:
		return a / b
	case OpRemainder:
		return a - float64(b*math.Trunc(a/b))
	}
	panic("strategy: an operation that gives no number")
}

func (e evaluation) truth(t *Term) bool {
	switch t.Op {
	case OpNot:
		return !e.truth(t.Terms[0])
	case OpAnd:
		return e.truth(t.Terms[0]) && e.truth(t.Terms[1])
	case OpOr:
		return e.truth(t.Terms[0]) || e.truth(t.Terms[1])
	case OpIf:
		if e.truth(t.Terms[0]) {
			return e.truth(t.Terms[1])
		}
		return e.truth(t.Terms[2])
	case OpSame:
		return e.same(t.Terms[0], t.Terms[1])
	case OpDiffer:
		return !e.same(t.Terms[0], t.Terms[1])
	}
	return compared(t.Op, e.number(t.Terms[0]), e.number(t.Terms[1]))
}

func compared(op Op, a, b float64) bool {
	switch op {
	case OpLess:
		return a < b
	case OpLessEqual:
		return a <= b
	case OpGreater:
		return a > b
	case OpGreaterEqual:
		return a >= b
	case OpEqual:
		return a == b
	case OpNotEqual:
		return a != b
	}
	panic("strategy: an operation that gives no truth")
}

// same compares two values; it is false if one is absent.
func (e evaluation) same(a, b *Term) bool {
	textA, okA := e.word(a)
	textB, okB := e.word(b)
	if okA && okB && textA == textB {
		return true
	}
	numberA, okA := e.whole(a)
	numberB, okB := e.whole(b)
	return okA && okB && numberA == numberB
}

func (e evaluation) word(t *Term) (text string, ok bool) {
	if t.Op == OpText {
		return t.Text, true
	}
	values, row, present := e.column(t.Word)
	if id := values.Words[row]; present && id > 0 {
		return e.window.Dictionary[id-1], true
	}
	return "", false
}

func (e evaluation) whole(t *Term) (value int64, ok bool) {
	if t.Int < 0 {
		return 0, false
	}
	values, row, present := e.column(t.Int)
	return values.Number(row), present
}
