package strategy

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// MaxSelected is how many values one SelectAny or Except may list.
const MaxSelected = 64

// Filter admits submissions by the value that their meta has for Key: those with one of Values, or with Except all that have none of
// them, submissions without the key included unless Has says otherwise. A new kind of filter is added here: which values it admits,
// how it is written, by which values a view finds its submissions, and how it combines with others. No other code looks inside.
type Filter struct {
	Key    queue.MetaKey
	Values []queue.MetaValue // sorted, each once, none only with Has; shared and not to be changed
	Except bool
	Has    bool // with Except: submissions without the key are refused, too
}

// Select is the filter that admits one value of a key.
func Select(key queue.MetaKey, value queue.MetaValue) Filter {
	return Filter{Key: key, Values: []queue.MetaValue{value}}
}

// With is the filter that admits every submission that has a value for the key.
func With(key queue.MetaKey) Filter { return Filter{Key: key, Except: true, Has: true} }

// Admits says whether the filter lets a submission through that has this value for Key, or none.
func (f *Filter) Admits(value queue.MetaValue, has bool) bool {
	return (has && f.lists(value)) != f.Except && (has || !f.Has)
}

// lists says whether the value is one of those that the filter names.
func (f *Filter) lists(value queue.MetaValue) bool {
	_, found := slices.BinarySearchFunc(f.Values, value, queue.MetaValue.Compare)
	return found
}

// Index is the values by which a view finds all that the filter admits, each once. none: it has to look at every submission.
func (f *Filter) Index() []queue.MetaValue {
	if f.Except {
		return nil
	}
	return f.Values
}

// implies says that the other filter admits everything that this one admits.
func (f *Filter) implies(other *Filter) bool {
	if f.Key != other.Key {
		return false
	}
	if f.Except {
		return other.Except && (f.Has || !other.Has) &&
			!slices.ContainsFunc(other.Values, func(v queue.MetaValue) bool { return !f.lists(v) })
	}
	return !slices.ContainsFunc(f.Values, func(v queue.MetaValue) bool { return !other.Admits(v, true) })
}

// only is the one value that the filter admits, if there is one only.
func (f *Filter) only() (value queue.MetaValue, one bool) {
	if f.Except || len(f.Values) != 1 {
		return queue.MetaValue{}, false
	}
	return f.Values[0], true
}

// and is the filter that admits the values that both admit. It is not possible when there are none.
func (f *Filter) and(other *Filter) (both Filter, possible bool) {
	if f.Except && other.Except {
		values := distinct(append(slices.Clone(f.Values), other.Values...))
		return Filter{Key: f.Key, Values: values, Except: true, Has: f.Has || other.Has}, true
	}
	if f.Except {
		f, other = other, f
	}
	refused := func(v queue.MetaValue) bool { return !other.Admits(v, true) }
	both = Filter{Key: f.Key, Values: slices.DeleteFunc(slices.Clone(f.Values), refused)}
	return both, len(both.Values) > 0
}

// distinct sorts values in place and drops duplicates.
func distinct(values []queue.MetaValue) []queue.MetaValue {
	slices.SortFunc(values, queue.MetaValue.Compare)
	return slices.Compact(values)
}

// String is the filter as plans show it: kind="a", kind in ["a", "b"], kind not in ["a"]; of With, has kind, has kind not in ["a"].
func (f *Filter) String() string { return string(f.appendText(nil)) }

func (f *Filter) appendText(dst []byte) []byte {
	if f.Has {
		dst = append(dst, "has "...)
	}
	dst = append(dst, f.Key...)
	if value, one := f.only(); one {
		return appendValue(append(dst, '='), value)
	}
	if f.Has && len(f.Values) == 0 {
		return dst
	}
	if f.Except {
		dst = append(dst, " not"...)
	}
	return appendValues(append(dst, " in "...), f.Values, ", ")
}

// appendValues writes a list of values, with `between` between two of them.
func appendValues(dst []byte, values []queue.MetaValue, between string) []byte {
	for i, v := range values {
		dst = appendValue(append(dst, separator(i, "[", between)...), v)
	}
	return append(dst, ']')
}

// withFilter adds a filter to a sorted list without changing that list. It is not possible when the two admit nothing together.
func withFilter(filters []Filter, f Filter) (_ []Filter, possible bool) {
	at, found := slices.BinarySearchFunc(filters, f, func(a, b Filter) int { return cmp.Compare(a.Key, b.Key) })
	if !found {
		return slices.Insert(slices.Clone(filters), at, f), true
	}
	both, possible := filters[at].and(&f)
	narrower := slices.Clone(filters)
	narrower[at] = both
	return narrower, possible
}
