package queue

import (
	"slices"
	"strings"
)

// RuleID names a rule within its queue. Ids grow and are never given again.
type RuleID uint32

// RuleAction is what a rule demands.
type RuleAction uint8

// The actions. Both keep what they match from being handed out; a block comes before a pause, and each is set and lifted by itself.
const (
	Pause RuleAction = iota
	Block

	RuleActions = int(Block) + 1 // how many there are
)

var ruleActions = [...]string{"pause", "block"}

func (a RuleAction) String() string { return ruleActions[a] }

// RuleMatch is what a rule is about: one value of a meta key, one submission, or, if it is zero, the whole queue. At most one of the
// two is set.
type RuleMatch struct {
	Entry      MetaEntry
	Submission SubmissionID
}

// Whole says that the match is the whole queue.
func (m RuleMatch) Whole() bool { return m == RuleMatch{} }

// String is the match as a person reads it.
func (m RuleMatch) String() string {
	switch {
	case m.Submission != 0:
		return "submission " + m.Submission.String()
	case m.Entry.Key != "":
		return m.Entry.Key + "=" + m.Entry.Value.String()
	}
	return "the queue"
}

// Rule is an operator's standing order. There is at most one for each action and match. Chunks that it covers are not handed out,
// whatever strategy asks; those that are held may be finished, unless Revoke took them back.
type Rule struct {
	ID     RuleID
	Action RuleAction
	Match  RuleMatch
	Reason string // a block has one
	Actor  string // who set it, as he said; at most MaxActorBytes
	Since  Time
	Until  Time // when it ends by itself; 0: never
	Insert bool // inserts of what it matches are refused too
	Revoke bool // reservations of what it matches are released when it is set, and cannot be taken up again
}

// ruleFields is what a rule says beside its match.
var ruleFields = []*Field[Rule]{
	{
		Name: "action", Names: ruleActions[:], Required: true, field: fieldOf(func(r *Rule) *RuleAction { return &r.Action }, Pause),
		Sentence: "What it does: both keep chunks from being handed out, and a block counts before a pause",
	}, {
		Name: "reason", Length: 500, field: fieldOf(func(r *Rule) *string { return &r.Reason }, ""),
		Sentence: "Why, for those who meet it; a block needs one",
	}, {
		Name: "actor", Length: MaxActorBytes, field: fieldOf(func(r *Rule) *string { return &r.Actor }, ""),
		Sentence: "Who set it: the name of the access token; where none is needed, what the request says",
	}, {
		Name: "until", field: fieldOf(func(r *Rule) *Time { return &r.Until }, 0),
		Sentence: "When it ends by itself; without it the rule stays until it is lifted",
	}, {
		Name: "effects/insert", field: fieldOf(func(r *Rule) *bool { return &r.Insert }, false),
		Sentence: "Inserts of what it matches are refused with 423",
	}, {
		Name: "effects/revoke", field: fieldOf(func(r *Rule) *bool { return &r.Revoke }, false),
		Sentence: "Reservations of what it matches are released when it is set, without counting an attempt, and cannot be extended " +
			"any more",
	},
}

// RuleFields lists the fields of a rule, all but its match.
func RuleFields() []*Field[Rule] { return slices.Clone(ruleFields) }

// Valid checks a rule as it comes from outside.
func (r *Rule) Valid() error {
	switch {
	case r.Match.Entry.Key != "" && r.Match.Submission != 0:
		return Invalid("/match", "names a value and a submission; a rule is about one of them, or about the queue")
	case r.Action == Block && strings.TrimSpace(r.Reason) == "":
		return Invalid("/reason", "is needed for a block: say why, for those who meet it")
	}
	if err := valid(ruleFields, r); err != nil || r.Match.Entry.Key == "" {
		return err
	}
	_, err := NewMeta([]MetaEntry{r.Match.Entry})
	return err
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
	By    string // who lifted it, as he said; at most MaxActorBytes
}

// Ruling is what all rules together say of something.
type Ruling uint8

// The rulings, each stronger than the one before.
const (
	Unruled Ruling = iota
	PausedByRule
	BlockedByRule
)

// Ruling is what the rule does to what it covers.
func (r *Rule) Ruling() Ruling {
	if r.Action == Block {
		return BlockedByRule
	}
	return PausedByRule
}

// Same says that both ask for the same: they differ in who set them, when, and under which id at most.
func (r *Rule) Same(other *Rule) bool {
	return r.Action == other.Action && r.Match == other.Match && r.Reason == other.Reason && r.Until == other.Until &&
		r.Insert == other.Insert && r.Revoke == other.Revoke
}

// The limits of rules.
const (
	MaxRules      = 10_000 // of a queue: all are in memory, and in one row of the store
	MaxEndedRules = 1000   // of a queue that can be read, the last; likewise in memory and in one row
	MaxActorBytes = 128
)
