package api

// The values of BulkRequest.Action. Redrive, delete and forward apply to dead letters, retry and give_up to chunks that
// wait for a retry, cancel and reprioritize to open submissions. Purge deletes submissions, open and ended. Retry also ends
// the delays of released chunks.
const (
	BulkRedrive      = "redrive"
	BulkDelete       = "delete"
	BulkForward      = "forward"
	BulkRetry        = "retry"
	BulkGiveUp       = "give_up"
	BulkCancel       = "cancel"
	BulkReprioritize = "reprioritize"
	BulkPurge        = "purge"
)

// The states of a bulk operation. All but BulkRunning are final.
const (
	BulkRunning   = "running"
	BulkCompleted = "completed"
	BulkCancelled = "cancelled"
	BulkFailed    = "failed"
)

// PageBulkOperation is one page of the bulk operations, the newest first. It has the name that the document gives to a Page of them.
type PageBulkOperation struct {
	Items   []BulkOperation `json:"items"`             // The operations, the newest first
	Next    string          `json:"next,omitempty"`    // Cursor of the older ones; absent if there are none
	Missing []MissingNode   `json:"missing,omitempty"` // Nodes of the cluster whose queues are not in the list
	// Shards that did not answer, in the list of a queue of several shards
	MissingShards []MissingShard `json:"missing_shards,omitempty"`
}

// BulkRequest is the body of POST /v1/bulk-operations: an action on everything in a queue that matches the filter
// when the operation is started.
type BulkRequest struct {
	Queue string `json:"queue"` // The queue
	// Action on each match. retry also ends the delays of released chunks (snoozes)
	Action string `json:"action" names:"bulk actions"`
	// The matches must satisfy every given field; an empty filter matches everything
	Filter BulkFilter `json:"filter,omitzero"`
	To     string     `json:"to,omitempty"` // Target queue of the dead letters, for forward
	// The new priority, for reprioritize
	Priority *int64 `json:"priority,omitempty" limit:"-MaxPriority..MaxPriority"`
	// Change at most this many matches, the newest submissions first; 0 or absent: all
	Limit uint32 `json:"limit,omitempty" limit:"0..MaxOldest"`
	// Most chunks or submissions per second; 0: no limit
	RatePerSecond uint32 `json:"rate_per_second,omitempty" limit:"0..MaxRate"`
	DryRun        bool   `json:"dry_run,omitempty"` // Count the matches, and change nothing
	// Name of the access token; on an open server, the name in the request, at most 128 bytes
	Actor string `json:"actor,omitempty"`
}

// BulkFilter selects the matches of a bulk operation; they satisfy every given field.
type BulkFilter struct {
	Submission string `json:"submission,omitempty"` // Only this submission
	// Submissions in one of these states: open; for dead letters also completed_with_dead; for purge any
	States        []string `json:"states,omitempty"`
	Meta          Meta     `json:"meta,omitempty"`          // Submissions with all of these values
	CreatedBefore Time     `json:"created_before,omitzero"` // Submissions inserted before this time
	CreatedAfter  Time     `json:"created_after,omitzero"`  // Submissions inserted at this time or later
	Fingerprint   string   `json:"fingerprint,omitempty"`   // Chunks whose last error has this fingerprint
	DiedBefore    Time     `json:"died_before,omitzero"`    // Chunks whose last attempt ended before this time
	// Chunks whose last attempt ended at this time or later
	DiedAfter Time `json:"died_after,omitzero"`
	// At most this many of the matching dead letters: those that died first, as of the start of the operation. 0 or
	// absent: all
	Oldest uint32 `json:"oldest,omitempty" limit:"0..MaxOldest"`
}

