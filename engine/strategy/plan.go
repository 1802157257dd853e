package strategy

import (
	"strconv"

	"github.com/quern-queue/quern/engine/queue"
)

// Order is how the candidates of one branch are ordered.
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

// Filter admits the submissions whose meta has exactly this value for Key.
type Filter struct {
	Key   queue.MetaKey
	Value queue.MetaValue
}

// Limit admits the submissions whose value of Key has fewer than Max chunks in flight; a value with Max or more is gated.
// Submissions without Key are always admitted. Max is 1 to MaxLimit.
type Limit struct {
	Key queue.MetaKey
	Max uint32
}

// Branch is one alternative of a plan: the submissions that every filter and every limit admits, in one order. A branch
// of a plan is shared by all who hold the plan and must not be changed.
type Branch struct {
	Filters []Filter // sorted by key, one per key
	Limits  []Limit  // sorted by key, one per key: the smallest Max that was asked for
	Order   Order
	Fair    queue.MetaKey // not "": shared between this key's values, Order holds within each of them; may be SubmissionKey
	key     string
	ways    []uint8 // through the blocks around its order, the innermost first; no part of its identity
}

// Key is the branch's canonical identity: two branches of the same key offer the same chunks in the same order. It is
// readable too, as in
//
//	OldestFirst where mode="preview" and tier=3 while company<5
//
// with strings quoted as in the text form, "where" before the filters and "while" before the limits; of a fair branch the
// order is "Fair company OldestFirst".
func (b *Branch) Key() string {
	if b.key == "" { // made by hand, not compiled
		return b.makeKey()
	}
	return b.key
}

func (b *Branch) makeKey() string {
	size := len("Fair  ") + len(b.Fair) + len(" where ") + len(" while ") + len("CustomPriority")
	for i := range b.Filters {
		size += len(b.Filters[i].Key) + len(b.Filters[i].Value.Text()) + len(" and =-9223372036854775808")
	}
	for i := range b.Limits {
		size += len(b.Limits[i].Key) + len(" and <2147483647")
	}
	dst := make([]byte, 0, size)
	if b.Fair != "" {
		dst = append(append(append(dst, "Fair "...), b.Fair...), ' ')
	}
	dst = append(dst, b.Order.String()...)
	for i := range b.Filters {
		dst = append(dst, conjunction(i, " where ")...)
		dst = append(dst, b.Filters[i].Key...)
		dst = append(dst, '=')
		dst = appendValue(dst, b.Filters[i].Value)
	}
	for i := range b.Limits {
		dst = append(dst, conjunction(i, " while ")...)
		dst = append(dst, b.Limits[i].Key...)
		dst = append(dst, '<')
		dst = strconv.AppendUint(dst, uint64(b.Limits[i].Max), 10)
	}
	return string(dst)
}

func conjunction(index int, first string) string {
	if index == 0 {
		return first
	}
	return " and "
}

// Plan is a compiled strategy: the branches in the order in which they are asked, each only for what those before it
// could not fill. No two are alike. There are none when every alternative asks for two values of one key at once: such a
// strategy is valid and offers nothing.
type Plan struct {
	Branches []Branch

	root block // nil when made by hand
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
