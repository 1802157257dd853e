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
	// Its content, if that is inline and has at most 65,536 bytes; absent in lists
	Content Bytes `json:"content,omitzero"`
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
	// Shards that did not answer, if the queue has several
	MissingShards []MissingShard `json:"missing_shards,omitempty"`
}

// DeadFilter says which dead letters are meant; everything given has to fit.
type DeadFilter struct {
	Submission  string `json:"submission,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	DiedBefore  Time   `json:"died_before,omitzero"`
	DiedAfter   Time   `json:"died_after,omitzero"` // Died at this time or later
	Meta        Meta   `json:"meta,omitempty"`      // The submission has all of these values
}

// Retry is a chunk whose last try failed and that will be tried again.
type Retry struct {
	Submission  string `json:"submission"`         // Its submission
	Index       uint32 `json:"index"`              // Index of the chunk
	Meta        Meta   `json:"meta,omitempty"`     // Meta of its submission
	Attempts    uint32 `json:"attempts"`           // Failed attempts
	Error       string `json:"error,omitempty"`    // The last error; absent if none was reported
	Fingerprint string `json:"fingerprint"`        // Name of the kind of error, as in the filter of a bulk operation
	FailedAt    Time   `json:"failed_at,omitzero"` // End of the last attempt
	NextAt      Time   `json:"next_at,omitzero"`   // Time of the next attempt
}

// RetryGroups is the answer of .../retries/groups: chunks that failed and wait for their next try, by the kind of their last error.
type RetryGroups struct {
	Items  []RetryGroup `json:"items"`  // Kinds of errors, those with the most chunks first; at most 1,000
	Others uint64       `json:"others"` // Chunks of further kinds
	// Number of chunks that were counted: all, unless more than 100,000 wait
	Examined uint64 `json:"examined"`
	// Shards that did not answer, if the queue has several
	MissingShards []MissingShard `json:"missing_shards,omitempty"`
}

// RetryGroup are the chunks of one kind of error.
type RetryGroup struct {
	Fingerprint string       `json:"fingerprint"`       // Name of the kind of error, as in the filter of a bulk operation
	Pattern     string       `json:"pattern"`           // The error without its variable parts
	Example     string       `json:"example,omitempty"` // One of the errors as it came; absent if the deadline passed
	Submission  string       `json:"submission"`        // Submission of the example
	Index       uint32       `json:"index"`             // Index of its chunk
	Count       uint64       `json:"count"`             // Chunks that wait after this error
	Submissions uint64       `json:"submissions"`       // Their submissions
	Tries       []RetryTries `json:"tries"`             // Chunks by the number of failed attempts, at most 11
	NextAt      Time         `json:"next_at,omitzero"`  // Earliest time of the next attempt of one of them
}

// RetryTries are the chunks with this many failed attempts.
type RetryTries struct {
	Tries uint32 `json:"tries"` // Failed attempts; 10: that many or more; 0: only deadlines passed
	Count uint64 `json:"count"` // Chunks
}
