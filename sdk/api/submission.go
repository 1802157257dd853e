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
	Meta Meta `json:"meta,omitempty"` // Keys and values for strategies
	// -(2^53-1) to 2^53-1; CustomPriority takes larger ones first
	Priority int64  `json:"priority,omitempty"`
	Chunks   Chunks `json:"chunks"` // The work, in exactly one of three forms
	// At most 64 KiB of opaque bytes, sent with every reservation
	Attachment         Bytes  `json:"attachment,omitzero"`
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	RunAt              Time   `json:"run_at,omitzero"`
	DeadDeadline       Time   `json:"dead_deadline,omitzero"`
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"` // fail_submission, dead_letter or skip
	// Number of dead or skipped chunks before the submission fails; 0: any number
	MaxFailedChunks uint32 `json:"max_failed_chunks,omitempty"`
	// Longest time that one attempt may hold a chunk, with all its extensions; 0: the queue's
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	Group     string `json:"group,omitempty"`
	// W3C traceparent of this submission, then ';' and the tracestate; replaces the headers
	Trace string `json:"trace,omitempty" limit:"..MaxTraceBytes"`
	// Pause after a failed attempt; absent: the queue's
	RetryBackoff *Backoff `json:"retry_backoff,omitempty"`
	// Inserts it only if no other submission of the queue holds the key
	Unique *Unique `json:"unique,omitempty"`
	// Keeps its chunks back until other submissions have ended
	After *After `json:"after,omitempty"`
}

// After are submissions that another one waits for. None of its chunks is handed out before they have ended.
type After struct {
	// Submissions of the same queue, each once; in a queue of several shards, of the same group
	IDs []string `json:"ids" limit:"1..MaxAfter"`
	// completed (default): wait until all of them are completed. ended: wait until they have ended in any way
	Until string `json:"until,omitempty"`
	// Action of the server if one of them ends without being completed. cancel (default): it cancels this submission.
	// run: this one starts all the same when all have ended. dead_letter: its chunks become dead letters, whose error
	// names the one that ended. Refused with until "ended"
	OnUnmet string `json:"on_unmet,omitempty"`
}

// Unique is a key that at most one submission of a queue holds. An insert whose key is held is answered with the submission that holds it,
// whose Existing is true.
type Unique struct {
	Key string `json:"key" limit:"1..MaxUniqueKey"` // Any text that the submissions have in common, such as "invoice:7481"
	// open (default): the submission holds the key until it ends. A duration such as "90s" or "24h", 1s to 720h: it holds
	// the key for that time from the insert on, even if it has ended
	While string `json:"while,omitempty"`
	// keep (default): the submission that holds the key stays. replace: the server cancels it and inserts
	// this one, unless one of its chunks is reserved, done, dead or skipped. Absent in answers
	OnConflict string `json:"on_conflict,omitempty"`
}

// Chunks is the work of a submission, in exactly one of three forms: Count with Prefix (contents are in object storage at
// prefix+index), Count with Template (each "{index}" in it is replaced), or Inline (one entry per chunk, at most 100,000).
type Chunks struct {
	Count uint32 `json:"count,omitempty" limit:"1..MaxChunks"` // Number of chunks, with prefix or template
	// Contents are in object storage, at prefix + index
	Prefix string `json:"prefix,omitempty" limit:"..MaxPrefixBytes"`
	// The content is this text, with each {index} replaced
	Template string `json:"template,omitempty" limit:"..MaxTemplateBytes"`
	// One content per chunk, each at most 1 MiB
	Inline []Bytes `json:"inline,omitempty" limit:"..MaxInlineChunks"`
}

// NewSubmissionHead is the first line of an insert as JSON lines: a NewSubmission without its chunks, which follow one per
// line as Bytes.
type NewSubmissionHead struct {
	Meta     Meta  `json:"meta,omitempty"` // Keys and values for strategies
	Priority int64 `json:"priority,omitempty"`
	// At most 64 KiB of opaque bytes, sent with every reservation
	Attachment         Bytes  `json:"attachment,omitzero"`
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	RunAt              Time   `json:"run_at,omitzero"`
	DeadDeadline       Time   `json:"dead_deadline,omitzero"`
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"`
	// Longest time that one attempt may hold a chunk, with all its extensions; absent: the queue's
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	Group     string `json:"group,omitempty"`
	// W3C traceparent of this submission, then ';' and the tracestate; replaces the headers
	Trace string `json:"trace,omitempty" limit:"..MaxTraceBytes"`
	// Pause after a failed attempt; absent: the queue's
	RetryBackoff *Backoff `json:"retry_backoff,omitempty"`
	// Inserts it only if no other submission of the queue holds the key
	Unique *Unique `json:"unique,omitempty"`
	// Keeps its chunks back until other submissions have ended
	After *After `json:"after,omitempty"`
}

