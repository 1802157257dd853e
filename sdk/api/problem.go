package api

// ProblemContentType is the media type of every answer that is an error.
const ProblemContentType = "application/problem+json"

// Problem is an error answer (RFC 9457).
type Problem struct {
	Type     string `json:"type"`               // Address of an explanation of this kind of problem
	Title    string `json:"title"`              // The kind of problem in words, always the same
	Status   int    `json:"status"`             // The HTTP status
	Detail   string `json:"detail,omitempty"`   // The problem in words, and the remedy
	Instance string `json:"instance,omitempty"` // Address of this occurrence
	Code     string `json:"code"`               // Stable name of the kind of problem, for programs
	// Id of the request in the server's log, also in the header X-Request-Id
	RequestID string         `json:"request_id,omitempty"`
	Errors    []ProblemError `json:"errors,omitempty"` // All faults of the request
}

// ProblemError is one thing wrong with a request: where (a JSON pointer into the body, or "/query/name", "/header/name",
// "/path/name"; "" is the whole body) and the rest of a sentence about it.
type ProblemError struct {
	Pointer string `json:"pointer"` // JSON pointer into the body, or /query/NAME, /header/NAME, /path/NAME
	Detail  string `json:"detail"`  // The rest of a sentence about it
}

// The codes. Invalid to CommitFailed are the engine's, the others are the HTTP face's own.
const (
	CodeInvalid            = "invalid"
	CodeUnknownQueue       = "unknown_queue"
	CodeUnknownSubmission  = "unknown_submission"
	CodeUnknownStrategy    = "unknown_strategy"
	CodeUnknownValue       = "unknown_value"
	CodeUnknownPlugin      = "unknown_plugin"
	CodeUnknownSchedule    = "unknown_schedule"
	CodeUnknownDeadLetter  = "unknown_dead_letter"
	CodeUnknownBulk        = "unknown_bulk_operation"
	CodeUnknownRule        = "unknown_rule"
	CodeUnknownToken       = "unknown_token"
	CodeRefusedByRule      = "refused_by_rule"
	CodeUnknownConsumer    = "unknown_consumer"
	CodeQueueDraining      = "queue_draining"
	CodeConflict           = "conflict"
	CodeIdempotencyReuse   = "idempotency_key_reused"
	CodeTooLarge           = "too_large"
	CodeOverloaded         = "overloaded"
	CodeTooManySubmissions = "too_many_submissions"
	CodeMoved              = "moved"             // another server has taken the queue over
	CodeMoving             = "moving"            // no server has the queue at this moment
	CodeQuarantined        = "queue_quarantined" // the queue's files are damaged or missing; the other queues serve
	CodeBatchRefused       = "batch_refused"     // an atomic insert of many: another of its submissions cannot be inserted
	CodeDiskFull           = "disk_full"
	CodeUnavailable        = "unavailable"
	CodeNotReady           = "not_ready" // GET /readyz: a part of the server does not work
	CodeCommitFailed       = "commit_failed"
	CodeInternal           = "internal"
	CodePrecondition       = "precondition_failed"
	CodeNotFound           = "not_found"
	CodeMethodNotAllowed   = "method_not_allowed"
	CodeUnsupportedMedia   = "unsupported_media_type"
	CodeUnauthorized       = "unauthorized" // no access token, or one that is not good
	CodeForbidden          = "forbidden"    // the access token does not allow it
)
