package backlog

import "github.com/quern-queue/quern/engine/queue"

// lookedGates bounds what Saturated looks at: with ten thousand values the shut gates may be anywhere.
const lookedGates = 256

// Saturated calls fn for values whose limit keeps submissions of the view from being taken, until fn returns false. It looks at
// a bounded part of the view, so it may find fewer than there are. A fair view may name a value once per tenant. fn must not
// change the backlog.
func (v *View) Saturated(fn func(queue.Saturated) bool) {
	left := lookedGates
	if v.fair == nil {
		v.saturated(&left, fn)
		return
	}
	for _, leaf := range v.fair.leaves {
		if !leaf.saturated(&left, fn) {
			return
		}
	}
}

// saturated looks at up to *left gates of a view that has gates itself, and says whether to go on.
func (v *View) saturated(left *int, fn func(queue.Saturated) bool) bool {
	for i := range v.gates[:min(len(v.gates), *left)] {
		*left--
		g := &v.gates[i]
		if g.watched == nil || g.empty() || g.isOpen() || g.watched.ruling != queue.Unruled {
			continue
		}
		entry := queue.MetaEntry{Key: g.watched.key.name, Value: g.watched.value}
		if !fn(queue.Saturated{MetaEntry: entry, InFlight: g.watched.inFlight, Limit: g.max}) {
			return false
		}
	}
	return *left > 0
}
