package journal

import (
	"math"

	"github.com/quern-queue/quern/engine/queue"
)

// Rule sets or lifts a rule. Setting one replaces that of the same action and match, whose
// id and beginning stay; lifting one that is not there does nothing: so applying either
// twice is applying it once.
//
// A lift carries its grace, so that a replay decides nothing: until then no dead_deadline ends what
// the rule covered, as no one could work on it.
type Rule struct {
	Lift  bool
	Rule  queue.Rule    // of a lift, only the id
	Grace queue.Time    // of a lift: until then no dead_deadline of what was covered ends anything
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
	atMost(c, &flags, endOfRuleFlags-1)
	unsigned(c, &r.Rule.ID)
	if c.reading {
		r.Lift = flags&ruleLifts != 0
		r.Rule.Insert, r.Rule.Revoke = flags&ruleInserts != 0, flags&ruleRevokes != 0
	}
	if r.Lift {
		signed(c, &r.Grace)
		ruleEnd(c, &r.At, &r.End, &r.By)
		return
	}
	if c.reading && flags&ruleBlocks != 0 {
		r.Rule.Action = queue.Block
	}
	match := &r.Rule.Match
	if flags&ruleOfValue != 0 {
		value := queue.Meta{match.Entry}
		meta(c, &value)
		if c.must(len(value) == 1); c.reading && !c.bad {
			match.Entry = value[0]
		}
	}
	if flags&ruleOfSubmission != 0 {
		unsigned(c, &match.Submission)
	}
	// Conditions that are not in their one order would be another rule about the same: they can only be damage.
	if flags&ruleOfSeveral != 0 {
		c.text(&match.Several)
		_, err := queue.ParseConditions(match.Several)
		c.must(err == nil && flags&(ruleOfValue|ruleOfSubmission) == 0)
	}
	signed(c, &r.Rule.Since)
	signed(c, &r.Rule.Until)
	c.text(&r.Rule.Reason)
	c.text(&r.Rule.Actor)
	c.must(match.Entry.Key == "" || match.Submission == 0)
}

// ruleEnd is when a rule ended, why, and who asked for it.
func ruleEnd(c *coder, at *queue.Time, end *queue.RuleEnd, by *string) {
	signed(c, at)
	octet(c, end, queue.RuleOutlived)
	c.text(by)
}

// Rules is what is known of rules at one moment, as the store keeps it in one row.
// The row is written at a checkpoint, after which the ops before Position are trimmed. Last is part of it although it
// can be larger than the id of every rule here: an id that was given is never given again, so that a client that lifts
// an old rule cannot meet a new one.
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
	unsigned(c, &r.Position)
	unsigned(c, &r.Last)
	many(c, &r.Rules, queue.MaxRules, func(rule *queue.Rule) { activeRule(c, rule) })
	many(c, &r.Graces, math.MaxUint32, func(g *Grace) {
		rule := queue.Rule{Match: g.Match, Until: g.Until}
		activeRule(c, &rule)
		g.Match, g.Until = rule.Match, rule.Until
	})
	many(c, &r.Ended, queue.MaxEndedRules, func(r *queue.EndedRule) {
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

// DecodeRules reads what AppendRules wrote.
func DecodeRules(b []byte) (Rules, error) { return readRow(b, rulesVersion, (*Rules).fields) }
