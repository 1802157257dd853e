package api

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
}

// RetryGroup are the chunks of one kind of error.
type RetryGroup struct {
	Fingerprint string       `json:"fingerprint"`       // Name of the kind of error, as in the filter of a bulk operation
	Pattern     string       `json:"pattern"`           // The error without what varies
	Example     string       `json:"example,omitempty"` // One of the errors as it came; absent if the deadline passed
	Submission  string       `json:"submission"`        // Submission of the example
	Index       uint32       `json:"index"`             // Index of its chunk
	Count       uint64       `json:"count"`             // Chunks that wait after this error
	Submissions uint64       `json:"submissions"`       // Their submissions
	Tries       []RetryTries `json:"tries"`             // Chunks by the number of failed attempts, at most 11
	NextAt      Time         `json:"next_at,omitzero"`  // Time of the first next try
}

// RetryTries are the chunks with so many failed attempts.
type RetryTries struct {
	Tries uint32 `json:"tries"` // Failed attempts; 10: that many or more; 0: only deadlines passed
	Count uint64 `json:"count"` // Chunks
}
