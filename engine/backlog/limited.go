package backlog

import "github.com/quern-queue/quern/engine/queue"

// lookedGates bounds what Saturated looks at: with ten thousand values the shut gates may be anywhere.
const lookedGates = 256

// Saturated calls fn for values whose limit keeps submissions of the view from being taken, at most `most` times. It looks at
// a bounded part of the view, so it may find fewer than there are. A fair view may name a value once per tenant.
func (v *View) Saturated(most int, fn func(queue.Saturated)) {
	for i := range v.gates[:min(len(v.gates), lookedGates)] {
		g := &v.gates[i]
		if g.watched == nil || g.empty() || g.isOpen() {
			continue
		}
		if most--; most < 0 {
			return
		}
		entry := queue.MetaEntry{Key: g.watched.key.name, Value: g.watched.value}
		fn(queue.Saturated{MetaEntry: entry, InFlight: g.watched.inFlight, Limit: g.max})
	}
}
