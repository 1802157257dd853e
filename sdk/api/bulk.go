package api

// The values of BulkRequest.Action. Redrive, delete and forward are about dead letters, retry about chunks that wait for a retry, cancel
// and reprioritize about open submissions.
const (
	BulkRedrive      = "redrive"
	BulkDelete       = "delete"
	BulkForward      = "forward"
	BulkRetry        = "retry"
	BulkCancel       = "cancel"
	BulkReprioritize = "reprioritize"
)

// The states of a bulk operation. All but BulkRunning are final.
const (
	BulkRunning   = "running"
	BulkCompleted = "completed"
	BulkCancelled = "cancelled"
	BulkFailed    = "failed"
)

// BulkRequest is the body of POST /v1/bulk-operations: something to be done with all that the filter means of a queue, as it is when the
// operation is started.
type BulkRequest struct {
	Queue  string `json:"queue"`                       // The queue
	Action string `json:"action" names:"bulk actions"` // What is done with each
	// What it is about; everything given has to fit, and nothing given means all
	Filter BulkFilter `json:"filter,omitzero"`
	// Of forward: the queue that dead letters go on to
	To       string `json:"to,omitempty"`
	Priority *int64 `json:"priority,omitempty" limit:"-MaxPriority..MaxPriority"` // Of reprioritize: the new priority
	// Most chunks or submissions per second; 0: as fast as it goes
	RatePerSecond uint32 `json:"rate_per_second,omitempty" limit:"0..MaxRate"`
	// Count what would come of it, and change nothing
	DryRun bool `json:"dry_run,omitempty"`
	// Who started it: the name of the access token; where none is needed, what the request says, at most 128 bytes
	Actor string `json:"actor,omitempty"`
}

// BulkFilter says what a bulk operation is about; everything given has to fit.
type BulkFilter struct {
	Submission string `json:"submission,omitempty"` // Of this submission only
	// Of submissions in one of these states only: open; for dead letters also completed_with_dead
	States        []string `json:"states,omitempty"`
	Meta          Meta     `json:"meta,omitempty"`          // Of submissions with these values only
	CreatedBefore Time     `json:"created_before,omitzero"` // Of submissions that were inserted earlier than this
	CreatedAfter  Time     `json:"created_after,omitzero"`  // Of submissions that were inserted then or later
	Fingerprint   string   `json:"fingerprint,omitempty"`   // Chunks whose last error has this fingerprint
	DiedBefore    Time     `json:"died_before,omitzero"`    // Chunks whose last try ended earlier than this
	DiedAfter     Time     `json:"died_after,omitzero"`     // Chunks whose last try ended at this time or later
	// Of the dead letters that the rest of the filter means so many at most: those that died first. Which those are is settled at the
	// start. 0 or absent: all
	Oldest uint32 `json:"oldest,omitempty" limit:"0..MaxOldest"`
}

// BulkOperation is something that is done with much at once, and how far it got. It goes on after a restart.
type BulkOperation struct {
	ID     string `json:"id"`                          // Names it
	Queue  string `json:"queue"`                       // The queue
	Action string `json:"action" names:"bulk actions"` // What is done with each
	// What it is about; everything given has to fit, and nothing given means all
	Filter BulkFilter `json:"filter,omitzero"`
	// Of forward: the queue that dead letters go on to
	To       string `json:"to,omitempty"`
	Priority *int64 `json:"priority,omitempty" limit:"-MaxPriority..MaxPriority"` // Of reprioritize: the new priority
	// Most chunks or submissions per second; 0: as fast as it goes
	RatePerSecond uint32 `json:"rate_per_second" limit:"0..MaxRate"`
	// Count what would come of it, and change nothing
	DryRun bool `json:"dry_run"`
	// Who started it: the name of the access token; where none is needed, what the request says, at most 128 bytes
	Actor      string `json:"actor,omitempty"`
	State      string `json:"state" names:"bulk states"` // All but running are final
	CreatedAt  Time   `json:"created_at"`                // When it was started; what came later is not meant
	FinishedAt Time   `json:"finished_at,omitzero"`      // When it ended
	// What it came to so far and the filter means: the sum of done, unchanged and refused
	Matched uint64 `json:"matched"`
	Done    uint64 `json:"done"` // What the action was done with; of a dry run: would be
	// What it did not change: another caller was first, or nothing was left to do
	Unchanged uint64 `json:"unchanged"`
	// What does not allow it, such as a dead letter whose submission has a dead_deadline that passed
	Refused uint64 `json:"refused"`
	Failure string `json:"failure,omitempty"` // Why it failed

	// How much it walked over so far of what there was at its start, whether the filter means it or not: dead letters, chunks that wait
	// for a retry, or open submissions of the queue, or of the one submission of the filter
	Examined *uint64 `json:"examined,omitempty"`
	// How much there is to walk over: what was counted at the start, and less when so much of that went away meanwhile. Never less than
	// examined; the same when it has completed
	ToExamine *uint64 `json:"to_examine,omitempty"`
	// How much of it was walked over, rounded down: 100 when it has completed, and not before
	Percent *int `json:"percent,omitempty" limit:"0..100"`
	// Until it has walked over all, at its pace of the last minute, or at rate_per_second as long as that is not known. Absent: it has
	// ended, or nothing tells
	RemainingMS int64  `json:"remaining_ms,omitempty"`
	CancelledBy string `json:"cancelled_by,omitempty"` // Who cancelled it, as he said
}

// Origin is where a submission came from that another queue forwarded.
type Origin struct {
	Queue      string `json:"queue"`            // The queue that it was a dead letter of
	Submission string `json:"submission"`       // Its submission there
	Index      uint32 `json:"index"`            // Index of the chunk there
	Attempts   uint32 `json:"attempts"`         // Tries that were made there
	DiedAt     Time   `json:"died_at,omitzero"` // When the last of them ended
	Error      string `json:"error,omitempty"`  // The last error there
}
