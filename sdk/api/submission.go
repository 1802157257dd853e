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
	Meta               Meta   `json:"meta,omitempty"`
	Priority           int64  `json:"priority,omitempty"` // -(2^53-1) to 2^53-1, larger first under CustomPriority
	Chunks             Chunks `json:"chunks"`
	Attachment         Bytes  `json:"attachment,omitzero"` // at most 64 KiB; goes out with every reservation
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	RunAt              Time   `json:"run_at,omitzero"`
	DeadDeadline       Time   `json:"dead_deadline,omitzero"`
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`      // fail_submission, dead_letter or skip
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"` // dead or skipped before the submission fails; 0: any number
	Group              string `json:"group,omitempty"`
	Trace              string `json:"trace,omitempty"` // W3C traceparent, optionally ";" and tracestate, in the place of the headers
}

// Chunks is the work of a submission, in exactly one of three forms: Count with Prefix (contents are in object storage at
// prefix+index), Count with Template (each "{index}" in it is replaced), or Inline (one entry per chunk, at most 100,000).
type Chunks struct {
	Count    uint32  `json:"count,omitempty"`
	Prefix   string  `json:"prefix,omitempty"`
	Template string  `json:"template,omitempty"`
	Inline   []Bytes `json:"inline,omitempty" maxItems:"100000"`
}

// NewSubmissionHead is the first line of an insert as JSON lines: a NewSubmission without its chunks, which follow one per
// line as Bytes.
type NewSubmissionHead struct {
	Meta               Meta   `json:"meta,omitempty"`
	Priority           int64  `json:"priority,omitempty"`
	Attachment         Bytes  `json:"attachment,omitzero"`
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	RunAt              Time   `json:"run_at,omitzero"`
	DeadDeadline       Time   `json:"dead_deadline,omitzero"`
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"`
	Group              string `json:"group,omitempty"`
	Trace              string `json:"trace,omitempty"` // W3C traceparent, optionally ";" and tracestate, in the place of the headers
}

// InsertManyRequest is the body of POST /v1/queues/{queue}/submissions:batch. Atomic: all of them are inserted, or none when one is
// invalid or refused.
type InsertManyRequest struct {
	Atomic      bool              `json:"atomic,omitempty"`
	Submissions []BatchSubmission `json:"submissions" maxItems:"10000"`
}

// BatchSubmission is one submission of an InsertManyRequest. IdempotencyKey is what the header Idempotency-Key is for a single insert.
type BatchSubmission struct {
	NewSubmission
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// InsertManyResponse is the answer of an insert of many: one result per submission, in order.
type InsertManyResponse struct {
	Results []InsertResult `json:"results"`
}

// InsertResult is what became of one submission of an insert of many. Submission is nil unless it was created or replayed; then Code and
// Detail say why, and Pointer where in the request.
type InsertResult struct {
	Status     string      `json:"status"` // one of those below
	Submission *Submission `json:"submission,omitempty"`
	Code       string      `json:"code,omitempty"`
	Detail     string      `json:"detail,omitempty"`
	Pointer    string      `json:"pointer,omitempty"`
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
	ID                 string `json:"id"`
	Queue              string `json:"queue"`
	State              string `json:"state"`
	Chunks             uint32 `json:"chunks"`
	Ready              uint32 `json:"ready"`               // can be reserved now, if a strategy and its limits let them
	Paused             uint32 `json:"paused,omitempty"`    // would be ready, but a pause covers the submission
	Blocked            uint32 `json:"blocked,omitempty"`   // would be ready, but a block covers the submission
	Waiting            uint32 `json:"waiting"`             // wait for a time: run_at or a retry
	Reserved           uint32 `json:"reserved"`            // held by consumers
	Done               uint32 `json:"done"`                // completed
	Dead               uint32 `json:"dead"`                // dead letters, or what ended a failed submission
	Forwarded          uint32 `json:"forwarded,omitempty"` // of the skipped ones, those that went on to another queue
	Skipped            uint32 `json:"skipped,omitempty"`   // given up; of an ended one, all that is neither done nor dead
	CreatedAt          Time   `json:"created_at"`
	Meta               Meta   `json:"meta,omitempty"`
	Priority           int64  `json:"priority,omitempty"`
	Group              string `json:"group,omitempty"`
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	Prefix             string `json:"prefix,omitempty"`
	Template           string `json:"template,omitempty"`
	HasAttachment      bool   `json:"has_attachment,omitempty"`
	RunAt              Time   `json:"run_at,omitzero"`
	DeadDeadline       Time   `json:"dead_deadline,omitzero"`
	FinishedAt         Time   `json:"finished_at,omitzero"`
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"`
	Failure            string `json:"failure,omitempty"` // why it failed
	// index of the chunk that failed it; nil: it did not fail, or under a version that did not note it
	FailedChunk   *uint32 `json:"failed_chunk,omitempty"`
	ForwardedFrom *Origin `json:"forwarded_from,omitempty"` // it is a dead letter of another queue
	Trace         string  `json:"trace,omitempty"`          // W3C traceparent, optionally ";" and tracestate
	Schedule      string  `json:"schedule,omitempty"`       // the schedule that inserted it
	ScheduledAt   Time    `json:"scheduled_at,omitzero"`    // the tick that it is for
}

// WaitRequest is the body of POST /v1/submissions:wait.
type WaitRequest struct {
	IDs    []string `json:"ids" maxItems:"1000"`
	WaitMS int64    `json:"wait_ms,omitempty"`
	All    bool     `json:"all,omitempty"` // wait for all of them; false: for one
}

// WaitResponse is how the submissions stand when the wait is over. Ended and Unknown are in the order of the request.
type WaitResponse struct {
	Ended   []Submission `json:"ended"`
	Open    int          `json:"open"`              // how many are still open
	Unknown []string     `json:"unknown,omitempty"` // never were there, or their retention is over
}

// Chunk is what is known about one chunk at one moment.
type Chunk struct {
	Index       uint32 `json:"index"`
	State       string `json:"state"` // ready, waiting, reserved, done, dead, skipped or forwarded
	Attempts    uint32 `json:"attempts"`
	NotBefore   Time   `json:"not_before,omitzero"`
	Consumer    string `json:"consumer,omitempty"`
	Deadline    Time   `json:"deadline,omitzero"`
	Error       string `json:"error,omitempty"`
	ForwardedTo string `json:"forwarded_to,omitempty"` // the queue that a forwarded chunk went on to
	Output      Bytes  `json:"output,omitzero"`
}

// Output is one line of GET /v1/submissions/{id}/outputs.
type Output struct {
	Index  uint32 `json:"index"`
	Output Bytes  `json:"output"`
}

// Page is one page of a list, newest first unless said otherwise. Next is the cursor of the next page, "" on the last.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}
