package queue

import (
	"fmt"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// RuleID names a rule within its queue. Ids grow and are never used again.
type RuleID uint32

// RuleAction is the action of a rule.
type RuleAction uint8

// The actions. Both keep chunks that they match from being handed out. A block comes before a pause, and each is set and lifted by itself.
const (
	Pause RuleAction = iota
	Block

	RuleActions = int(Block) + 1 // how many there are
)

var ruleActions = [...]string{"pause", "block"}

func (a RuleAction) String() string { return ruleActions[a] }

// ParseRuleAction reads the name of an action.
func ParseRuleAction(text string) (RuleAction, bool) {
	return parseName[RuleAction](ruleActions[:], text)
}

// RuleMatch is the subject of a rule: one value of a meta key, one submission, the submissions for which several conditions hold, or, if it
// is zero, the whole queue. At most one of the three is set.
type RuleMatch struct {
	Entry      MetaEntry
	Submission SubmissionID
	Several    string // Text of Conditions that ask for more than one entry
}

// MatchOf is the match of conditions.
func MatchOf(c Conditions) RuleMatch {
	if entry, is := c.One(); is {
		return RuleMatch{Entry: entry}
	}
	return RuleMatch{Several: c.Text()}
}

// Conditions are those of a match about meta, nil for any other match.
func (m *RuleMatch) Conditions() Conditions {
	if m.Entry.Key != "" {
		return Conditions{{m.Entry.Key, []MetaValue{m.Entry.Value}}}
	}
	c, _ := ParseConditions(m.Several) // nil for none
	return c
}

// Whole says that the match is the whole queue.
func (m RuleMatch) Whole() bool { return m == RuleMatch{} }

// String is the match as a person reads it.
func (m RuleMatch) String() string {
	switch {
	case m.Submission != 0:
		return "submission " + m.Submission.String()
	case m.Entry.Key != "":
		return m.Entry.Key + "=" + m.Entry.Value.Quoted()
	case m.Several != "":
		return m.Conditions().String()
	}
	return "the queue"
}

// Rule is an operator's standing order. There is at most one for each action and match. Chunks that it covers are not handed out, whatever
// the strategy. Held ones may be finished, unless Revoke took them back.
type Rule struct {
	ID     RuleID
	Action RuleAction
	Match  RuleMatch
	Reason string // at most MaxRuleReasonBytes; a block has one
	Actor  string // the caller that set it, by the name that it gave; at most MaxActorBytes
	Since  Time
	Until  Time // when it ends by itself; 0: never
	Insert bool // inserts that it matches are refused too
	Revoke bool // reservations that it matches are released when it is set, and cannot be taken up again
}

// API is the rule as JSON carries it.
func (r *Rule) API() api.Rule {
	out := api.Rule{
		ID: strconv.FormatUint(uint64(r.ID), 10), Action: r.Action.String(), Reason: r.Reason, Actor: r.Actor,
		Since: r.Since.API(), Until: r.Until.API(),
		Effects: api.RuleEffects{Insert: r.Insert, Revoke: r.Revoke},
	}
	switch {
	case r.Match.Submission != 0:
		out.Match.Submission = r.Match.Submission.String()
	case !r.Match.Whole():
		for _, c := range r.Match.Conditions() {
			c.addTo(&out.Match)
		}
	default:
		out.Match.Queue = true
	}
	return out
}

// RuleEnd is how a rule ended.
type RuleEnd uint8

// The ends: it was lifted, its Until came, or the submission that it was about ended.
const (
	RuleLifted RuleEnd = iota
	RuleOver
	RuleOutlived
)

var ruleEnds = [...]string{"lifted", "over", "submission_ended"}

func (e RuleEnd) String() string { return ruleEnds[e] }

// EndedRule is a rule that holds no more.
type EndedRule struct {
	Rule
	Ended Time
	End   RuleEnd
	By    string // the caller that lifted it, by the name that it gave; at most MaxActorBytes
}

// Ruling is the verdict of all rules together on something.
type Ruling uint8

// The rulings, each stronger than the one before.
const (
	Unruled Ruling = iota
	PausedByRule
	BlockedByRule
)

// String is the state of the things that it covers; "" without a rule.
func (r Ruling) String() string { return [...]string{"", "paused", "blocked"}[r] }

// Ruling is the ruling of this rule alone.
func (r *Rule) Ruling() Ruling {
	if r.Action == Block {
		return BlockedByRule
	}
	return PausedByRule
}

// Same says that both rules demand the same: they differ at most in actor, time and id.
func (r *Rule) Same(other *Rule) bool {
	return r.Action == other.Action && r.Match == other.Match && r.Reason == other.Reason && r.Until == other.Until &&
		r.Insert == other.Insert && r.Revoke == other.Revoke
}

// The limits of rules.
const (
	MaxRules           = 10_000 // of a queue: all are in memory, and in one row of the store
	MaxEndedRules      = 1000   // of a queue that can be read, the last; likewise in memory and in one row
	MaxSeveralRules    = 100    // of them, about several values: each insert looks at all of these
	MaxInitialRules    = 1000   // of new queues: each is a commit when a queue is created
	MaxRuleReasonBytes = 500
	MaxActorBytes      = 128
)

// RefusedBy is the cause of the refusal of an insert: the rule that refuses it.
type RefusedBy struct{ Rule Rule }

func (e *RefusedBy) Error() string { return fmt.Sprintf("rule %d refuses inserts", e.Rule.ID) }
