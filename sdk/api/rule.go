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
	Queue      bool   `json:"queue,omitempty"`      // true: the whole queue
	Meta       Meta   `json:"meta,omitempty"`       // One value of one meta key
	Submission string `json:"submission,omitempty"` // Id of an open submission; the rule ends with it
}

// RuleEffects is what a rule does beyond keeping chunks from being handed out.
type RuleEffects struct {
	Insert bool `json:"insert,omitempty"` // Refuse matching inserts with 423
	// Release matching reservations when the rule is set, without counting an attempt; they can no longer be extended
	Revoke bool `json:"revoke,omitempty"`
}

// RuleRequest is the body of POST /v1/queues/{queue}/rules.
type RuleRequest struct {
	// pause or block: both hold chunks back, and a block takes precedence
	Action string    `json:"action" names:"actions"`
	Match  RuleMatch `json:"match"` // The rule covers exactly one of queue, meta and submission
	// Reason, shown to everyone whom the rule affects: at most 500 bytes; a block needs one
	Reason string `json:"reason,omitempty"`
	// Name of the access token; on an open server, the name in the request, at most 128 bytes
	Actor   string      `json:"actor,omitempty"`
	Until   Time        `json:"until,omitzero"`   // Time when it ends; absent: when it is lifted
	Effects RuleEffects `json:"effects,omitzero"` // Further effects
}

// Rule is an operator's standing order: chunks that it covers are not handed out, whatever strategy asks.
type Rule struct {
	ID string `json:"id"` // Id in its queue, used only once
	// pause or block: both hold chunks back, and a block takes precedence
	Action string    `json:"action" names:"actions"`
	Match  RuleMatch `json:"match"` // The rule covers exactly one of queue, meta and submission
	// Reason, shown to everyone whom the rule affects: at most 500 bytes; a block needs one
	Reason string `json:"reason,omitempty"`
	// Name of the access token; on an open server, the name in the request, at most 128 bytes
	Actor   string      `json:"actor,omitempty"`
	Since   Time        `json:"since"`            // Time when it was first set
	Until   Time        `json:"until,omitzero"`   // Time when it ends; absent: when it is lifted
	Effects RuleEffects `json:"effects,omitzero"` // Further effects
	// Chunks that the rule holds back, even if another rule does too; only in the list of active rules, and absent if
	// there are none
	Chunks  uint64 `json:"chunks,omitempty"`
	EndedAt Time   `json:"ended_at,omitzero"` // Time of its end
	// How a rule ended: an operator lifted it, its until came, or its submission ended
	End      string `json:"end,omitempty" names:"rule ends"`
	LiftedBy string `json:"lifted_by,omitempty"` // Caller that lifted it, if known
}

// RuledAmount is what one rule keeps from every strategy.
type RuledAmount struct {
	Rule Rule `json:"rule"` // The rule
	// Chunks that the rule holds back. If several rules cover a chunk, it counts for one, a block before a pause
	Refused Amount `json:"refused"`
}
