package api

// ForwardRequest is the body of POST /v1/queues/{queue}/dead-letters/{submission}/{index}/forward.
type ForwardRequest struct {
	To string `json:"to"` // The queue that the dead chunk is sent to: another one, which exists
}

// DeadLetter is a dead chunk that can be redriven, deleted or forwarded.
type DeadLetter struct {
	Submission      string `json:"submission"`                                // Its submission
	Index           uint32 `json:"index"`                                     // Index of the chunk
	SubmissionState string `json:"submission_state" names:"states with dead"` // Where the submission stands
	Attempts        uint32 `json:"attempts"`                                  // Tries since the insert or the last redrive
	Expiries        uint32 `json:"expiries"`                                  // Those of them that ended by their deadline
	Redrives        uint32 `json:"redrives"`                                  // How often it was redriven
	DiedAt          Time   `json:"died_at,omitzero"`                          // When the last try ended
	Consumer        string `json:"consumer,omitempty"`                        // Who held it last
	Error           string `json:"error,omitempty"`                           // The last error
	// 16 hexadecimal digits: the same for errors that differ only in numbers, hexadecimal ids, UUIDs and quoted parts
	Fingerprint string    `json:"fingerprint"`
	History     []Attempt `json:"history,omitempty"` // The last 10 tries, oldest first, over all redrives; not in lists
}

// Attempt is one ended try of a chunk.
type Attempt struct {
	EndedAt  Time   `json:"ended_at"`           // When it ended
	Consumer string `json:"consumer,omitempty"` // Who held the chunk
	HeldMS   int64  `json:"held_ms"`            // For how long
	Expired  bool   `json:"expired,omitempty"`  // Whether its deadline ended it
	Lost     bool   `json:"lost,omitempty"`     // Whether it ended because its consumer was lost
	Error    string `json:"error,omitempty"`    // What the consumer reported; of all but the last one the first 256 bytes
}

// DeadGroup is the dead letters whose errors have one fingerprint.
type DeadGroup struct {
	Fingerprint string `json:"fingerprint"`            // Of all errors of the group
	Pattern     string `json:"pattern"`                // The error with what changes replaced by <n>, <hex>, <uuid> and <s>
	Example     string `json:"example"`                // One of the errors
	Count       uint64 `json:"count"`                  // Dead letters in the group
	Submissions uint64 `json:"submissions"`            // Submissions that have some of them
	FirstDiedAt Time   `json:"first_died_at,omitzero"` // When the first of them died
	LastDiedAt  Time   `json:"last_died_at,omitzero"`  // When the last of them died
}

// DeadGroups is the answer of GET /v1/queues/{queue}/dead-letters/groups, the largest group first.
type DeadGroups struct {
	Items  []DeadGroup `json:"items"`          // The groups, the largest first
	Others uint64      `json:"others"`         // Dead letters that are in no group, as there are 10,000 groups already
	Next   string      `json:"next,omitempty"` // The cursor of the next page; absent on the last
}

// DeadFilter says which dead letters are meant; everything given has to fit.
type DeadFilter struct {
	Submission  string `json:"submission,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	DiedBefore  Time   `json:"died_before,omitzero"`
	DiedAfter   Time   `json:"died_after,omitzero"` // at this time or later
	Meta        Meta   `json:"meta,omitempty"`      // of the submission: every key has to have this value
}
