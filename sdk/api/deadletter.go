package api

// ForwardRequest is the body of POST /v1/queues/{queue}/dead-letters/{submission}/{index}/forward.
type ForwardRequest struct {
	To string `json:"to"` // the queue that the dead chunk is sent to
}

// DeadLetter is a dead chunk that can be redriven, deleted or forwarded.
type DeadLetter struct {
	Submission      string    `json:"submission"`
	Index           uint32    `json:"index"`
	SubmissionState string    `json:"submission_state"` // open or completed_with_dead
	Attempts        uint32    `json:"attempts"`         // since the insert or the last redrive
	Expiries        uint32    `json:"expiries"`         // those of them that ended by their deadline
	Redrives        uint32    `json:"redrives"`
	DiedAt          Time      `json:"died_at,omitzero"`
	Consumer        string    `json:"consumer,omitempty"` // of the last try
	Error           string    `json:"error,omitempty"`    // of the last try
	Fingerprint     string    `json:"fingerprint"`        // of the error: the same for errors that differ in numbers and names only
	History         []Attempt `json:"history,omitempty"`  // the last 10 tries, oldest first; not in lists
}

// Attempt is one ended try of a chunk.
type Attempt struct {
	EndedAt  Time   `json:"ended_at"`
	Consumer string `json:"consumer,omitempty"`
	HeldMS   int64  `json:"held_ms"`
	Expired  bool   `json:"expired,omitempty"` // it ended by its deadline
	Lost     bool   `json:"lost,omitempty"`    // it ended because its consumer was lost
	Error    string `json:"error,omitempty"`
}

// DeadGroup is the dead letters whose errors have one fingerprint.
type DeadGroup struct {
	Fingerprint string `json:"fingerprint"`
	Pattern     string `json:"pattern"` // the error with its changing parts replaced
	Example     string `json:"example"`
	Count       uint64 `json:"count"`
	Submissions uint64 `json:"submissions"`
	FirstDiedAt Time   `json:"first_died_at,omitzero"`
	LastDiedAt  Time   `json:"last_died_at,omitzero"`
}

// DeadGroups is the answer of GET /v1/queues/{queue}/dead-letters/groups, the largest group first.
type DeadGroups struct {
	Items  []DeadGroup `json:"items"`
	Others uint64      `json:"others"` // letters that are in no group, as there are 10,000 groups already
}

// DeadFilter says which dead letters are meant; everything given has to fit.
type DeadFilter struct {
	Submission  string `json:"submission,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	DiedBefore  Time   `json:"died_before,omitzero"`
	DiedAfter   Time   `json:"died_after,omitzero"` // at this time or later
	Meta        Meta   `json:"meta,omitempty"`      // of the submission: every key has to have this value
}
