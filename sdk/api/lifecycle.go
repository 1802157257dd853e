package api

// Lifecycle is how the life-cycle worker of a queue is doing; the answer of GET /v1/queues/{queue}/lifecycle.
type Lifecycle struct {
	LagSeconds float64 `json:"lag_seconds"` // Age of the oldest overdue action; 0: nothing is overdue
	// Whether the server refuses inserts because the worker's commits keep failing
	Degraded bool `json:"degraded"`
	// Until then the server hands out no chunk that a limit counts, because it does not know yet which chunks
	// consumers held before it started; absent: the grace is over
	GraceUntil Time `json:"restart_grace_until,omitzero"`
	// Successful slices of actions since the server's start; a slice has one kind
	Slices   uint64          `json:"slices_total"`
	Suspects Suspects        `json:"suspects"` // Chunks whose last attempt expired
	Kinds    []LifecycleKind `json:"kinds"`    // Every kind of action
	// Actions that the worker has given up for now, the oldest first
	Parked  []ParkedAction `json:"parked"`
	Recount Recount        `json:"recount"` // Progress of the recounts of counters
}

// Suspects are chunks whose last attempt expired.
type Suspects struct {
	Shelved uint64 `json:"shelved"` // Suspects that are due, and wait behind other work
	Lent    uint64 `json:"lent"`    // Suspects offered or reserved, and not finished
	// Suspects that may be lent while there is other work: suspect_share of the slots, at least 1
	Quota uint64  `json:"quota"`
	Slots float64 `json:"slots"` // Smoothed number of reservations
}

// LifecycleKind is how one kind of the worker's actions is doing. Totals count from the server's start.
type LifecycleKind struct {
	Kind       string  `json:"kind" names:"life cycle"` // Kind of action
	Pending    uint64  `json:"pending"`                 // Actions that wait for their time or for a sweep
	LagSeconds float64 `json:"lag_seconds"`             // Age of the oldest overdue action of the kind
	Done       uint64  `json:"done_total"`              // Actions done since the server's start
	Stale      uint64  `json:"stale_total"`             // Actions that were no longer necessary at their turn
	Parked     uint64  `json:"parked"`                  // Actions parked now
	Failed     uint64  `json:"failures_total"`          // Slices that failed
	Failures   int     `json:"failures_in_a_row"`       // Failed slices since the last success
	Error      string  `json:"error,omitempty"`         // Error of the last slice; absent after a success
	// Time of the last successful slice; absent before the first
	LastSuccessAt *Time `json:"last_success_at,omitempty"`
}

// ParkedAction is an action that failed again and again, and is left alone.
type ParkedAction struct {
	Kind       string  `json:"kind"`                 // Kind of action
	Submission string  `json:"submission,omitempty"` // Submission, for an action on one
	Index      *uint32 `json:"index,omitempty"`      // Chunk, for an action on a chunk
	Rule       string  `json:"rule,omitempty"`       // Rule that ends, for such an action
	Schedule   string  `json:"schedule,omitempty"`   // Schedule that inserts, for such an action
	Error      string  `json:"error"`                // Error of the last attempt
	Since      Time    `json:"since"`                // Time when it was parked
}

// Retried is the answer of POST /v1/queues/{queue}/lifecycle/retry.
type Retried struct {
	Retried int `json:"retried"` // Number of parked actions that the server tries again
}
