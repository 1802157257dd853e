package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quern-queue/quern/sdk/api"
)

// Error is a refusal by the server. Problem.Code says which; RetryAfter is how long the server asked to wait, 0 when it
// did not.
type Error struct {
	api.Problem
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	text := e.Title
	if e.Detail != "" {
		text = e.Detail
	}
	if text == "" {
		text = http.StatusText(e.Status)
	}
	text = "quern: " + text + " (" + strconv.Itoa(e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	text += ")"
	for _, problem := range e.Errors {
		text += "; " + problem.Pointer + " " + problem.Detail
	}
	return text
}

// CodeOf is the code of the *Error in err, "" when there is none.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// refusal makes the error of an answer with an error status. What does not come from a Quern server (a proxy's page, or a server
// over TLS that was spoken to in the clear) has the status, and the beginning of its text as detail.
func refusal(r *reply) *Error {
	e := &Error{RetryAfter: r.retryAfter}
	if json.Unmarshal(r.body, &e.Problem) != nil {
		e.Problem = api.Problem{Title: strings.TrimSpace(fmt.Sprintf("HTTP status %d %s", r.status,
			http.StatusText(r.status))), Detail: firstLine(r.body)}
	}
	e.Status = r.status
	return e
}

// firstLine is the beginning of a text of unknown origin, without what could confuse a terminal.
func firstLine(body []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(body[:min(len(body), 200)]), []byte("\n"))
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, string(line))
}

// ErrLost is the cause of a handler's ended context when its reservation was lost (another consumer holds or finished the
// chunk, or the submission ended): what it does no longer counts.
var ErrLost = errors.New("quern: the reservation was lost")

// ErrDraining is the cause of a handler's ended context when Work was to end and WorkOptions.Grace is over.
var ErrDraining = errors.New("quern: the grace period of the drain is over")

// Permanent marks a handler's error as final: the chunk gets no further try.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// longestPause is the longest pause that the server gives a chunk.
const longestPause = 30 * 24 * time.Hour

// RetryAfter marks a handler's error with the pause that the chunk should have before its next try, instead of the
// queue's back-off: at most 30 days, and a longer one is cut to that.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err, min(max(d, 0), longestPause)}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type retryError struct {
	err   error
	after time.Duration
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }
