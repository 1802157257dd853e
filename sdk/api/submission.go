package api

// The states of a submission. StateCompletedWithDead is open again after a redrive; the other states but StateOpen are final.
const (
	StateOpen              = "open"
	StateCompleted         = "completed"
	StateCompletedWithDead = "completed_with_dead"
	StateFailed            = "failed"
	StateCancelled         = "cancelled"
	StateExpired           = "expired"
)

// NewSubmission is the body of POST /v1/queues/{queue}/submissions. Zero values mean "the queue's setting" or "none".
type NewSubmission struct {
	Meta               Meta   `json:"meta,omitempty"`      // What strategies see
	Priority           int64  `json:"priority,omitempty"`  // -(2^53-1) to 2^53-1, larger first under CustomPriority
	Chunks             Chunks `json:"chunks"`              // The work, in exactly one of three forms
	Attachment         Bytes  `json:"attachment,omitzero"` // At most 64 KiB of opaque bytes that go out with every reservation
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	RunAt              Time   `json:"run_at,omitzero"`
	DeadDeadline       Time   `json:"dead_deadline,omitzero"`
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`      // fail_submission, dead_letter or skip
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"` // dead or skipped before the submission fails; 0: any number
	Group              string `json:"group,omitempty"`
	// W3C traceparent, and after ';' the tracestate, for this submission: in the place of the headers
	Trace string `json:"trace,omitempty" limit:"..MaxTraceBytes"`
}

// Chunks is the work of a submission, in exactly one of three forms: Count with Prefix (contents are in object storage at
// prefix+index), Count with Template (each "{index}" in it is replaced), or Inline (one entry per chunk, at most 100,000).
type Chunks struct {
	Count    uint32  `json:"count,omitempty" limit:"1..MaxChunks"`          // Number of chunks, with prefix or template
	Prefix   string  `json:"prefix,omitempty" limit:"..MaxPrefixBytes"`     // Contents lie in object storage at prefix + index
	Template string  `json:"template,omitempty" limit:"..MaxTemplateBytes"` // Content is this text with each {index} replaced
	Inline   []Bytes `json:"inline,omitempty" limit:"..MaxInlineChunks"`    // One entry per chunk, each at most 1 MiB
}

// NewSubmissionHead is the first line of an insert as JSON lines: a NewSubmission without its chunks, which follow one per
// line as Bytes.
type NewSubmissionHead struct {
	Meta               Meta   `json:"meta,omitempty"` // What strategies see
	Priority           int64  `json:"priority,omitempty"`
	Attachment         Bytes  `json:"attachment,omitzero"` // At most 64 KiB of opaque bytes that go out with every reservation
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	RunAt              Time   `json:"run_at,omitzero"`
	DeadDeadline       Time   `json:"dead_deadline,omitzero"`
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"`
	Group              string `json:"group,omitempty"`
	// W3C traceparent, and after ';' the tracestate, for this submission: in the place of the headers
	Trace string `json:"trace,omitempty" limit:"..MaxTraceBytes"`
}

// InsertManyRequest is the body of POST /v1/queues/{queue}/submissions:batch. Atomic: all of them are inserted, or none when one is
// invalid or refused.
type InsertManyRequest struct {
	// Insert all of them, or none when one is invalid or refused
	Atomic      bool              `json:"atomic,omitempty"`
	Submissions []BatchSubmission `json:"submissions" limit:"..MaxInsertions"` // At least one
}

// BatchSubmission is one submission of an InsertManyRequest. IdempotencyKey is what the header Idempotency-Key is for a single insert.
type BatchSubmission struct {
	NewSubmission
	// As the header Idempotency-Key of a single insert
	IdempotencyKey string `json:"idempotency_key,omitempty" limit:"..MaxIdempotencyKey"`
}

// InsertManyResponse is the answer of an insert of many: one result per submission, in order.
type InsertManyResponse struct {
	Results []InsertResult `json:"results"` // One per submission, in order
}

// InsertResult is what became of one submission of an insert of many. Submission is nil unless it was created or replayed; then Code and
// Detail say why, and Pointer where in the request.
type InsertResult struct {
	Status     string      `json:"status" names:"insertions"` // What became of the submission
	Submission *Submission `json:"submission,omitempty"`      // As a single insert answers it; absent when it was not inserted
	Code       string      `json:"code,omitempty"`            // Stable name of the reason why it was not
	Detail     string      `json:"detail,omitempty"`          // The reason in words
	// JSON pointer to what is wrong; of JSON lines, into the array that they stand for
	Pointer string `json:"pointer,omitempty"`
}

// What became of a submission of an insert of many.
const (
	InsertCreated  = "created"
	InsertReplayed = "replayed" // it was inserted before, with the same idempotency key: Submission is as it is now
	InsertInvalid  = "invalid"  // something is wrong with it
	InsertRefused  = "refused"  // nothing is wrong with it, but it cannot be inserted, or not now
)

