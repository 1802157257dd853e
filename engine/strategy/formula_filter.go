package strategy

import (
	"math"

	"github.com/quern-queue/quern/engine/queue"
)

// A formula needs some values of a submission, or else it skips the submission; filters express these needs where they
// can. With `if(meta.kind == "a", priority, skip)` only kind="a" can have a score, so the views below the block have no
// other submissions: none fills a window only to be skipped. The formula still decides about the rest.

// needs are filters that every submission with a score passes.
type needs struct {
	filters []Filter
	never   bool // no submission has a score
}

var nothing = needs{never: true}

// Needs are filters that every submission passes unless the formula skips it; none if it skips all.
func (e *Expression) Needs() []Filter { return e.root.needs().filters }

// also combines the needs of both.
func (n needs) also(other needs) needs {
	if n.never || other.never {
		return nothing
	}
	for _, f := range other.filters {
		var possible bool
		if n.filters, possible = withFilter(n.filters, f); !possible {
			return nothing
		}
	}
	return n
}

// either is the needs of one of the two: the values of both if they list values of one key, else none that a filter can
// express.
func (n needs) either(other needs) needs {
	switch {
	case n.never:
		return other
	case other.never:
		return n
	case len(n.filters) != 1 || len(other.filters) != 1:
		return needs{}
	}
	a, b := n.filters[0], other.filters[0]
	values := distinct(append(append([]queue.MetaValue{}, a.Values...), b.Values...))
	if a.Key != b.Key || a.Except || b.Except || len(values) > MaxSelected {
		return needs{}
	}
	return needs{filters: []Filter{{Key: a.Key, Values: values}}}
}

// needs are those of a term that is a number: NaN, which skips, passes through every operation.
func (t *Term) needs() (n needs) {
	switch t.Op {
	case OpNumber:
		return needs{never: math.IsNaN(t.Number)}
	case OpColumn, OpValue:
		return needs{} // where the value is absent it may have a default
	case OpIf:
		yes := t.Terms[0].holds(true).also(t.Terms[1].needs())
		return yes.either(t.Terms[0].holds(false).also(t.Terms[2].needs()))
	}
	for _, inner := range t.Terms {
		n = n.also(inner.needs())
	}
	return n
}

// holds are the needs of a condition to be `want`.
func (t *Term) holds(want bool) needs {
	switch t.Op {
	case OpNot:
		return t.Terms[0].holds(!want)
	case OpAnd, OpOr:
		one, two := t.Terms[0].holds(want), t.Terms[1].holds(want)
		if (t.Op == OpAnd) == want {
			return one.also(two)
		}
		return one.either(two)
	case OpSame, OpEqual, OpDiffer, OpNotEqual:
		f, ok := compares(t.Terms[0], t.Terms[1])
		if !ok {
			f, ok = compares(t.Terms[1], t.Terms[0])
		}
		if ok {
			f.Except = (t.Op == OpSame || t.Op == OpEqual) != want
			return needs{filters: []Filter{f}}
		}
	}
	return needs{}
}

// exactInts are the whole numbers below which each is a number of its own in floating point.
const exactInts = 1 << 53

// compares is the filter that a comparison of a key of the meta with a constant is.
func compares(of, with *Term) (Filter, bool) {
	key := queue.MetaKey(of.key)
	switch {
	case of.Op != OpValue || len(of.Terms) > 0 || formulaValues[of.name][0] != MetaInt:
		return Filter{}, false
	case with.Op == OpText:
		return Select(key, queue.StringValue(with.Text)), true
	case with.Op == OpNumber && with.Number == math.Trunc(with.Number) && math.Abs(with.Number) < exactInts:
		return Select(key, queue.IntValue(int64(with.Number))), true
	}
	return Filter{}, false
}
