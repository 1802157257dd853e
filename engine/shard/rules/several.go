package rules

// Rules about several values: the submissions whose meta fulfils all conditions of the rule.
//
// The backlog knows no such rules. For each submission that they cover it gets their ruling as if the submission had a
// rule of its own (Own). So setting or lifting one looks at all open submissions, in slices:
//
//	set   look at all as if the rule held ─► commit ─► it holds. A submission may be held back a moment too early.
//	lift  commit ─► it holds no more ─► look at all. A submission may be held back a moment too long.
//
// No covered chunk is handed out between the commit of a rule and the answer to a lift. There are few such rules
// (queue.MaxSeveralRules), because each insert looks at all of them.

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// several is such a rule with its conditions, ready to be asked.
type several struct {
	rule       queue.Rule
	conditions queue.Conditions
}

// severalOf reads the conditions of a rule; nil: they cannot be read, which the decoder of the op rules out.
func severalOf(rule *queue.Rule) *several {
	conditions, err := queue.ParseConditions(rule.Match.Several)
	if err != nil {
		return nil
	}
	return &several{*rule, conditions}
}

// Several is how many rules are about several values.
func (s *Set) Several() int { return len(s.several) }

// putSeveral keeps the rules about several values in the order of their ids.
func (s *Set) putSeveral(rule *queue.Rule) {
	if of := severalOf(rule); of != nil {
		s.several = append(s.several, of)
		slices.SortFunc(s.several, func(a, b *several) int { return int(a.rule.ID) - int(b.rule.ID) })
	}
}

func (s *Set) removeSeveral(id queue.RuleID) {
	s.several = slices.DeleteFunc(s.several, func(of *several) bool { return of.rule.ID == id })
}

// covering finds the first rule about several values that covers this meta and for which `counts` is true; false if
// there is none.
func (s *Set) covering(meta queue.Meta, r *queue.Rule, counts func(*queue.Rule) bool) (is bool) {
	for _, of := range s.several {
		if counts(&of.rule) && of.conditions.Cover(meta) {
			*r = of.rule
			return true
		}
	}
	return false
}

// severalGrace is the latest grace of lifted rules about several values that covered this meta.
func (s *Set) severalGrace(meta queue.Meta) (until queue.Time) {
	for match, at := range s.graces {
		if match.Several == "" || at <= until {
			continue
		}
		if c, err := queue.ParseConditions(match.Several); err == nil && c.Cover(meta) {
			until = at
		}
	}
	return until
}

// sliced is a rule about several values that a caller is setting or lifting, by looking at all submissions in slices.
type sliced struct {
	match queue.RuleMatch
	set   *several // the rule, which counts as if it held already; nil: it is lifted
}

// Own is the ruling on a submission by the rules about it alone, and by those about several values.
func (p *Part) Own(r *machine.Record) queue.Ruling {
	if p.Len() == 0 && p.sliced == nil {
		return queue.Unruled
	}
	is := p.On(queue.RuleMatch{Submission: r.ID})
	all := p.several
	if p.sliced != nil && p.sliced.set != nil {
		all = append(slices.Clip(all), p.sliced.set)
	}
	if len(all) == 0 {
		return is
	}
	meta := r.Meta()
	for _, of := range all {
		if of.rule.Ruling() > is && of.conditions.Cover(meta) {
			is = of.rule.Ruling()
		}
	}
	return is
}

// reown gives the backlog the rulings on single submissions again, for up to `most` slots from one on. It returns the
// slot to go on from; 0: it has done all.
func (p *Part) reown(from, most int) (next int) {
	m := p.m
	slots := int(m.Backlog.Slots())
	for slot := max(from, 0); slot < slots; slot++ {
		if most--; most < 0 {
			return slot
		}
		if sub := m.Backlog.InSlot(uint32(slot)); sub != nil {
			p.reownOne(sub.Data.(*machine.Record))
		}
	}
	return 0
}

func (p *Part) reownOne(r *machine.Record) {
	p.m.Backlog.Rules.SetSubmission(r.Sub, p.Own(r))
}

// begin makes the backlog follow a rule about several values already before it is set, or, if it is to be lifted, until
// finish. in is the machine of that backlog; nil: the rule is not about several values.
func (r *Rules) begin(match queue.RuleMatch, set *queue.Rule) (in *machine.Machine) {
	if match.Several == "" {
		return nil
	}
	err := r.Locked(func(m *machine.Machine, _ queue.Time) error {
		in = m
		r.Part().sliced = &sliced{match: match}
		if set != nil {
			r.Part().sliced.set = severalOf(set)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	if set != nil {
		r.slices(in, func(from int) int { return r.Part().reown(from, CountMost) })
	}
	return in
}

// finish undoes begin. Chunks that no rule covers any more are handed out, slice by slice.
func (r *Rules) finish(in *machine.Machine) {
	if in == nil {
		return
	}
	r.Look(func(m *machine.Machine) {
		if m == in {
			r.Part().sliced = nil
		}
	})
	r.slices(in, func(from int) int {
		next := r.Part().reown(from, CountMost)
		r.Wake(r.Now())
		return next
	})
}

// How many submissions questions about rules of several values look at in a hold of the mutex:
const (
	mostHolding = 1000      // to explain an empty reserve
	mostKept    = 1_000_000 // to count the work that the rules of a list keep
)

// eachKept calls fn for the shown submissions with available chunks that rules about single submissions or
// several values cover, until it returns false. It looks at up to `most` submissions; all: at every one.
func (p *Part) eachKept(most int, fn func(r *machine.Record, available uint64) bool) (all bool) {
	m := p.m
	slots := int(m.Backlog.Slots())
	for slot := range min(slots, most) {
		sub := m.Backlog.InSlot(uint32(slot))
		if sub == nil || !sub.Shown() || sub.Available() == 0 || !sub.OwnRuling() {
			continue
		}
		if !fn(sub.Data.(*machine.Record), uint64(sub.Available())) {
			break
		}
	}
	return slots <= most
}

// severalHold says that rules about several values hold back work of the plan, judged by the first submissions: the
// answer only explains an empty reserve.
func (p *Part) severalHold(plan *strategy.Plan) (is bool) {
	if p.Several() > 0 {
		p.eachKept(mostHolding, func(r *machine.Record, _ uint64) bool {
			is = machine.Matches(plan, r.Meta())
			return !is
		})
	}
	return is
}

// severalKept counts, by rule, the chunks that rules about several values keep. It is empty where there are too many
// submissions to look at.
func (p *Part) severalKept() (kept map[queue.RuleID]uint64) {
	if p.Several() == 0 {
		return nil
	}
	kept = map[queue.RuleID]uint64{}
	if all := p.eachKept(mostKept, func(r *machine.Record, available uint64) bool {
		meta := r.Meta()
		for _, of := range p.several {
			if of.conditions.Cover(meta) {
				kept[of.rule.ID] += available
			}
		}
		return true
	}); !all {
		return nil
	}
	return kept
}