// BulkOperation is an action on many chunks or submissions in the background, and its progress. It continues after a
// restart.
type BulkOperation struct {
	ID     string `json:"id"`                          // Id of the operation
	Queue  string `json:"queue"`                       // The queue
	Action string `json:"action" names:"bulk actions"` // Action on each match
	// The matches satisfy every given field; an empty filter matches everything
	Filter BulkFilter `json:"filter,omitzero"`
	// For forward: the target queue
	To       string `json:"to,omitempty"`
	Priority *int64 `json:"priority,omitempty" limit:"-MaxPriority..MaxPriority"` // For reprioritize: the new priority
	// Most matches that it changes; absent: all
	Limit uint32 `json:"limit,omitempty" limit:"0..MaxOldest"`
	// Most chunks or submissions per second; 0: no limit
	RatePerSecond uint32 `json:"rate_per_second" limit:"0..MaxRate"`
	// Count the matches, and change nothing
	DryRun bool `json:"dry_run"`
	// Name of the caller: that of the access token or, on an open server, the name in the request, at most 128 bytes
	Actor string `json:"actor,omitempty"`
	State string `json:"state" names:"bulk states"` // All states but running are final
	// Start of the operation, which ignores everything that comes later
	CreatedAt  Time   `json:"created_at"`
	FinishedAt Time   `json:"finished_at,omitzero"` // Time of its end
	Matched    uint64 `json:"matched"`              // Number of matches so far: done, unchanged and refused together
	Done       uint64 `json:"done"`                 // Number of changes; in a dry run, of those that it would make
	// Number of matches left as they were: another caller was first, or there was nothing to do
	Unchanged uint64 `json:"unchanged"`
	// Number of matches that cannot be changed, such as a dead letter whose submission has passed its dead_deadline
	Refused uint64 `json:"refused"`
	Failure string `json:"failure,omitempty"` // Error that ended it

	// Number of items examined, matching or not: dead letters, chunks that wait for a retry, or submissions of the
	// queue or of the filter's submission
	Examined *uint64 `json:"examined,omitempty"`
	// Number of items to examine, as counted at the start; it falls when many of them disappear. Never less than
	// examined, and equal to it when the operation has completed. Absent for a purge that runs, as the server does not
	// count ended submissions
	ToExamine *uint64 `json:"to_examine,omitempty"`
	// Share of the items examined, rounded down; 100 only when it has completed
	Percent *int `json:"percent,omitempty" limit:"0..100"`
	// Time until the operation has examined everything, at the pace of the last minute or, if that is unknown, at
	// rate_per_second. Absent: it has ended, or the time is unknown
	RemainingMS int64  `json:"remaining_ms,omitempty"`
	CancelledBy string `json:"cancelled_by,omitempty"` // Name of the caller that cancelled it
}

// Origin says where a forwarded submission came from.
type Origin struct {
	Queue      string `json:"queue"`            // Queue that the dead letter comes from
	Submission string `json:"submission"`       // Submission in that queue
	Index      uint32 `json:"index"`            // Index of the chunk in that queue
	Attempts   uint32 `json:"attempts"`         // Attempts in that queue
	DiedAt     Time   `json:"died_at,omitzero"` // End of the last attempt in that queue
	Error      string `json:"error,omitempty"`  // Last error in that queue
}

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

// RuleMatch says which submissions a rule covers: those of the whole queue, one, or those that meta and any select
// together.
type RuleMatch struct {
	Queue bool `json:"queue,omitempty"` // true: the whole queue
	// Values of meta keys, all of which a submission must have
	Meta Meta `json:"meta,omitempty"`
	// Lists of up to 64 values of meta keys: of each key, a submission must have one. Together with meta, at most 8 keys
	Any        map[string][]MetaValue `json:"any,omitempty"`
	Submission string                 `json:"submission,omitempty"` // Id of an open submission; the rule ends with it
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
	Match  RuleMatch `json:"match"` // The rule covers the queue, a submission, or what meta and any say
	// Reason, shown to everyone whom the rule affects: at most 500 bytes; a block needs one
	Reason string `json:"reason,omitempty"`
	// Name of the access token; on an open server, the name in the request, at most 128 bytes
	Actor   string      `json:"actor,omitempty"`
	Until   Time        `json:"until,omitzero"`   // Time when it ends; absent: when it is lifted
	Effects RuleEffects `json:"effects,omitzero"` // Further effects
}

// Rule is an operator's standing order: chunks that it covers are not handed out, whatever strategy asks.
type Rule struct {
	// Id in its queue, used only once. In a queue of several shards it is made of the action and the match
	ID string `json:"id"`
	// pause or block: both hold chunks back, and a block takes precedence
	Action string    `json:"action" names:"actions"`
	Match  RuleMatch `json:"match"` // The rule covers the queue, a submission, or what meta and any say
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
	// In a queue of several shards: the shards in which the rule holds; absent if it holds in all that answered
	Shards []int `json:"shards,omitempty"`
}

// RuledAmount is what one rule keeps from every strategy.
type RuledAmount struct {
	Rule Rule `json:"rule"` // The rule
	// Chunks that the rule holds back. If several rules cover a chunk, it counts for one, a block before a pause
	Refused Amount `json:"refused"`
}