// InsertManyRequest is the body of POST /v1/queues/{queue}/submissions:batch. Atomic: all of them are inserted, or none when one is
// invalid or refused.
type InsertManyRequest struct {
	// Insert all submissions, or none if one is invalid or refused
	Atomic bool `json:"atomic,omitempty"`
	// Submissions to insert; at least one
	Submissions []BatchSubmission `json:"submissions" limit:"..MaxInsertions"`
}

// BatchSubmission is one submission of an InsertManyRequest. IdempotencyKey is what the header Idempotency-Key is for a single insert.
type BatchSubmission struct {
	NewSubmission
	// Like the header Idempotency-Key of a single insert
	IdempotencyKey string `json:"idempotency_key,omitempty" limit:"..MaxIdempotencyKey"`
}

// InsertManyResponse is the answer of an insert of many: one result per submission, in order.
type InsertManyResponse struct {
	Results []InsertResult `json:"results"` // One per submission, in order
}

// InsertResult is the outcome of one submission of an insert of many. Submission is nil if it is invalid or refused;
// then Code and Detail say why, and Pointer says where in the request.
type InsertResult struct {
	Status string `json:"status" names:"insertions"` // Result of this submission
	// The submission, as a single insert returns it; absent if it was not inserted
	Submission *Submission `json:"submission,omitempty"`
	Code       string      `json:"code,omitempty"`   // Stable name of the reason, if it was not inserted
	Detail     string      `json:"detail,omitempty"` // The reason in words
	// JSON pointer to the faulty field; for JSON lines, as if they were an array
	Pointer string `json:"pointer,omitempty"`
}

// The outcomes of a submission of an insert of many.
const (
	InsertCreated  = "created"
	InsertExisting = "existing" // it was not inserted: Submission holds its unique key
	InsertReplayed = "replayed" // it was inserted before, with the same idempotency key: Submission is as it is now
	InsertInvalid  = "invalid"  // something is wrong with it
	InsertRefused  = "refused"  // nothing is wrong with it, but it cannot be inserted, or not now
)

// SubmissionChange is the body of PATCH /v1/submissions/{id}: a change of an open submission. Priority is as in
// NewSubmission, and required.
type SubmissionChange struct {
	Priority *int64 `json:"priority"`
}

// Submission is what is known about a submission at one moment.
type Submission struct {
	ID    string `json:"id"`    // Permanent id; ids grow with time
	Queue string `json:"queue"` // The queue it is in
	// All states but open are final, except that a redrive reopens completed_with_dead
	State  string `json:"state" names:"states"`
	Chunks uint32 `json:"chunks"` // Number of chunks
	// Ready: can be reserved now, if a strategy and its limits allow it
	Ready    uint32 `json:"ready"`
	Paused   uint32 `json:"paused,omitempty"`  // Ready, but a pause covers the submission
	Blocked  uint32 `json:"blocked,omitempty"` // Ready, but a block covers the submission
	Waiting  uint32 `json:"waiting"`           // Waiting for a retry, for run_at or for other submissions
	Reserved uint32 `json:"reserved"`          // Held by consumers
	Done     uint32 `json:"done"`              // Completed
	// Dead letters; for a failed submission, the chunks that ended it
	Dead uint32 `json:"dead"`
	// Skipped chunks that were forwarded to another queue as dead letters
	Forwarded uint32 `json:"forwarded,omitempty"`
	// Deleted, forwarded or, in an ended submission, unfinished
	Skipped            uint32 `json:"skipped,omitempty"`
	CreatedAt          Time   `json:"created_at"`     // Time of the insert
	Meta               Meta   `json:"meta,omitempty"` // Keys and values for strategies
	Priority           int64  `json:"priority,omitempty"`
	Group              string `json:"group,omitempty"`
	Shard              int    `json:"shard,omitempty"` // Number of the shard that has it; absent if the queue has one shard
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	Prefix             string `json:"prefix,omitempty"`         // Prefix from the insert
	Template           string `json:"template,omitempty"`       // Template from the insert
	HasAttachment      bool   `json:"has_attachment,omitempty"` // Whether it has an attachment
	RunAt              Time   `json:"run_at,omitzero"`
	DeadDeadline       Time   `json:"dead_deadline,omitzero"`
	FinishedAt         Time   `json:"finished_at,omitzero"` // Time of its end
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"`
	// Longest time that one attempt may hold a chunk, with all its extensions; absent: the queue's
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Last error of the chunk that failed the submission
	Failure string `json:"failure,omitempty"`
	// Index of the chunk that failed the submission: out of attempts, failed as fatal, or one more than
	// max_failed_chunks. Absent if it did not fail, or under a version that did not record it
	FailedChunk   *uint32 `json:"failed_chunk,omitempty"`
	ForwardedFrom *Origin `json:"forwarded_from,omitempty"` // Origin, for a dead letter of another queue
	Trace         string  `json:"trace,omitempty"`          // W3C traceparent, then ';' and the tracestate
	Schedule      string  `json:"schedule,omitempty"`       // Schedule that inserted it
	ScheduledAt   Time    `json:"scheduled_at,omitzero"`    // Tick of that schedule
	// Its own pause after a failed attempt
	RetryBackoff *Backoff `json:"retry_backoff,omitempty"`
	Unique       *Unique  `json:"unique,omitempty"` // Its unique key
	After        *After   `json:"after,omitempty"`  // The submissions that it had to wait for
	// Those that it still waits for
	WaitsFor []string `json:"waits_for,omitempty"`
	// In the answer of an insert: nothing was inserted, because this submission holds the unique key
	Existing bool `json:"existing,omitempty"`
}

