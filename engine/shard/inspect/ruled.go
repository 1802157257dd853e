package inspect

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// RuledAmount is how much one rule keeps from every strategy.
type RuledAmount struct {
	Rule    queue.Rule
	Refused machine.Amount
}

// ruleTally counts submissions by the rule that counts for them.
type ruleTally struct {
	of map[queue.RuleID]*RuledAmount
}

// count counts a submission if a rule covers it, and says whether one does.
func (t *ruleTally) count(m *machine.Machine, x *backlog.Submission) bool {
	if x.Ruling() == queue.Unruled || x.Available() == 0 {
		return false
	}
	r := x.Data.(*machine.Record)
	rule, covered := m.Joined.Rules.Covering(r.ID, r.Meta())
	if !covered {
		return false
	}
	if t.of == nil {
		t.of = map[queue.RuleID]*RuledAmount{}
	}
	if t.of[rule.ID] == nil {
		t.of[rule.ID] = &RuledAmount{Rule: rule}
	}
	t.of[rule.ID].Refused.Add(x)
	return true
}

// most are the rules that keep most chunks.
func (t *ruleTally) most() (list []RuledAmount) {
	for _, amount := range t.of {
		list = append(list, *amount)
	}
	slices.SortFunc(list, func(a, b RuledAmount) int {
		return cmp.Or(cmp.Compare(b.Refused.Chunks, a.Refused.Chunks), cmp.Compare(a.Rule.ID, b.Rule.ID))
	})
	return list[:min(machine.TopMost, len(list))]
}
