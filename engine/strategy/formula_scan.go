package strategy

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanFormula reads the next token of a formula. It differs from scan in that "-" is an operator, and that numbers may have a
// unit.
func (s *scanner) scanFormula() (token, error) {
	s.skip(func(c byte) bool { return strings.IndexByte(" \t\r\n", c) >= 0 })
	at := s.next
	if at == len(s.source) {
		return token{kind: endToken, at: at}, nil
	}
	two := s.source[at:min(at+2, len(s.source))]
	switch c := s.source[at]; {
	case two == "<=" || two == ">=" || two == "==" || two == "!=":
		s.next += 2
		return token{kind: markToken, text: two, at: at}, nil
	case two == "&&" || two == "||" || c == '!':
		return token{}, s.problem(at, "unexpected %s; expected and, or, not", strings.TrimRight(two, " =("))
	case c == '=':
		return token{}, s.problem(at, "unexpected =; expected == to compare")
	case strings.IndexByte("()+-*/%<>,.", c) >= 0:
		s.next++
		return token{kind: markToken, text: s.source[at:s.next], at: at}, nil
	case c == '"':
		return s.scanString()
	case isDigit(c):
		return s.scanQuantity()
	case isNameStart(c):
		s.skip(func(c byte) bool { return isNameStart(c) || isDigit(c) })
		return token{kind: nameToken, text: s.source[at:s.next], at: at}, nil
	}
	r, _ := utf8.DecodeRuneInString(s.source[at:])
	return token{}, s.problem(at, "unexpected character %s; expected a number, a name, a string in double quotes or "+
		"an operator", strconv.QuoteRuneToASCII(r))
}

// scanQuantity reads a number, with all that looks like part of one: 1.5, 2e3, 5m.
func (s *scanner) scanQuantity() (token, error) {
	at := s.next
	s.skip(func(c byte) bool { return isDigit(c) || c == '.' })
	if rest := s.source[s.next:]; len(rest) > 2 && (rest[0] == 'e' || rest[0] == 'E') &&
		(rest[1] == '-' || rest[1] == '+') && isDigit(rest[2]) {
		s.next += 2
	}
	s.skip(func(c byte) bool { return isNameStart(c) || isDigit(c) || c == '.' })
	text := s.source[at:s.next]
	if _, ok := quantity(text); !ok {
		return token{}, s.problem(at, "expected a finite number such as 10, 0.5 or 1e3 (no leading zeros, digits on "+
			"both sides of a point), or a time such as 500ms, 30s, 5m, 2h or 1d; found %s", clip(text))
	}
	return token{kind: numberToken, text: text, at: at}, nil
}

// quantity is the number that a text says; a time in milliseconds.
func quantity(text string) (float64, bool) {
	number := strings.TrimRight(text, "msdh")
	unit, scale := text[len(number):], 1.0
	if unit != "" {
		scale = durations[unit]
	}
	if !isNumber(number) || scale == 0 {
		return 0, false
	}
	value, err := strconv.ParseFloat(number, 64)
	value *= scale
	return value, err == nil && value-value == 0
}

// formulaColumns are the columns that have no key.
var formulaColumns = map[string]struct {
	property Property
	divisor  float64
}{
	"id":                  {ID, 1},
	"index":               {Index, 1},
	"priority":            {Priority, 1},
	"age":                 {Age, 1},
	"age_s":               {Age, 1000},
	"attempts":            {Attempts, 1},
	"max_attempts":        {MaxAttempts, 1},
	"available":           {Available, 1},
	"total":               {Total, 1},
	"skipped":             {Skipped, 1},
	"inflight_submission": {InFlightSubmission, 1},
}

// formulaCounts are the columns that are about the candidate's value of a key.
var formulaCounts = map[string]Property{"inflight": InFlight, "limit": LimitOf}

// formulaValues are the values of a key, as numbers and as strings.
var formulaValues = map[string][2]Property{
	"meta":    {MetaInt, MetaString},
	"context": {ContextInt, ContextString},
}

// skip stands for NaN: the candidate is passed over.
const skip = "skip"

// formulaFunctions have a fixed number of terms; most 0 is any number.
var formulaFunctions = map[string]struct {
	op          Op
	least, most int
}{
	"if":    {OpIf, 3, 3},
	"min":   {OpMin, 2, 0},
	"max":   {OpMax, 2, 0},
	"clamp": {OpClamp, 3, 3},
	"abs":   {OpAbs, 1, 1},
	"floor": {OpFloor, 1, 1},
	"ceil":  {OpCeil, 1, 1},
	"sqrt":  {OpSqrt, 1, 1},
}

// operator is how an operation between two terms is written. An operator with a larger rank binds tighter. Operators of one
// rank group from the left; comparisons do not group.
type operator struct {
	op   Op
	text string
	rank int
}

// The ranks.
const (
	orRank = 1 + iota
	andRank
	notRank
	compareRank
	sumRank
	productRank
	unaryRank
	atomRank
)

var operators = []operator{
	{OpOr, "or", orRank}, {OpAnd, "and", andRank},
	{OpLess, "<", compareRank}, {OpLessEqual, "<=", compareRank}, {OpGreater, ">", compareRank}, {OpGreaterEqual, ">=", compareRank},
	{OpEqual, "==", compareRank}, {OpNotEqual, "!=", compareRank}, {OpSame, "==", compareRank}, {OpDiffer, "!=", compareRank},
	{OpAdd, "+", sumRank}, {OpSubtract, "-", sumRank},
	{OpMultiply, "*", productRank}, {OpDivide, "/", productRank}, {OpRemainder, "%", productRank},
}

// operatorOf is how the operation is written, false if it is not written between two terms.
func operatorOf(op Op) (operator, bool) {
	at := slices.IndexFunc(operators, func(o operator) bool { return o.op == op })
	if at < 0 {
		return operator{}, false
	}
	return operators[at], true
}

// durations are the units that may follow a number, in milliseconds.
var durations = map[string]float64{"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

// formulaNames lists everything that a term can begin with, for error texts.
func formulaNames() string {
	names := slices.Sorted(maps.Keys(formulaColumns))
	for _, name := range slices.Sorted(maps.Keys(formulaValues)) {
		names = append(names, name+".KEY", name+`("KEY")`)
	}
	for _, name := range slices.Sorted(maps.Keys(formulaCounts)) {
		names = append(names, name+`("KEY")`)
	}
	for _, name := range slices.Sorted(maps.Keys(formulaFunctions)) {
		names = append(names, name+"(...)")
	}
	return strings.Join(append(names, skip), ", ")
}

// notANumber is the score that skips; one bit pattern for all of them.
var notANumber = math.NaN()
