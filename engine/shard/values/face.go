// Package values answers calls about the values of meta keys: their counts, which the
// backlog has, and their limits, weights and rates, which settings has. It has no state.
package values

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Values has the calls about the values of meta keys.
type Values struct{ shell.Shell }

// slice is how many values of a key one hold of the mutex copies.
const slice = 1000

// List appends the values of a meta key with their counts, in no useful order: each once, `most` of them at most. whole
// says that there are no more. They are copied in slices, between which all others have a turn, so the counts are of
// several moments: values that come or go meanwhile may be missing.
func (v Values) List(key queue.MetaKey, most int, dst []backlog.ValueCount) (list []backlog.ValueCount, whole bool) {
	from := len(dst)
	var walk backlog.ValueWalk
	for more := true; more; {
		room := most - (len(dst) - from)
		if room <= 0 {
			break
		}
		v.Look(func(m *machine.Machine) {
			more = m.Backlog.Values.Walk(key, &walk, min(room, slice),
				func(value backlog.ValueCount) { dst = append(dst, value) })
		})
		whole = !more
	}
	if walk.Twice {
		dst = dst[:from+len(distinct(dst[from:]))]
	}
	return dst, whole
}

// distinct keeps the last count of each value, as it is the newest.
func distinct(list []backlog.ValueCount) []backlog.ValueCount {
	place := make(map[queue.MetaValue]int, len(list))
	keep := list[:0]
	for _, v := range list {
		if at, known := place[v.Value]; known {
			keep[at] = v
			continue
		}
		place[v.Value] = len(keep)
		keep = append(keep, v)
	}
	return keep
}

// Get is one value of a meta key with its counts, which are zero when no submission has it.
func (v Values) Get(entry queue.MetaEntry) (count backlog.ValueCount) {
	v.Look(func(m *machine.Machine) { count = m.Backlog.Values.Of(entry.Key, entry.Value) })
	return count
}

// Keys lists the meta keys that submissions have, in no useful order.
func (v Values) Keys() (keys []queue.MetaKey) {
	v.Look(func(m *machine.Machine) {
		m.Backlog.Values.Keys(func(key queue.MetaKey) { keys = append(keys, key) })
	})
	return keys
}

// Settings returns the limit, weight and rates of a value.
func (v Values) Settings(entry queue.MetaEntry) (set queue.ValueSettings) {
	v.Look(func(m *machine.Machine) { set = m.ValueLimits.Settings(entry) })
	return set
}
