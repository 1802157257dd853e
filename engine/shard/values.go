package shard

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// Values are the values of meta keys, with their counts and what is demanded of them.
type Values struct{ s *Shard }

// valueSlice is how many values of a key one hold of the mutex copies.
const valueSlice = 1000

// List appends the values of a meta key with their counts, in no useful order: each once, `most` of them at most. whole says
// that there are no more. They are copied in slices, between which everybody else has a turn, so that the counts are of several
// moments: values that come or go meanwhile may be missing.
func (p *Values) List(key queue.MetaKey, most int, dst []backlog.ValueCount) (list []backlog.ValueCount, whole bool) {
	s := p.s
	from := len(dst)
	var walk backlog.ValueWalk
	for more := true; more; {
		room := most - (len(dst) - from)
		if room <= 0 {
			break
		}
		s.mu.Lock()
		more = s.m.Backlog.Values.Walk(key, &walk, min(room, valueSlice), func(v backlog.ValueCount) { dst = append(dst, v) })
		s.mu.Unlock()
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
func (p *Values) Get(entry queue.MetaEntry) backlog.ValueCount {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Backlog.Values.Of(entry.Key, entry.Value)
}

// Keys lists the meta keys that submissions have, in no useful order.
func (p *Values) Keys() (keys []queue.MetaKey) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.Backlog.Values.Keys(func(key queue.MetaKey) { keys = append(keys, key) })
	return keys
}

// Settings are what is set for a value.
func (p *Values) Settings(entry queue.MetaEntry) queue.ValueSettings {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.ValueLimits.Settings(entry)
}
