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
	Queue         string     `json:"queue"`
	Action        string     `json:"action"`
	Filter        BulkFilter `json:"filter,omitzero"`           // the zero value means all
	To            string     `json:"to,omitempty"`              // of forward: the queue
	Priority      *int64     `json:"priority,omitempty"`        // of reprioritize, required there
	RatePerSecond uint32     `json:"rate_per_second,omitempty"` // chunks or submissions; 0: as fast as it goes
	DryRun        bool       `json:"dry_run,omitempty"`         // count what would come of it
	Actor         string     `json:"actor,omitempty"`           // who asks, at most 128 bytes
}

// BulkFilter says what a bulk operation is about; everything given has to fit.
type BulkFilter struct {
	Submission    string   `json:"submission,omitempty"`
	States        []string `json:"states,omitempty"` // of the submission
	Meta          Meta     `json:"meta,omitempty"`   // of the submission: every key has to have this value
	CreatedBefore Time     `json:"created_before,omitzero"`
	CreatedAfter  Time     `json:"created_after,omitzero"`
	Fingerprint   string   `json:"fingerprint,omitempty"` // of a chunk's last error
	DiedBefore    Time     `json:"died_before,omitzero"`  // when its last try ended
	DiedAfter     Time     `json:"died_after,omitzero"`   // at this time or later
	Oldest        uint32   `json:"oldest,omitempty"`      // of the dead letters so many at most, those that died first
}

// BulkOperation is something that is done with much at once, and how far it got. It goes on after a restart.
type BulkOperation struct {
	ID            string     `json:"id"`
	Queue         string     `json:"queue"`
	Action        string     `json:"action"`
	Filter        BulkFilter `json:"filter,omitzero"`
	To            string     `json:"to,omitempty"`
	Priority      *int64     `json:"priority,omitempty"`
	RatePerSecond uint32     `json:"rate_per_second"`
	DryRun        bool       `json:"dry_run"`
	Actor         string     `json:"actor,omitempty"`
	State         string     `json:"state"`
	CreatedAt     Time       `json:"created_at"`
	FinishedAt    Time       `json:"finished_at,omitzero"`
	Matched       uint64     `json:"matched"`   // what was met so far; the sum of the next three
	Done          uint64     `json:"done"`      // what the action was done with; of a dry run: would be
	Unchanged     uint64     `json:"unchanged"` // what it did not change: another caller was first, or nothing was left to do
	Refused       uint64     `json:"refused"`   // what does not allow it
	Failure       string     `json:"failure,omitempty"`

	// How far it got, by what it walked over. The first three are absent of an operation that an older server began.
	Examined  *uint64 `json:"examined,omitempty"`   // of what there was at its start, whether the filter means it or not
	ToExamine *uint64 `json:"to_examine,omitempty"` // never less than Examined; it falls when what there was goes away
	Percent   *int    `json:"percent,omitempty"`    // 100 when it has completed, and not before
	// until it has walked over all, at its pace of the last minute or its rate; absent: not known
	RemainingMS int64  `json:"remaining_ms,omitempty"`
	CancelledBy string `json:"cancelled_by,omitempty"` // who cancelled it, as he said
}

// Origin is where a submission came from that another queue forwarded.
type Origin struct {
	Queue      string `json:"queue"`
	Submission string `json:"submission"`
	Index      uint32 `json:"index"`
	Attempts   uint32 `json:"attempts"` // that were made there
	DiedAt     Time   `json:"died_at,omitzero"`
	Error      string `json:"error,omitempty"` // of the last of them
}
