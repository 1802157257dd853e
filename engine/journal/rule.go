package journal

import (
	"math"

	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// Rule sets or lifts a rule. Setting one replaces that of the same action and match, whose
// id and beginning stay; lifting one that is not there does nothing: so applying either
// twice is applying it once.
//
// A lift carries its grace, so that a replay decides nothing: until then no dead_deadline ends a submission that the
// rule covered, as no one could work on it.
type Rule struct {
	Lift  bool
	Rule  queue.Rule    // of a lift, only the id
	Grace queue.Time    // of a lift: until then no dead_deadline ends a submission that was covered
	At    queue.Time    // of a lift: when it was decided
	End   queue.RuleEnd // of a lift
	By    string        // who asked for the lift
}

// The flags of a Rule.
const (
	ruleLifts = 1 << iota
	ruleBlocks
	ruleOfValue
	ruleOfSubmission
	ruleInserts
	ruleRevokes
	ruleOfSeveral
	endOfRuleFlags
)

func (r *Rule) flags() (flags uint64) {
	for _, f := range []struct {
		on   bool
		flag uint64
	}{
		{r.Lift, ruleLifts}, {r.Rule.Action == queue.Block, ruleBlocks}, {r.Rule.Match.Entry.Key != "", ruleOfValue},
		{r.Rule.Match.Submission != 0, ruleOfSubmission}, {r.Rule.Insert, ruleInserts}, {r.Rule.Revoke, ruleRevokes},
		{r.Rule.Match.Several != "", ruleOfSeveral},
	} {
		if f.on {
			flags |= f.flag
		}
	}
	return flags
}

func (r *Rule) fields(c *coder) {
	flags := r.flags()
	coding.AtMost(&c.Coder, &flags, endOfRuleFlags-1)
	coding.Unsigned(&c.Coder, &r.Rule.ID)
	if c.Reading {
		r.Lift = flags&ruleLifts != 0
		r.Rule.Insert, r.Rule.Revoke = flags&ruleInserts != 0, flags&ruleRevokes != 0
	}
	if r.Lift {
		coding.Signed(&c.Coder, &r.Grace)
		ruleEnd(c, &r.At, &r.End, &r.By)
		return
	}
	if c.Reading && flags&ruleBlocks != 0 {
		r.Rule.Action = queue.Block
	}
	match := &r.Rule.Match
	if flags&ruleOfValue != 0 {
		value := queue.Meta{match.Entry}
		meta(c, &value)
		if c.Must(len(value) == 1); c.Reading && !c.Bad {
			match.Entry = value[0]
		}
	}
	if flags&ruleOfSubmission != 0 {
		coding.Unsigned(&c.Coder, &match.Submission)
	}
	// Conditions that are not in their one order would be another rule about the same: they can only be damage.
	if flags&ruleOfSeveral != 0 {
		c.Text(&match.Several)
		_, err := queue.ParseConditions(match.Several)
		c.Must(err == nil && flags&(ruleOfValue|ruleOfSubmission) == 0)
	}
	coding.Signed(&c.Coder, &r.Rule.Since)
	coding.Signed(&c.Coder, &r.Rule.Until)
	c.Text(&r.Rule.Reason)
	c.Text(&r.Rule.Actor)
	c.Must(match.Entry.Key == "" || match.Submission == 0)
}

// ruleEnd is when a rule ended, why, and who asked for it.
func ruleEnd(c *coder, at *queue.Time, end *queue.RuleEnd, by *string) {
	coding.Signed(&c.Coder, at)
	coding.Octet(&c.Coder, end, queue.RuleOutlived)
	c.Text(by)
}

// Rules is the state of the rules at one moment, as the store keeps it in one row. The row is written at a checkpoint,
// after which the ops before Position are trimmed. Last is part of it although it can be larger than the id of every
// rule here: an id is never given twice, so that a client that lifts an old rule cannot lift a new one.
type Rules struct {
	Position Position     // up to which they are true
	Last     queue.RuleID // the largest id that was ever given
	Rules    []queue.Rule
	Graces   []Grace
	Ended    []queue.EndedRule // the last ones, by their end
}

// Grace is a time before which no dead_deadline ends a matching submission. Without it, paused work
// whose dead_deadline has passed would expire at the moment when the pause is lifted.
type Grace struct {
	Match queue.RuleMatch
	Until queue.Time
}

// rulesVersion is the first byte of the row.
const rulesVersion = 1

func (r *Rules) fields(c *coder) {
	coding.Unsigned(&c.Coder, &r.Position)
	coding.Unsigned(&c.Coder, &r.Last)
	coding.Many(&c.Coder, &r.Rules, queue.MaxRules, func(rule *queue.Rule) { activeRule(c, rule) })
	coding.Many(&c.Coder, &r.Graces, math.MaxUint32, func(g *Grace) {
		rule := queue.Rule{Match: g.Match, Until: g.Until}
		activeRule(c, &rule)
		g.Match, g.Until = rule.Match, rule.Until
	})
	coding.Many(&c.Coder, &r.Ended, queue.MaxEndedRules, func(r *queue.EndedRule) {
		activeRule(c, &r.Rule)
		ruleEnd(c, &r.Ended, &r.End, &r.By)
	})
}

// activeRule is a rule as the op that sets it has it.
// The row and the op share the code, so a field that a rule gets later is in both, or in neither.
func activeRule(c *coder, rule *queue.Rule) {
	set := Rule{Rule: *rule}
	set.fields(c)
	*rule = set.Rule
}

// AppendRules appends the encoding of rules. It is that of a version of its own, described
// in docs/formats/ops.md.
func AppendRules(dst []byte, r *Rules) []byte {
	return appendRow(dst, rulesVersion, (*Rules).fields, r)
}

// DecodeRules reads rules that AppendRules wrote.
func DecodeRules(b []byte) (Rules, error) { return readRow(b, rulesVersion, (*Rules).fields) }
