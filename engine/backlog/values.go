package backlog

import "github.com/quern-queue/quern/engine/queue"

// Value is what is known of one value of a key: zero counts when no submission has it.
func (b *Backlog) Value(key queue.MetaKey, value queue.MetaValue) ValueCount {
	if k := b.keys[key]; k != nil {
		if t := k.byValue[value]; t != nil {
			return t.count(b)
		}
	}
	return ValueCount{Value: value}
}

// Having is how many shown submissions have the value.
func (b *Backlog) Having(entry queue.MetaEntry) int {
	if t := b.termOf(entry.Key, entry.Value); t != nil {
		return len(t.shown)
	}
	return 0
}

// Keys calls fn for every key that submissions have or standing views ask for, in no particular order. fn must not change the
// backlog.
func (b *Backlog) Keys(fn func(queue.MetaKey)) {
	for key := range b.keys {
		fn(key)
	}
}