// WaitRequest is the body of POST /v1/submissions:wait.
type WaitRequest struct {
	IDs    []string `json:"ids" limit:"..MaxWaitIDs"`               // Submissions to wait for, of any queues
	WaitMS int64    `json:"wait_ms,omitempty" limit:"0..MaxWaitMS"` // Time to wait; 0 or absent: none
	// Answer when all submissions have ended; absent: when one has
	All bool `json:"all,omitempty"`
}

// WaitResponse is how the submissions stand when the wait is over. Ended and Unknown are in the order of the request.
type WaitResponse struct {
	Ended []Submission `json:"ended"` // Ended submissions, in the order of the request
	Open  int          `json:"open"`  // Number of submissions that are open, or have ended but did not fit
	// Unknown ids, in the order of the request; absent if there are none
	Unknown []string `json:"unknown,omitempty"`
}

// Chunk is what is known about one chunk at one moment.
type Chunk struct {
	Index    uint32 `json:"index"`                      // Index, from 0
	State    string `json:"state" names:"chunk states"` // State of the chunk
	Attempts uint32 `json:"attempts"`                   // Attempts that ended without success
	// For a waiting chunk: the earliest time at which the server hands it out
	NotBefore Time   `json:"not_before,omitzero"`
	Consumer  string `json:"consumer,omitempty"`  // For a reserved chunk: its consumer
	HeldSince Time   `json:"held_since,omitzero"` // For a reserved chunk: time of the reservation
	Deadline  Time   `json:"deadline,omitzero"`   // For a reserved chunk: its deadline
	// For a reserved chunk: share of the work that is done, 0 to 1, as its consumer last reported
	Progress    *float64 `json:"progress,omitempty"`
	Note        string   `json:"note,omitempty"`         // For a reserved chunk: the latest note of its consumer
	Error       string   `json:"error,omitempty"`        // Error of the last attempt
	ForwardedTo string   `json:"forwarded_to,omitempty"` // For a forwarded chunk: the target queue
	Output      Bytes    `json:"output,omitzero"`        // Output, for a done chunk that has one
}

// Output is one line of GET /v1/submissions/{id}/outputs.
type Output struct {
	Index  uint32 `json:"index"`  // Index of the chunk
	Output Bytes  `json:"output"` // Output from the consumer
}

// SubmissionOutput is an output in GET /v1/queues/{queue}/outputs.
type SubmissionOutput struct {
	Submission string `json:"submission"` // Id of the submission
	Index      uint32 `json:"index"`      // Index of the chunk
	Output     Bytes  `json:"output"`     // Output from the consumer
}

// Page is one page of a list, newest first unless said otherwise. Next is the cursor of the next page, "" on the last.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
	// Shards that did not answer, in a list about a queue of several shards: the list lacks their items
	MissingShards []MissingShard `json:"missing_shards,omitempty"`
}

// Names of the events of a stream of ends.
const (
	EventEnd     = "end"     // its data is a Submission
	EventGap     = "gap"     // its data is an EndsGap
	EventProblem = "problem" // its data is a Problem, and it is the last
)

// EndsGap says that ends between two places are missing: the queue's retention has removed them, or the server was restored from an older
// backup. After a restore, the second place can be before the first one: ends that the client has are lost, and may come again.
type EndsGap struct {
	After string `json:"after"` // The client's place: it has all ends up to there
	Until string `json:"until"` // Place up to which ends are missing, or behind which they come again
}
