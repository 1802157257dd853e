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
	Insert bool `json:"insert,omitempty"` // Inserts of what it matches are refused with 423
	// Reservations of what it matches are released when it is set, without counting a try, and cannot be extended any more
	Revoke bool `json:"revoke,omitempty"`
}

// RuleRequest is the body of POST /v1/queues/{queue}/rules.
type RuleRequest struct {
	// What it does: both keep chunks from being handed out, and a block counts before a pause
	Action string    `json:"action" names:"actions"`
	Match  RuleMatch `json:"match"`            // What it is about: exactly one of queue, meta and submission
	Reason string    `json:"reason,omitempty"` // Why, for those who meet it: at most 500 bytes; a block needs one
	// Who set it: the name of the access token; where none is needed, what the request says, at most 128 bytes
	Actor   string      `json:"actor,omitempty"`
	Until   Time        `json:"until,omitzero"`   // When it ends by itself; absent: it stays until it is lifted
	Effects RuleEffects `json:"effects,omitzero"` // What it does beyond that
}

// Rule is an operator's standing order: chunks that it covers are not handed out, whatever strategy asks.
type Rule struct {
	ID string `json:"id"` // Names it in its queue; never given again
	// What it does: both keep chunks from being handed out, and a block counts before a pause
	Action string    `json:"action" names:"actions"`
	Match  RuleMatch `json:"match"`            // What it is about: exactly one of queue, meta and submission
	Reason string    `json:"reason,omitempty"` // Why, for those who meet it: at most 500 bytes; a block needs one
	// Who set it: the name of the access token; where none is needed, what the request says, at most 128 bytes
	Actor   string      `json:"actor,omitempty"`
	Since   Time        `json:"since"`            // When it was set first
	Until   Time        `json:"until,omitzero"`   // When it ends by itself; absent: it stays until it is lifted
	Effects RuleEffects `json:"effects,omitzero"` // What it does beyond that
	// In the list of those that hold: the chunks that it keeps from being handed out, also where another rule keeps them too; absent when
	// there are none
	Chunks   uint64 `json:"chunks,omitempty"`
	EndedAt  Time   `json:"ended_at,omitzero"`               // Of one that has ended: when
	End      string `json:"end,omitempty" names:"rule ends"` // How a rule ended: it was lifted, its until came, or its submission ended
	LiftedBy string `json:"lifted_by,omitempty"`             // Of one that was lifted: who did it, if that was said
}

// RuledAmount is what one rule keeps from every strategy.
type RuledAmount struct {
	Rule    Rule   `json:"rule"`    // The rule
	Refused Amount `json:"refused"` // What it covers: of several rules the one that counts is named, a block before a pause
}