// SubmissionChange is the body of PATCH /v1/submissions/{id}: what changes in an open submission. Priority is as in
// NewSubmission, and required.
type SubmissionChange struct {
	Priority *int64 `json:"priority"`
}

// Submission is what is known about a submission at one moment.
type Submission struct {
	ID    string `json:"id"`    // Names it for ever; ids grow with time
	Queue string `json:"queue"` // The queue it is in
	// All but open are final, save that a redrive opens completed_with_dead again
	State              string `json:"state" names:"states"`
	Chunks             uint32 `json:"chunks"`              // Number of chunks
	Ready              uint32 `json:"ready"`               // Can be reserved now, if a strategy and its limits let them
	Paused             uint32 `json:"paused,omitempty"`    // Would be ready, but a pause covers the submission
	Blocked            uint32 `json:"blocked,omitempty"`   // Would be ready, but a block covers the submission
	Waiting            uint32 `json:"waiting"`             // Wait for a time: run_at or a retry
	Reserved           uint32 `json:"reserved"`            // Held by consumers
	Done               uint32 `json:"done"`                // Completed
	Dead               uint32 `json:"dead"`                // Dead letters; in a failed submission, what ended it
	Forwarded          uint32 `json:"forwarded,omitempty"` // Of the skipped ones, those that went on to another queue as dead letters
	Skipped            uint32 `json:"skipped,omitempty"`   // Given up; once it has ended, all that is neither done nor dead
	CreatedAt          Time   `json:"created_at"`          // When it was inserted
	Meta               Meta   `json:"meta,omitempty"`      // What strategies see
	Priority           int64  `json:"priority,omitempty"`
	Group              string `json:"group,omitempty"`
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	Prefix             string `json:"prefix,omitempty"`         // As inserted
	Template           string `json:"template,omitempty"`       // As inserted
	HasAttachment      bool   `json:"has_attachment,omitempty"` // Whether it has an attachment
	RunAt              Time   `json:"run_at,omitzero"`
	DeadDeadline       Time   `json:"dead_deadline,omitzero"`
	FinishedAt         Time   `json:"finished_at,omitzero"` // When it left open
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"`
	Failure            string `json:"failure,omitempty"` // Why it failed: the last error of the chunk that ended it
	// Index of the chunk that failed it: out of attempts, failed as fatal, or one more than max_failed_chunks. Absent if it did not fail,
	// or under a version that did not note it
	FailedChunk   *uint32 `json:"failed_chunk,omitempty"`
	ForwardedFrom *Origin `json:"forwarded_from,omitempty"` // It is a dead letter of another queue
	Trace         string  `json:"trace,omitempty"`          // W3C traceparent, and after ';' the tracestate
	Schedule      string  `json:"schedule,omitempty"`       // Name of the schedule that inserted it
	ScheduledAt   Time    `json:"scheduled_at,omitzero"`    // The tick that it is for: when it was due by its schedule
}

// WaitRequest is the body of POST /v1/submissions:wait.
type WaitRequest struct {
	IDs    []string `json:"ids" limit:"..MaxWaitIDs"`               // Whose end to wait for, of any queues
	WaitMS int64    `json:"wait_ms,omitempty" limit:"0..MaxWaitMS"` // How long to wait; 0 or absent: not at all
	All    bool     `json:"all,omitempty"`                          // Answer when all have ended; absent: when one has
}

// WaitResponse is how the submissions stand when the wait is over. Ended and Unknown are in the order of the request.
type WaitResponse struct {
	Ended   []Submission `json:"ended"`             // Those that have ended, in the order of the request
	Open    int          `json:"open"`              // How many of them are open, or have ended and did not fit
	Unknown []string     `json:"unknown,omitempty"` // Ids that are not known, in the order of the request; absent when there are none
}

// Chunk is what is known about one chunk at one moment.
type Chunk struct {
	Index       uint32 `json:"index"`                      // From 0
	State       string `json:"state" names:"chunk states"` // Where it stands
	Attempts    uint32 `json:"attempts"`                   // Tries that ended without success
	NotBefore   Time   `json:"not_before,omitzero"`        // Of a waiting chunk: not handed out before
	Consumer    string `json:"consumer,omitempty"`         // Of a reserved chunk: who holds it
	Deadline    Time   `json:"deadline,omitzero"`          // Of a reserved chunk: until when
	Error       string `json:"error,omitempty"`            // The last failure
	ForwardedTo string `json:"forwarded_to,omitempty"`     // Of a forwarded chunk: the queue that it went on to
	Output      Bytes  `json:"output,omitzero"`            // Of a done chunk that has one
}

// Output is one line of GET /v1/submissions/{id}/outputs.
type Output struct {
	Index  uint32 `json:"index"`  // Index of the chunk
	Output Bytes  `json:"output"` // What the consumer reported with complete
}

// Page is one page of a list, newest first unless said otherwise. Next is the cursor of the next page, "" on the last.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}
