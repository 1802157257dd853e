package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// ValueCount has the counts of one value of a key.
type ValueCount struct {
	Value       queue.MetaValue
	InFlight    uint64 // chunks in flight
	Available   uint64 // chunks available in shown submissions that no rule covers
	Paused      uint64 // those that a pause covers, and no block
	Blocked     uint64 // those that a block covers
	Submissions int    // submissions that have the value, hidden ones too
}

// Of returns the counts of one value of a key: zero counts if no submission has it.
func (v *values) Of(key queue.MetaKey, value queue.MetaValue) ValueCount {
	if t := v.find(key, value); t != nil {
		return t.count(v.rules)
	}
	return ValueCount{Value: value}
}

func (t *term) count(r *rulings) ValueCount {
	n := t.amounts(r)
	return ValueCount{
		Value: t.value, InFlight: uint64(t.own()), Available: n.Ready, Paused: n.Paused, Blocked: n.Blocked,
		Submissions: int(t.all),
	}
}

// Counts are the counters of a value, by measure.
type Counts [strategy.Measures]uint32

// Counts are the counters of the value now.
func (v *values) Counts(key queue.MetaKey, value queue.MetaValue) (counts Counts) {
	if t := v.find(key, value); t != nil {
		for of := range t.counters {
			counts[of] = t.counters[of].count
		}
	}
	return counts
}

// Take counts one chunk more that is taken.
func (c *Counts) Take() { c[strategy.Simultaneous]++ }

// Having is how many shown submissions have the value.
func (v *values) Having(entry queue.MetaEntry) int {
	if t := v.find(entry.Key, entry.Value); t != nil {
		return len(t.shown)
	}
	return 0
}

// Keys calls fn for every key that submissions have or standing views ask for, in no
// particular order. fn must not change the backlog.
func (v *values) Keys(fn func(queue.MetaKey)) {
	for key := range v.keys {
		if _, lack := queue.LackedBy(key); key != "" && !lack { // "" is what rates without a key count
			fn(key)
		}
	}
}

// ValueWalk is the position of a walk over the values of a key. The zero ValueWalk begins a
// walk. The backlog may change between its steps: the walk may miss values that come or go
// meanwhile, and meets all others.
type ValueWalk struct {
	// Twice says that values went between two steps, so that others may have been met twice.
	Twice bool

	key   *metaKey
	at    int // the terms before this place are left
	left  uint64
	begun bool
}

// Walk calls fn for the next values of the key, after looking at `most` of them at most, and
// says whether more are left. fn must not change the backlog. It walks from the end: when a
// value goes, the last one takes its place, which a walk from the front would never meet.
func (v *values) Walk(key queue.MetaKey, w *ValueWalk, most int, fn func(ValueCount)) (more bool) {
	k := v.keys[key]
	if k == nil {
		return false
	}
	switch {
	case !w.begun:
		w.begun, w.key, w.at, w.left = true, k, len(k.terms), k.left
	case w.key != k: // all its values went, and new ones came
		return false
	case w.left != k.left:
		w.Twice, w.left, w.at = true, k.left, min(w.at, len(k.terms))
	}
	for ; most > 0 && w.at > 0; most-- {
		w.at--
		if t := k.terms[w.at]; t.all > 0 {
			fn(t.count(v.rules))
		}
	}
	return w.at > 0
}

// EachShown calls fn for up to `most` shown submissions that have a value, from a place of
// its list down, and returns where to go on.
func (v *values) EachShown(entry queue.MetaEntry, from, most int, fn func(*Submission)) (next int) {
	t := v.find(entry.Key, entry.Value)
	if t == nil {
		return 0
	}
	if from < 0 {
		from = len(t.shown)
	}
	for next = min(from, len(t.shown)); most > 0 && next > 0; most-- {
		next--
		fn(v.subs.list[t.shown[next]])
	}
	return next
}
