package rules

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Part knows the rules, the submissions that they cover, and the last rules that ended.
//
// `spared` exists because a pause must not cost a customer the work: a dead_deadline that passes
// under a rule ends nothing. When a rule is lifted, `again` is set to the length of the list. The
// worker then looks at its entries from there down, some in each slice, so lifting a rule takes no
// longer when thousands were spared.
type Part struct {
	m *machine.Machine
	*Set
	drawn   queue.RuleID          // the last id that was drawn
	lifting map[queue.RuleID]bool // those whose end is on its way to the disk; true: their time is over
	// the rule with a change on its way to the disk: its time is not known until then; 0: none
	setting queue.RuleID
	// the position of the row that was loaded: older ops are not replayed
	stored journal.Position
	past   Past    // that have ended
	sliced *sliced // the rule that a caller sets or lifts in slices; nil: none

	// Submissions whose dead_deadline passed while a rule covered them. Below `again` they
	// are to be looked at again: a rule was lifted.
	spared []*machine.Record
	again  int
}

// NewPart is the part of a machine without rules.
func NewPart(m *machine.Machine) *Part {
	return &Part{m: m, Set: New(), lifting: map[queue.RuleID]bool{}}
}

// Apply sets or lifts a rule.
func (p *Part) Apply(op journal.PartOp) (mine bool, err error) {
	rule, mine := op.(journal.Rule)
	switch m := p.m; {
	case !mine || m.Replay && m.AppliedAt <= p.stored:
	case rule.Lift:
		p.changed()
		p.lifted(&rule)
	default:
		p.changed()
		p.set(&rule)
	}
	return mine, nil
}

func (p *Part) set(op *journal.Rule) {
	if id := op.Rule.Match.Submission; id != 0 && !p.m.Replay && p.m.Live(id) == nil {
		p.SetLast(op.Rule.ID)
		return // it ended meanwhile
	}
	p.Put(op.Rule)
	p.tell(op.Rule.Match)
}

func (p *Part) lifted(op *journal.Rule) {
	itself := p.lifting[op.Rule.ID]
	r, was := p.Lift(op.Rule.ID, op.Grace)
	if was {
		p.past.Add(queue.EndedRule{Rule: r, Ended: op.At, End: op.End, By: op.By})
		p.tell(r.Match)
	}
	if itself {
		p.m.Stats.Acted(machine.KindRule, was)
	}
	p.again = len(p.spared)
}

// Audit counts the rules by action.
func (p *Part) Audit() error {
	var there [queue.RuleActions]int
	for _, r := range p.List() {
		there[r.Action]++
	}
	kept := [queue.RuleActions]int{queue.Pause: p.Count(queue.Pause), queue.Block: p.Count(queue.Block)}
	if kept != there {
		return fmt.Errorf("rules by action: %v are counted, %v there", kept, there)
	}
	return nil
}

// tell gives the backlog the present ruling on a match.
func (p *Part) tell(match queue.RuleMatch) {
	m := p.m
	if m.Replay {
		return // Replayed does
	}
	for _, ruled := range m.Joined.Ruled {
		ruled()
	}
	ruling := p.On(match)
	switch {
	case match.Whole():
		m.Backlog.Rules.SetAll(ruling)
	case match.Entry.Key != "":
		m.Backlog.Rules.SetValue(match.Entry, ruling)
	case match.Submission != 0:
		if r := m.Live(match.Submission); r != nil && r.Sub != nil {
			p.reownOne(r)
		}
	case p.sliced == nil || p.sliced.match != match:
		p.reown(0, math.MaxInt)
	}
}

// Replayed ends a replay: it gives all rules to the backlog before anything is offered, and drops rules about
// submissions that ended.
func (p *Part) Replayed() {
	p.drawn = p.Last()
	for _, r := range p.List() {
		if id := r.Match.Submission; id != 0 && p.m.Live(id) == nil {
			if p.Drop(id) {
				p.changed()
			}
			continue
		}
		if r.Match.Several == "" {
			p.tell(r.Match)
		}
	}
	if p.Several() > 0 {
		p.reown(0, math.MaxInt)
	}
}

// Ended ends the rules about a submission that has ended.
func (p *Part) Ended(sub *machine.Record) {
	m := p.m
	if m.Replay && m.AppliedAt <= p.stored {
		return // it may have been opened again since, and have new rules
	}
	for action := range queue.RuleAction(queue.RuleActions) {
		if r, is := p.Find(action, queue.RuleMatch{Submission: sub.ID}); is {
			p.past.Add(queue.EndedRule{Rule: r, Ended: m.Now, End: queue.RuleOutlived})
		}
	}
	if p.Drop(sub.ID) {
		p.changed()
	}
}

// changed has the row written again.
func (p *Part) changed() { p.m.Asides.Changed(machine.AsideRules, 0) }

// Row is the row that the store keeps of rules. It says up to which position it is true: a replay of earlier ops would
// do harm, as a submission may have been opened again since, and have new rules.
func (p *Part) Row(uint64) []byte {
	row := journal.Rules{Position: p.m.AppliedAt, Last: p.Last(), Rules: p.List(), Ended: p.past.list}
	p.Graces(p.m.Now, func(match queue.RuleMatch, until queue.Time) {
		row.Graces = append(row.Graces, journal.Grace{Match: match, Until: until})
	})
	return journal.AppendRules(nil, &row)
}

// Load reads the row.
func (p *Part) Load(_ uint64, row []byte) error {
	known, err := journal.DecodeRules(row)
	if err != nil {
		return fmt.Errorf("%w: %w", machine.AsideError(machine.AsideRules), err)
	}
	p.stored = known.Position
	p.SetLast(known.Last)
	for _, r := range known.Rules {
		p.Put(r)
	}
	for _, g := range known.Graces {
		p.SetGrace(g.Match, g.Until)
	}
	p.past.list = known.Ended
	return nil
}

// Past is the rules of one queue that have ended, the last queue.MaxEndedRules of them.
// The zero value has none. It is not safe for concurrent use.
type Past struct {
	list []queue.EndedRule // by their end
}

// Add notes the end of a rule. An id is never given again, so a known one comes from a replay, and changes nothing.
func (p *Past) Add(r queue.EndedRule) {
	if slices.ContainsFunc(p.list, func(known queue.EndedRule) bool { return known.ID == r.ID }) {
		return
	}
	at, _ := slices.BinarySearchFunc(p.list, r, func(known, r queue.EndedRule) int {
		return cmp.Or(cmp.Compare(known.Ended, r.Ended), cmp.Compare(known.ID, r.ID))
	})
	if at == 0 && len(p.list) >= queue.MaxEndedRules {
		return // it ended before all that are kept
	}
	p.list = slices.Insert(p.list, at, r)
	if over := len(p.list) - queue.MaxEndedRules; over > 0 {
		p.list = slices.Delete(p.list, 0, over)
	}
}

// List returns a copy of the ended rules, the earliest end first.
func (p *Past) List() []queue.EndedRule { return slices.Clone(p.list) }
