package api

// Lifecycle is how the life-cycle worker of a queue is doing; the answer of GET /v1/queues/{queue}/lifecycle.
type Lifecycle struct {
	LagSeconds float64 `json:"lag_seconds"` // since when the oldest overdue action is due
	Degraded   bool    `json:"degraded"`    // its commits fail again and again: inserts are refused
	// until then nothing is handed out that a limit counts; none: it is over
	GraceUntil Time            `json:"restart_grace_until,omitzero"`
	Slices     uint64          `json:"slices_total"`
	Suspects   Suspects        `json:"suspects"`
	Kinds      []LifecycleKind `json:"kinds"`
	Parked     []ParkedAction  `json:"parked"`
	Recount    Recount         `json:"recount"`
}

// Suspects are chunks whose last try burnt a reservation.
type Suspects struct {
	Shelved uint64  `json:"shelved"` // due, and held back
	Lent    uint64  `json:"lent"`    // offered or held
	Quota   uint64  `json:"quota"`   // of the lent, while there is other work
	Slots   float64 `json:"slots"`   // live consumer slots, that the quota is a share of
}

// LifecycleKind is how one kind of the worker's actions is doing. Totals count from the server's start.
type LifecycleKind struct {
	Kind          string  `json:"kind"`
	Pending       uint64  `json:"pending"`
	LagSeconds    float64 `json:"lag_seconds"`
	Done          uint64  `json:"done_total"`
	Stale         uint64  `json:"stale_total"`
	Parked        uint64  `json:"parked"`
	Failed        uint64  `json:"failures_total"`
	Failures      int     `json:"failures_in_a_row"`
	Error         string  `json:"error,omitempty"`
	LastSuccessAt *Time   `json:"last_success_at,omitempty"`
}

// ParkedAction is an action that failed again and again, and is left alone.
type ParkedAction struct {
	Kind       string  `json:"kind"`
	Submission string  `json:"submission,omitempty"` // that it is about, if it is about one
	Index      *uint32 `json:"index,omitempty"`      // of the chunk that it is about, if it is about one
	Rule       string  `json:"rule,omitempty"`       // the id of the rule whose end it is, if it is about one
	Schedule   string  `json:"schedule,omitempty"`   // the name of the schedule that inserts, if it is about one
	Error      string  `json:"error"`
	Since      Time    `json:"since"`
}

// Retried is the answer of POST /v1/queues/{queue}/lifecycle/retry.
type Retried struct {
	Retried int `json:"retried"`
}
