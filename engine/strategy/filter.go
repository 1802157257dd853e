package strategy

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// Filter admits the submissions whose meta has exactly this value for Key. Another kind of filter says here what it admits, how it is
// written, by which values a view finds what it admits, and how it goes together with others: nothing else looks inside.
type Filter struct {
	Key   queue.MetaKey
	Value queue.MetaValue
}

// Admits says whether the filter lets a submission through that has this value for Key, or none.
func (f Filter) Admits(value queue.MetaValue, has bool) bool { return has && value == f.Value }

// Index is the values by which a view finds all that the filter admits, each once. none: it has to look at every submission.
func (f Filter) Index() []queue.MetaEntry { return []queue.MetaEntry{{Key: f.Key, Value: f.Value}} }

// implies says that the other filter admits whatever this one admits.
func (f Filter) implies(other Filter) bool { return f == other }

// only is the one value that the filter admits, if there is one only.
func (f Filter) only() (value queue.MetaValue, one bool) { return f.Value, true }

func (f Filter) appendText(dst []byte) []byte {
	return appendValue(append(append(dst, f.Key...), '='), f.Value)
}

// withFilter adds a filter to a sorted list without changing that list. It is not possible when the two admit nothing together.
func withFilter(filters []Filter, f Filter) (_ []Filter, possible bool) {
	at, found := slices.BinarySearchFunc(filters, f, func(a, b Filter) int { return cmp.Compare(a.Key, b.Key) })
	if found {
		return filters, filters[at].implies(f)
	}
	return slices.Insert(slices.Clone(filters), at, f), true
}
