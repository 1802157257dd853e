package strategy

import (
	"maps"
	"math"
	"slices"
	"strings"
)

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

// skip is the number that is none: the candidate is passed over.
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

// operator is how an operation between two terms is written. What has the larger rank binds tighter; those of one rank group
// from the left, comparisons not at all.
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
