package queue

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Code is the stable name of a kind of failure; clients may switch on it. web maps each to one HTTP status.
type Code string

// The codes. Anything that is not an *Error is an internal failure, whose text never reaches a client.
const (
	CodeInvalid            Code = "invalid"                // the request is wrong: the pointers say where
	CodeUnknownQueue       Code = "unknown_queue"          // no queue of that name
	CodeUnknownSubmission  Code = "unknown_submission"     // no submission of that id, or aged out of the history
	CodeUnknownStrategy    Code = "unknown_strategy"       // no strategy of that name in the queue, or no such version
	CodeUnknownValue       Code = "unknown_value"          // no submission has this value of a meta key, and nothing is set for it
	CodeUnknownGroup       Code = "unknown_group"          // the queue has no group of that name
	CodeUnknownSchedule    Code = "unknown_schedule"       // no schedule of that name in the queue
	CodeUnknownPlugin      Code = "unknown_plugin"         // no plugin of that name, or no such version, recording or log of it
	CodePrecondition       Code = "precondition_failed"    // a condition of the request does not hold: someone changed the thing meanwhile
	CodeUnknownDeadLetter  Code = "unknown_dead_letter"    // the chunk is not dead, or not in this queue
	CodeUnknownBulk        Code = "unknown_bulk_operation" // no bulk operation of that id, or forgotten
	CodeUnknownRule        Code = "unknown_rule"           // no rule of that id was ever set
	CodeRefusedByRule      Code = "refused_by_rule"        // a rule refuses inserts
	CodeUnknownConsumer    Code = "unknown_consumer"       // no consumer of that name is attached, holds or waits for something
	CodeUnknownToken       Code = "unknown_token"          // no access token of that id
	CodeDraining           Code = "queue_draining"         // the queue takes no inserts any more
	CodeConflict           Code = "conflict"               // the state forbids it (deleting a queue with open submissions, ...)
	CodeIdempotencyReuse   Code = "idempotency_key_reused" // same key, different request
	CodeTooLarge           Code = "too_large"              // a body or a batch over its limit
	CodeOverloaded         Code = "overloaded"             // a bounded queue inside is full: try again later
	CodeTooManySubmissions Code = "too_many_submissions"   // as many are open as the server allows: inserts are refused until some end
	CodeLimitReached       Code = "limit_reached"          // a limit of a group has no room for the insert
	CodeDiskFull           Code = "disk_full"              // calls that add something are refused until there is room; completions go on
	CodeUnavailable        Code = "unavailable"            // the shard is reloading or closing
	CodeMoved              Code = "moved"                  // another server has taken the queue over: this one serves it no more
	CodeMoving             Code = "moving"                 // no server is sure to have the queue at this moment
	CodeQuarantined        Code = "queue_quarantined"      // the queue's files are damaged or missing; the other queues serve
	CodeBatchRefused       Code = "batch_refused"          // an atomic call inserts nothing, as another submission of it cannot be
	CodeCommitFailed       Code = "commit_failed"          // the commit failed: the outcome is "not done" or unknown, ask again
)

// Problem is one fault in a request. It has the place (a JSON pointer into the body, or "/query/name", "/header/name", "/path/name"), and
// the advice, as the rest of a sentence about the thing at that place.
type Problem struct {
	Pointer string
	Detail  string
}

// Error is a failure that the caller can act on.
type Error struct {
	Code     Code
	Message  string    // a whole sentence for a person: the problem, and what to do
	Problems []Problem // for CodeInvalid: all that was found
	Err      error     // the cause, for logs only

	Reached    *Reached      // for CodeLimitReached
	RetryAfter time.Duration // when it may be worth sending the request again; 0: as for all errors of this code
}

// Reached is a limit that has no room for the request, and how much of it is in use.
type Reached struct{ Current, Max uint64 }

func (e *Error) Error() string {
	text := string(e.Code) + ": " + e.Message
	for _, p := range e.Problems {
		text += "; " + p.Pointer + " " + p.Detail
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Invalid is the error of one wrong field.
func Invalid(pointer, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Message: "The request is not valid.",
		Problems: []Problem{{Pointer: pointer, Detail: fmt.Sprintf(format, args...)}}}
}

// UnknownSubmission is the error of an id that no submission has.
func UnknownSubmission(id SubmissionID) *Error {
	return &Error{Code: CodeUnknownSubmission,
		Message: fmt.Sprintf("There is no submission %s: it never existed, its retention is over, or it was deleted.", id)}
}

// Repointed is the error with other pointers, for an error about a part of the request.
func Repointed(err error, to func(pointer string) string) error {
	if err == nil {
		return nil // before e, which is on the heap
	}
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) == 0 {
		return err
	}
	moved := *e
	moved.Problems = slices.Clone(e.Problems)
	for i := range moved.Problems {
		moved.Problems[i].Pointer = to(moved.Problems[i].Pointer)
	}
	return &moved
}

// CodeOf finds the code of err, or "" when it is an internal failure or nil.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// FormatError says that a file is damaged, foreign or of a version that this program does not read. The caller that finds one has changed
// nothing.
type FormatError struct {
	Path   string // the file
	Reason string // what is wrong with it, as the rest of a sentence about the file
	Advice string // what to do, a sentence
	Unread bool   // this program does not read its version; it may well be whole
	Other  bool   // it belongs elsewhere, or to another moment; it may well be whole
	Err    error  // the cause, if there is one below
}

func (e *FormatError) Error() string {
	text := e.Path + " " + e.Reason + ". " + e.Advice
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	return text
}

func (e *FormatError) Unwrap() error { return e.Err }
