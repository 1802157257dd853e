package api

import (
	"strings"
	"unicode/utf8"
)

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
	Errors    []ProblemError `json:"errors,omitempty"`  // All faults of the request
	Current   *uint64        `json:"current,omitempty"` // With limit_reached: the present count
	Max       *uint64        `json:"max,omitempty"`     // With limit_reached: the limit
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
	CodeUnknownGroup       = "unknown_group"
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
	CodeLimitReached       = "limit_reached"     // a limit of a group has no room for the submission
	CodeMoved              = "moved"             // another server has taken the queue over
	CodeMoving             = "moving"            // no server has the queue at this moment
	CodeElsewhere          = "elsewhere"         // the owner changed while a node forwarded the call
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

// FieldError says what is wrong with one value of a JSON document. Pointer is the JSON pointer (RFC 6901) of the value,
// relative to the value that was being read ("" is that value itself); Detail is the rest of a sentence about it.
type FieldError struct {
	Pointer string
	Detail  string
}

func (e *FieldError) Error() string {
	if e.Pointer == "" {
		return "the document " + e.Detail
	}
	return e.Pointer + " " + e.Detail
}

// Details that the reading types and sdk/wire share, so that every decoder refuses with the same words.
const (
	UnknownDetail   = "is not a known field"
	DuplicateDetail = "is given twice; give each field once"
	MetaDetail      = "must be a string or a whole number from -9223372036854775808 to 9223372036854775807"
	ObjectDetail    = "must be an object"
	TimeDetail      = `must be a time after 1970 in RFC 3339, such as "2026-01-31T12:00:00.000Z"`
)

// UnknownField is the refusal of a field that the object does not have.
func UnknownField(name string) *FieldError {
	return &FieldError{Pointer: "/" + EscapePointer(name), Detail: UnknownDetail}
}

// EscapePointer makes a field name a segment of a JSON pointer: ~ becomes ~0 and / becomes ~1. Names of more than 100 bytes
// are cut, because an answer should not repeat a megabyte that a client sent as a name.
func EscapePointer(name string) string {
	const most = 100
	if len(name) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "..."
	}
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
