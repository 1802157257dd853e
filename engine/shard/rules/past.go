package rules

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// Past is the rules of one queue that have ended, the last queue.MaxEndedRules of them.
// The zero value has none. It is not safe for concurrent use.
type Past struct {
	list []queue.EndedRule // by their end
}

// Add notes the end of a rule. An id is never given again, so one that is known comes from
// a replay, and changes nothing.
func (p *Past) Add(r queue.EndedRule) {
	if slices.ContainsFunc(p.list, func(known queue.EndedRule) bool { return known.ID == r.ID }) {
		return
	}
	at, _ := slices.BinarySearchFunc(p.list, r, func(known, r queue.EndedRule) int {
		return cmp.Or(cmp.Compare(known.Ended, r.Ended), cmp.Compare(known.ID, r.ID))
	})
	if at == 0 && len(p.list) >= queue.MaxEndedRules {
		return // older than all that are kept
	}
	p.list = slices.Insert(p.list, at, r)
	if over := len(p.list) - queue.MaxEndedRules; over > 0 {
		p.list = slices.Delete(p.list, 0, over)
	}
}

// List is a copy of all that are kept, the one that ended first in front.
func (p *Past) List() []queue.EndedRule { return slices.Clone(p.list) }
