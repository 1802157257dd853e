package strategy

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/quern-queue/quern/engine/queue"
)

// Measure is what a limit counts of a value. To add one, give it a name here and say in backlog/counter.go what changes its counters:
// texts, plans, picks and explanations go by Limit alone.
type Measure uint8

// The measures.
const (
	Simultaneous Measure = iota // chunks that are in flight
	Measures                    // how many measures there are
)

// measures are what stands between the key and the number in the text of a limit.
var measures = [Measures]string{Simultaneous: "<"}

// Limit admits the submissions whose value of Key has a count below Max; a value with Max or more is gated. Submissions without Key are
// always admitted. Max is 1 to MaxLimit.
type Limit struct {
	Key queue.MetaKey
	Max uint32
	Of  Measure
}

// Reached says whether a count is at its limit: nothing more may be taken. It is the one place that compares the two.
func Reached(count, max uint32) bool { return count >= max }

// Reached says whether a value that counts so much is at the limit.
func (l Limit) Reached(count uint32) bool { return Reached(count, l.Max) }

// implies says that the other limit is kept where this one is.
func (l Limit) implies(other Limit) bool { return l.same(other) && l.Max <= other.Max }

// same says that both count the same.
func (l Limit) same(other Limit) bool { return l.Key == other.Key && l.Of == other.Of }

// compareLimits sorts by key and measure.
func compareLimits(a, b Limit) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Of, b.Of)) }

func (l Limit) appendText(dst []byte) []byte {
	return strconv.AppendUint(append(append(dst, l.Key...), measures[l.Of]...), uint64(l.Max), 10)
}

// withLimit adds a limit to a sorted list without changing that list; of two that count the same the smaller max holds.
func withLimit(limits []Limit, l Limit) []Limit {
	at, found := slices.BinarySearchFunc(limits, l, compareLimits)
	switch {
	case !found:
		return slices.Insert(slices.Clone(limits), at, l)
	case limits[at].implies(l):
		return limits
	}
	tighter := slices.Clone(limits)
	tighter[at] = l
	return tighter
}

// bound is the number of the limit in a list that counts the same as this one.
func (l Limit) bound(limits []Limit) uint64 {
	if at := slices.IndexFunc(limits, l.same); at >= 0 {
		return uint64(limits[at].Max)
	}
	return unbound
}
