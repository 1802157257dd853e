package backlog

import "github.com/quern-queue/quern/engine/queue"

// Gate is a value of a limited key in a view: InFlight of at most Max chunks. Empty says that none of the submissions
// that the view keeps behind it has an available chunk.
type Gate struct {
	Key      queue.MetaKey
	Value    queue.MetaValue
	InFlight uint32
	Max      uint32
	Empty    bool
}

// Submissions is how many submissions with available chunks the view has, those under a limit too.
func (v *View) Submissions() int { return v.size }

// Gates calls fn for the gates of a view from number `from` on, `most` of them at most, and returns the number to go on
// from; 0 at the end. Between two calls anything may happen to the backlog.
func (v *View) Gates(from, most int, fn func(Gate)) (next int) {
	for i := from; i < len(v.gates); i++ {
		if i-from == most {
			return i
		}
		if g := &v.gates[i]; g.watched != nil {
			t := g.watched
			fn(Gate{Key: t.key.name, Value: t.value, InFlight: t.inFlight, Max: g.max, Empty: g.empty()})
		}
	}
	return 0
}
