package inspect

import (
	"cmp"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// ruleTally counts submissions by the rule that counts for them.
type ruleTally struct {
	of map[queue.RuleID]*ruled
}

// ruled is how much one rule keeps from every strategy.
type ruled struct {
	rule    queue.Rule
	refused api.Amount
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
		t.of = map[queue.RuleID]*ruled{}
	}
	if t.of[rule.ID] == nil {
		t.of[rule.ID] = &ruled{rule: rule}
	}
	add(&t.of[rule.ID].refused, x)
	return true
}

// most are the rules that keep most chunks.
func (t *ruleTally) most() []api.RuledAmount {
	sorted := slices.SortedFunc(maps.Values(t.of), func(a, b *ruled) int {
		return cmp.Or(cmp.Compare(b.refused.Chunks, a.refused.Chunks), cmp.Compare(a.rule.ID, b.rule.ID))
	})
	list := make([]api.RuledAmount, min(machine.TopMost, len(sorted)))
	for i := range list {
		list[i] = api.RuledAmount{Rule: sorted[i].rule.API(), Refused: sorted[i].refused}
	}
	return list
}
