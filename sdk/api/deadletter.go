package api

// ForwardRequest is the body of POST /v1/queues/{queue}/dead-letters/{submission}/{index}/forward.
type ForwardRequest struct {
	To string `json:"to"` // Target queue of the dead chunk; it exists, and is another one
}

// DeadLetter is a dead chunk that can be redriven, deleted or forwarded.
type DeadLetter struct {
	Submission      string `json:"submission"`                                // Its submission
	Index           uint32 `json:"index"`                                     // Index of the chunk
	SubmissionState string `json:"submission_state" names:"states with dead"` // State of the submission
	// Attempts since the insert or the last redrive
	Attempts uint32 `json:"attempts"`
	// Number of those attempts that ended by their deadline
	Expiries uint32 `json:"expiries"`
	Redrives uint32 `json:"redrives"`           // Number of redrives
	DiedAt   Time   `json:"died_at,omitzero"`   // End of the last attempt
	Consumer string `json:"consumer,omitempty"` // Last consumer of the chunk
	Error    string `json:"error,omitempty"`    // The last error
	// 16 hexadecimal digits; equal for errors that differ only in numbers, hexadecimal ids, UUIDs and quoted parts
	Fingerprint string `json:"fingerprint"`
	// The last 10 attempts over all redrives, the oldest first; absent in lists
	History []Attempt `json:"history,omitempty"`
}

// Attempt is one ended try of a chunk.
type Attempt struct {
	EndedAt  Time   `json:"ended_at"`           // When it ended
	Consumer string `json:"consumer,omitempty"` // Consumer that held the chunk
	HeldMS   int64  `json:"held_ms"`            // Time that the consumer held the chunk
	Expired  bool   `json:"expired,omitempty"`  // Whether its deadline ended it
	Lost     bool   `json:"lost,omitempty"`     // Whether it ended because its consumer was lost
	// Error from the consumer; only the last attempt keeps more than the first 256 bytes
	Error string `json:"error,omitempty"`
}

// DeadGroup is the dead letters whose errors have one fingerprint.
type DeadGroup struct {
	Fingerprint string `json:"fingerprint"` // Fingerprint of all errors of the group
	// The error with its variable parts replaced by <n>, <hex>, <uuid> and <s>
	Pattern     string `json:"pattern"`
	Example     string `json:"example"`                // An error of the group
	Count       uint64 `json:"count"`                  // Dead letters in the group
	Submissions uint64 `json:"submissions"`            // Number of submissions with such dead letters
	FirstDiedAt Time   `json:"first_died_at,omitzero"` // Time when the first of them died
	LastDiedAt  Time   `json:"last_died_at,omitzero"`  // Time when the last of them died
}

// DeadGroups is the answer of GET /v1/queues/{queue}/dead-letters/groups, the largest group first.
type DeadGroups struct {
	Items  []DeadGroup `json:"items"`          // The groups, the largest first
	Others uint64      `json:"others"`         // Dead letters in no group, because there are already 10,000 groups
	Next   string      `json:"next,omitempty"` // The cursor of the next page; absent on the last
}

// DeadFilter says which dead letters are meant; everything given has to fit.
type DeadFilter struct {
	Submission  string `json:"submission,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	DiedBefore  Time   `json:"died_before,omitzero"`
	DiedAfter   Time   `json:"died_after,omitzero"` // Died at this time or later
	Meta        Meta   `json:"meta,omitempty"`      // The submission has all of these values
}
