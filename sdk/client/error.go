package client

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quern-queue/quern/sdk/api"
)

// Error is a refusal by the server. Problem.Code names the reason. RetryAfter is the pause that the server asked for,
// or 0.
type Error struct {
	api.Problem
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	text := e.Title
	if e.Detail != "" {
		text = e.Detail
	}
	text = cmp.Or(text, http.StatusText(e.Status))
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

// passing says whether the refusal is worth another try. A host that is not served (421) stays so; a queue that has moved does not.
func (e *Error) passing() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusMisdirectedRequest:
		return e.Code == api.CodeMoved || e.Code == api.CodeMoving || e.Code == api.CodeElsewhere
	}
	return false
}

// CodeOf returns the code of the *Error in err, or "" if there is none.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// refusal makes the error of an answer with an error status. An answer that does not come from a Quern server (a proxy's page, or a
// server over TLS that was spoken to in the clear) gives the status, and the beginning of its text as detail.
func refusal(r *reply) *Error {
	e := &Error{RetryAfter: r.retryAfter}
	if json.Unmarshal(r.body, &e.Problem) != nil {
		e.Problem = api.Problem{Title: strings.TrimSpace(fmt.Sprintf("HTTP status %d %s", r.status,
			http.StatusText(r.status))), Detail: firstLine(r.body)}
	}
	e.Status = r.status
	return e
}

// firstLine is the beginning of a text of unknown origin, without characters that could confuse a terminal.
func firstLine(body []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(body[:min(len(body), 200)]), []byte("\n"))
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, string(line))
}

// ErrNotTrusted is in the error of a call whose connection failed because of a certificate: this client does not
// trust the server's, or the server does not accept the client's. The client does not repeat such a call.
var ErrNotTrusted = errors.New("not trusted")

// trouble is the error of a try that has no answer.
func trouble(what string, err error) error {
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) || refusesOurs(err) {
		return fmt.Errorf("quern: %s: %w: %w", what, ErrNotTrusted, err)
	}
	return fmt.Errorf("quern: %s: %w", what, err)
}

// refusesOurs reports whether the other side ended the handshake because of our certificate, or for want of one. crypto/tls has no type
// for the alerts that say so, only texts.
func refusesOurs(err error) bool {
	var remote *net.OpError
	return errors.As(err, &remote) && remote.Op == "remote error" && strings.Contains(remote.Err.Error(), "certificate")
}

// final reports whether making a call again does not help: it was refused for good, or the server is not trusted.
func final(err error) bool {
	var refused *Error
	return errors.Is(err, ErrNotTrusted) || errors.As(err, &refused) && !refused.passing()
}

// HandlerError is the error that WorkOptions.OnError gets when a handler failed.
type HandlerError struct {
	Submission string
	Index      uint32
	Err        error
	Stack      []byte // of the goroutine, when the handler panicked
}

func (e *HandlerError) Error() string {
	text := fmt.Sprintf("quern: chunk %s/%d: the handler failed: %v", e.Submission, e.Index, e.Err)
	if e.Stack != nil {
		text += "\n" + string(e.Stack)
	}
	return text
}

func (e *HandlerError) Unwrap() error { return e.Err }

// ErrLost is the cause of a handler's ended context when its reservation was lost, because another consumer holds or
// finished the chunk, or the submission ended. The handler's result no longer counts.
var ErrLost = errors.New("quern: the reservation was lost")

// ErrDraining is the cause of a handler's ended context when Work is ending and WorkOptions.Grace is over.
var ErrDraining = errors.New("quern: the grace period of the drain is over")

// Permanent marks a handler's error as final: the server does not retry the chunk.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// longestPause is the longest pause that the server gives a chunk.
const longestPause = 30 * 24 * time.Hour

// RetryAfter marks a handler's error with the pause before the next attempt, instead of the queue's back-off. The
// pause is at most 30 days; a longer one is cut to that.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err, min(max(d, 0), longestPause)}
}

// Snooze is an error with which a handler gives its chunk back without working on it. No attempt counts, and the
// server offers the chunk again after d, which is at most 30 days; a longer one is cut to that.
func Snooze(d time.Duration) error { return &snoozeError{min(max(d, 0), longestPause)} }

type snoozeError struct{ delay time.Duration }

func (e *snoozeError) Error() string { return "snoozed for " + e.delay.String() }

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type retryError struct {
	err   error
	after time.Duration
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }
