package strategy

import (
	"slices"
	"strconv"

	"github.com/quern-queue/quern/engine/queue"
)

// Order is the order of the candidates of one branch.
type Order uint8

// The orders.
const (
	Random         Order = iota // exactly uniform over all chunks of the branch
	OldestFirst                 // by submission id, smallest first
	NewestFirst                 // by submission id, largest first
	CustomPriority              // by priority, largest first, then as OldestFirst
)

var orders = [...]string{"Random", "OldestFirst", "NewestFirst", "CustomPriority"}

// String is the order's name in the text form.
func (o Order) String() string { return orders[o] }

// Cost is the quantity that a Fair block shares out.
type Cost uint8

// The costs.
const (
	ByChunk Cost = iota // every chunk counts the same
	ByTime              // a chunk counts as long as it is held
)

var costs = [...]string{"chunk", "time"}

// String is the cost's name in the text form.
func (c Cost) String() string { return costs[c] }

// Branch is one alternative of a plan. Without Fair it is the submissions that every filter and every limit admits, in one
// order. With Fair, service is shared between the values of that key, and the value whose turn it is offers the first of Inner that has
// something. With Scored, the candidates of Inner, one branch after the other, go in the order of scores, a window at a time. All holders
// of a plan share its branches, so these must not be changed.
type Branch struct {
	Filters []Filter // sorted by key, one per key
	Limits  []Limit  // sorted by key and measure, one for each: the smallest Max that was asked for
	Order   Order
	Fewest  queue.MetaKey // the values of this key with the fewest chunks in flight come first, then Order decides; "": it alone does
	// of Fewest: submissions without the key count as one value; otherwise as one with nothing in flight
	FewestOne bool

	Fair   queue.MetaKey // may be SubmissionKey; if it is not "", the five above are not used: those of Inner's leaves count
	Cost   Cost
	Scored *Scored  // if it is not nil, neither are they, nor is Fair
	Inner  []Branch // no two alike

	// OnFault marks the implicit fallback of the last scored branch before it: it is asked only if that one's scorer faulted, or
	// there was no scorer.
	OnFault bool

	key   string
	plain *Branch // with OnFault: the branch that it repeats
	ways  []uint8 // of a leaf: through the blocks around its order, the innermost first; no part of its identity
}

// holds says that the branch is made of others.
func (b *Branch) holds() bool { return b.Fair != "" || b.Scored != nil }

// Leaves calls fn for the branch itself, or if it is fair or scored for every one inside of it that is not, until fn returns
// false. It reports whether fn never did.
func (b *Branch) Leaves(fn func(leaf *Branch) bool) bool {
	if !b.holds() {
		return fn(b)
	}
	for i := range b.Inner {
		if !b.Inner[i].Leaves(fn) {
			return false
		}
	}
	return true
}

// Loosens says that a leaf admits everything that another one admits: each of its filters and limits is also one of the other's, or is
// looser. The order does not matter.
func (b *Branch) Loosens(other *Branch) bool {
	return !slices.ContainsFunc(b.Filters, func(f Filter) bool {
		return !slices.ContainsFunc(other.Filters, func(o Filter) bool { return o.implies(&f) })
	}) && !slices.ContainsFunc(b.Limits, func(l Limit) bool {
		return !slices.ContainsFunc(other.Limits, func(o Limit) bool { return o.implies(l) })
	})
}

// size is how many leaves there are, each of them a standing index.
func (b *Branch) size() (leaves int) {
	b.Leaves(func(*Branch) bool { leaves++; return true })
	return leaves
}

// Key is the branch's canonical identity: two branches of the same key offer the same chunks in the same order. It is
// readable too, as in
//
//	OldestFirst where mode="preview" and tier=3 while company<5
//
// with strings quoted as in the text form, "where" before the filters and "while" before the limits; where values with the
// fewest chunks in flight come first, the order is "OldestFirst by fewest company",
// and "by fewest company or none" with FewestOne; a fair branch is
// "Fair company OldestFirst", of several alternatives "Fair company (OldestFirst while user<1; OldestFirst)", and of consumer
// time "Fair company by time OldestFirst"; a scored one is "Plugin deadline-first@1.2.0 window 64 (OldestFirst)" or
// "Score priority*10 - attempts*5 (OldestFirst)". The key of a branch that is asked OnFault ends with "on fault".
func (b *Branch) Key() string {
	if b.key == "" { // made by hand, not compiled
		return b.makeKey()
	}
	return b.key
}

func (b *Branch) makeKey() string {
	switch {
	case b.OnFault:
		return b.Plain().Key() + " on fault"
	case b.Fair != "":
		return b.makeFairKey()
	case b.Scored != nil:
		return string(b.appendInner(append(b.Scored.appendKey(nil), ' ')))
	}
	dst := append(make([]byte, 0, 128), b.Order.String()...)
	if b.Fewest != "" {
		dst = append(append(dst, " by fewest "...), b.Fewest...)
		if b.FewestOne {
			dst = append(dst, " or none"...)
		}
	}
	for i := range b.Filters {
		dst = append(dst, separator(i, " where ", " and ")...)
		dst = b.Filters[i].appendText(dst)
	}
	for i := range b.Limits {
		dst = append(dst, separator(i, " while ", " and ")...)
		dst = b.Limits[i].appendText(dst)
	}
	return string(dst)
}

func (b *Branch) makeFairKey() string {
	dst := b.appendFair(nil)
	if len(b.Inner) == 1 {
		return string(append(dst, b.Inner[0].Key()...))
	}
	return string(b.appendInner(dst))
}

func (b *Branch) appendInner(dst []byte) []byte {
	dst = append(dst, '(')
	for i := range b.Inner {
		if i > 0 {
			dst = append(dst, "; "...)
		}
		dst = append(dst, b.Inner[i].Key()...)
	}
	return append(dst, ')')
}

// appendFair appends the beginning of the key of a fair branch.
func (b *Branch) appendFair(dst []byte) []byte {
	dst = append(append(append(dst, "Fair "...), b.Fair...), ' ')
	if b.Cost != ByChunk {
		dst = append(append(append(dst, "by "...), b.Cost.String()...), ' ')
	}
	return dst
}

// separator is the text before an element of a list: `first` before the first one.
func separator(index int, first, others string) string {
	if index == 0 {
		return first
	}
	return others
}

// Plan is a compiled strategy: the branches in the order in which they are asked, each only for what those before it
// could not fill. No two are alike. There are none when every alternative asks for two values of one key at once: such a
// strategy is valid and offers nothing.
type Plan struct {
	Branches []Branch

	root     block // nil when made by hand
	tag      uint32
	percents []uint8 // of its limits, each once, in the order of the text
}

// Tag is a number that is made from the canonical text, for tables of plans: equal strategies have equal tags. It is 0 for plans that were
// made by hand.
func (p *Plan) Tag() uint32 { return p.tag }

// Bytes estimates the memory of a plan and its strategy: at least what was measured (TestPlanBytes).
func (p *Plan) Bytes() int { return 1<<10 + 32*len(p.Text()) + branchBytes(p.Branches) }

func branchBytes(list []Branch) (n int) {
	for i := range list {
		b := &list[i]
		n += 256 + 64*(len(b.Filters)+len(b.Limits)) + branchBytes(b.Inner)
		for i := range b.Filters {
			n += 64 * len(b.Filters[i].Values)
		}
	}
	return n
}

// String shows the plan to a person: one numbered branch per line, by its key, without a newline at the end.
func (p *Plan) String() string {
	if len(p.Branches) == 0 {
		return "no branches: the filters contradict each other, so this strategy matches nothing"
	}
	var dst []byte
	for i := range p.Branches {
		if i > 0 {
			dst = append(dst, '\n')
		}
		dst = strconv.AppendInt(dst, int64(i+1), 10)
		dst = append(dst, ' ')
		dst = append(dst, p.Branches[i].Key()...)
	}
	return string(dst)
}
