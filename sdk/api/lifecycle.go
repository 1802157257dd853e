package api

// Lifecycle is how the life-cycle worker of a queue is doing; the answer of GET /v1/queues/{queue}/lifecycle.
type Lifecycle struct {
	// Since when the oldest action is due that is not done yet; 0: nothing is overdue
	LagSeconds float64 `json:"lag_seconds"`
	// Whether inserts are refused because the worker's commits fail again and again
	Degraded bool `json:"degraded"`
	// Until then no chunk that a limit counts is handed out, because the server does not know yet what consumers held before it started;
	// absent: the grace is over
	GraceUntil Time `json:"restart_grace_until,omitzero"`
	// Slices of actions of one kind that came through, since the server's start
	Slices   uint64          `json:"slices_total"`
	Suspects Suspects        `json:"suspects"` // Chunks whose last try burnt a reservation
	Kinds    []LifecycleKind `json:"kinds"`    // Every kind of action
	Parked   []ParkedAction  `json:"parked"`   // Actions that are left alone, the oldest first
	Recount  Recount         `json:"recount"`  // How far the recounts of kept counters have come
}

// Suspects are chunks whose last try burnt a reservation.
type Suspects struct {
	Shelved uint64  `json:"shelved"` // Due, and held back behind other work
	Lent    uint64  `json:"lent"`    // Offered or held, and not finished
	Quota   uint64  `json:"quota"`   // How many may be lent while there is other work: suspect_share of the slots, at least 1
	Slots   float64 `json:"slots"`   // Live consumer slots: reservations held, smoothed
}

// LifecycleKind is how one kind of the worker's actions is doing. Totals count from the server's start.
type LifecycleKind struct {
	Kind          string  `json:"kind" names:"life cycle"`   // What kind of action
	Pending       uint64  `json:"pending"`                   // What waits for its time, or to be swept
	LagSeconds    float64 `json:"lag_seconds"`               // Since when the oldest of the kind is due that is not done yet
	Done          uint64  `json:"done_total"`                // Actions that were done, since the server's start
	Stale         uint64  `json:"stale_total"`               // Those that were not needed any more when their turn came
	Parked        uint64  `json:"parked"`                    // Those that are left alone now
	Failed        uint64  `json:"failures_total"`            // Slices that failed
	Failures      int     `json:"failures_in_a_row"`         // Of them, those since the last success
	Error         string  `json:"error,omitempty"`           // Why the last slice failed; absent after a success
	LastSuccessAt *Time   `json:"last_success_at,omitempty"` // When a slice came through last; absent before the first
}

// ParkedAction is an action that failed again and again, and is left alone.
type ParkedAction struct {
	Kind       string  `json:"kind"`                 // What kind of action
	Submission string  `json:"submission,omitempty"` // The submission that it is about, if it is about one
	Index      *uint32 `json:"index,omitempty"`      // The chunk of it, if it is about one
	Rule       string  `json:"rule,omitempty"`       // The rule whose end it is, if it is about one
	Schedule   string  `json:"schedule,omitempty"`   // The schedule that inserts, if it is about one
	Error      string  `json:"error"`                // Why it failed
	Since      Time    `json:"since"`                // When it was parked
}

// Retried is the answer of POST /v1/queues/{queue}/lifecycle/retry.
type Retried struct {
	Retried int `json:"retried"` // How many parked actions are tried again
}
