package api

// The values of Rule.Action.
const (
	ActionPause = "pause"
	ActionBlock = "block"
)

// The values of Rule.End.
const (
	RuleLifted   = "lifted"
	RuleOver     = "over"
	RuleOutlived = "submission_ended"
)

// RuleMatch is what a rule is about: exactly one of its fields is set. Meta has one key.
type RuleMatch struct {
	Queue      bool   `json:"queue,omitempty"` // the whole queue
	Meta       Meta   `json:"meta,omitempty"`
	Submission string `json:"submission,omitempty"` // its id
}

// RuleEffects is what a rule does beyond keeping chunks from being handed out.
type RuleEffects struct {
	Insert bool `json:"insert,omitempty"` // inserts of what it matches are refused with CodeRefusedByRule
	Revoke bool `json:"revoke,omitempty"` // reservations of what it matches are released when it is set: no try is counted
}

// RuleRequest is the body of POST /v1/queues/{queue}/rules.
type RuleRequest struct {
	Action  string      `json:"action"` // pause or block
	Match   RuleMatch   `json:"match"`
	Reason  string      `json:"reason,omitempty"` // at most 500 bytes; a block needs one
	Actor   string      `json:"actor,omitempty"`  // who asks, at most 128 bytes
	Until   Time        `json:"until,omitzero"`   // when it ends by itself; none: it stays until it is lifted
	Effects RuleEffects `json:"effects,omitzero"`
}

// Rule is an operator's standing order: chunks that it covers are not handed out, whatever strategy asks.
type Rule struct {
	ID       string      `json:"id"`
	Action   string      `json:"action"`
	Match    RuleMatch   `json:"match"`
	Reason   string      `json:"reason,omitempty"`
	Actor    string      `json:"actor,omitempty"`
	Since    Time        `json:"since"`
	Until    Time        `json:"until,omitzero"`
	Effects  RuleEffects `json:"effects,omitzero"`
	Chunks   uint64      `json:"chunks,omitempty"`    // in the list of those that hold: how many it keeps from being handed out
	EndedAt  Time        `json:"ended_at,omitzero"`   // of one that has ended
	End      string      `json:"end,omitempty"`       // likewise: lifted, over (its until came) or submission_ended
	LiftedBy string      `json:"lifted_by,omitempty"` // likewise: who lifted it, if they said so
}

// RuledAmount is what one rule keeps from every strategy.
type RuledAmount struct {
	Rule    Rule   `json:"rule"`
	Refused Amount `json:"refused"`
}
