package machine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// CountMost is how many submissions one hold of the mutex enters into a book.
const CountMost = 2000

// HeldRule is a rule that holds, with the chunks that it keeps from being handed out. Several rules may keep the same ones.
type HeldRule struct {
	queue.Rule
	Chunks uint64
}

// KeptBy counts the chunks that would be available, were it not for the rules on what is matched and those on others that cover it too.
func (p *activeRules) KeptBy(match *queue.RuleMatch) uint64 {
	m := p.m
	switch {
	case match.Whole():
		n := m.Backlog.Amounts()
		return n.Paused + n.Blocked
	case match.Submission == 0:
		n := m.Backlog.Value(match.Entry.Key, match.Entry.Value)
		return n.Paused + n.Blocked
	}
	if r := m.Record(match.Submission); r != nil {
		sub := m.Info(r, "")
		return uint64(sub.Paused) + uint64(sub.Blocked)
	}
	return 0
}

// Refusal is why something with this meta may not be inserted now, nil if it may. The mutex is held.
func (p *activeRules) Refusal(meta queue.Meta) error {
	rule, refused := p.Refusing(meta)
	if !refused {
		return nil
	}
	text := describe(&rule)
	if rule.Until != 0 {
		text += fmt.Sprintf(". It ends at %s", rule.Until.Std().Format(time.RFC3339))
	}
	return &queue.Error{Code: queue.CodeRefusedByRule, Message: "Inserts are refused by " + text + "."}
}

// RuleRows are what the store is to know of rules, and of those that have ended; nil: it does.
type RuleRows struct{ Standing, Past []byte }

// Rows makes them. The mutex is held.
func (p *activeRules) Rows(now queue.Time) (rows RuleRows) {
	if p.Changed {
		p.Changed = false
		row := journal.Rules{Position: p.m.AppliedAt, Last: p.Last(), Rules: p.List()}
		p.Graces(now, func(match queue.RuleMatch, until queue.Time) {
			row.Graces = append(row.Graces, journal.Grace{Match: match, Until: until})
		})
		rows.Standing = journal.AppendRules(nil, &row)
	}
	if p.PastChanged {
		p.PastChanged = false
		rows.Past = journal.AppendEndedRules(nil, p.Past.List())
	}
	return rows
}

// RuledAmount is how much one rule keeps from every strategy.
type RuledAmount struct {
	Rule    queue.Rule
	Refused Amount
}

// RuleTally counts submissions by the rule that counts for them.
type RuleTally struct {
	of map[queue.RuleID]*RuledAmount
}

// Count counts a submission if a rule covers it, and says whether one does.
func (t *RuleTally) Count(m *Machine, x *backlog.Submission) bool {
	if x.Ruling() == queue.Unruled || x.Available() == 0 {
		return false
	}
	rule, covered := m.Rules.CoveringRecord(x.Data.(*Record))
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

// Most are the rules that keep most chunks.
func (t *RuleTally) Most() (list []RuledAmount) {
	for _, amount := range t.of {
		list = append(list, *amount)
	}
	slices.SortFunc(list, func(a, b RuledAmount) int {
		return cmp.Or(cmp.Compare(b.Refused.Chunks, a.Refused.Chunks), cmp.Compare(a.Rule.ID, b.Rule.ID))
	})
	return list[:min(TopMost, len(list))]
}
