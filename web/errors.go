package web

// From errors to answers. The engine returns *queue.Error with a code. One table, kinds, says what
// each code means over HTTP: status, title, advice and Retry-After. There is no other place where a
// status is chosen for a failure, so two operations cannot answer the same failure differently.
//
//	error ─► problemOf ─► problem{code, status, title, detail, errors[]} ─► application/problem+json
//	            └ what is no *queue.Error is `internal`: its text goes to the log, never to the client
//
// Codes are part of the API. Clients decide by them, so a code is never renamed; titles and details
// may change.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Codes of failures that only exist at the HTTP face; the engine's own are in package queue.
const (
	codeMalformed      queue.Code = "malformed"              // the body is not JSON, or not all of it arrived
	codeNotFound       queue.Code = api.CodeNotFound         // no such path
	codeMethod         queue.Code = api.CodeMethodNotAllowed // the path exists, the method does not
	codeMediaType      queue.Code = api.CodeUnsupportedMedia
	codePrecondition   queue.Code = queue.CodePrecondition
	codeHost           queue.Code = "misdirected" // the Host header is not a name of this server
	codeElsewhere      queue.Code = api.CodeElsewhere
	codeUnknownOutcome queue.Code = "outcome_unknown"
	codeCrossOrigin    queue.Code = "cross_origin"   // a browser sent it from another site
	codeSlow           queue.Code = "request_slow"   // the body did not arrive in time
	codeNotReady       queue.Code = "not_ready"      // /readyz: a check fails
	codeClientGone     queue.Code = "client_closed"  // for the access log only: no client is left to read an answer
	codeInternal       queue.Code = api.CodeInternal // our fault; details are in the server's log
	statusClientGone              = 499
	contentProblem                = api.ProblemContentType
)

// kind has what all failures of one code have in common: status, title and advice. The detail, which the engine
// writes, says what was wrong this time.
type kind struct {
	code   queue.Code
	status int
	title  string        // does not vary between occurrences
	advice string        // for the reference page: a client's remedy
	retry  time.Duration // sent as Retry-After; 0: none
}

const adviceMoved = "Wait as long as Retry-After says and send it again, to another server if there are several."

// kinds is the one table from codes to HTTP, in the order of the reference page. It is the
// result of a function, so that nothing can change it.
func kinds() []kind { return append(failures(), unknowns()...) }

// The order is that of the reference page: first the failures that a client can correct, then those that pass by
// themselves.
func failures() []kind {
	return []kind{
		{code: queue.CodeInvalid, status: 422, title: "The request is not valid",
			advice: "Correct the fields that errors[] points at."},
		{code: codeMalformed, status: 400, title: "The body cannot be read",
			advice: "Send one complete JSON value (or JSON lines where they are accepted)."},
		{code: codeNotFound, status: 404, title: "No such path", advice: "See the list of operations on this page."},
		{code: codeMethod, status: 405, title: "Method not allowed",
			advice: "Use one of the methods in the Allow header."},
		{code: queue.CodeConflict, status: 409, title: "The state does not allow it",
			advice: "Read the resource again: its present state does not allow this."},
		{code: queue.CodeDraining, status: 409, title: "The queue is draining",
			advice: "Insert into another queue, or turn off draining in the queue's settings."},
		{code: codePrecondition, status: 412, title: "The condition does not hold",
			advice: "It was changed meanwhile: read it again, then retry with its new ETag."},
		{code: queue.CodeRefusedByRule, status: 423, title: "A rule refuses inserts",
			advice: "Wait until the rule ends, or ask who set it: detail says who and why."},
		{code: queue.CodeIdempotencyReuse, status: 422, title: "Idempotency key used before",
			advice: "Use a new Idempotency-Key for a different request."},
		{code: queue.CodeBatchRefused, status: 409, title: "Another submission of the call was refused",
			advice: "Correct or leave out the submission that detail names. Only results of an atomic insert of " +
				"many have this code."},
		{code: queue.CodeTooLarge, status: 413, title: "Too large",
			advice: "Split the request, or put the content into object storage."},
		{code: codeMediaType, status: 415, title: "Unsupported media type",
			advice: "Send Content-Type: application/json and no Content-Encoding."},
		{code: codeUnauthorized, status: 401, title: "An access token is needed",
			advice: "Send Authorization: Bearer qn_..., with a token that is good."},
		{code: codeForbidden, status: 403, title: "The token does not allow it",
			advice: "Use a token with the scope that detail names."},
		{code: codeHost, status: 421, title: "Not a name of this server",
			advice: "Address the server by localhost or by a name it was configured with."},
		{code: codeElsewhere, status: 421, title: "Another node serves this",
			advice: "Nothing was done. Send it to the node that the header Quern-Owner names, or again to this one."},
		{code: codeUnknownOutcome, status: 502, title: "The outcome is unknown",
			advice: "Send it again with the same Idempotency-Key or the same tokens: the server then recognises " +
				"work that it did already."},
		{code: codeCrossOrigin, status: 403, title: "Cross-origin request refused",
			advice: "A page of another site can neither make changes nor open streams."},
		{code: codeSlow, status: 408, title: "The request took too long to arrive", advice: "Send it again."},
		{code: queue.CodeOverloaded, status: 429, title: "Too much at once",
			advice: "Wait as long as Retry-After says and send it again.", retry: time.Second},
		{code: queue.CodeTooManySubmissions, status: 429, title: "Too many open submissions",
			advice: "Inserts are refused until some have ended; everything else works.", retry: 10 * time.Second},
		{code: queue.CodeLimitReached, status: 429, title: "A limit is reached",
			advice: "Send it again when some work is done; `current` and `max` say how much there is.",
			retry:  10 * time.Second},
		{code: queue.CodeDiskFull, status: 507, title: "The disk is full", advice: "The server refuses inserts and " +
			"other additions until there is room; completing, cancelling and deleting still work.",
			retry: 30 * time.Second},
		{code: queue.CodeQuarantined, status: 503, title: "The queue is in quarantine",
			advice: "GET /v1/queues/{queue} says which file " +
				"is damaged or missing. Once that is fixed and the server started again, the queue serves.",
			retry: 30 * time.Second},
		{code: queue.CodeMoved, status: 503, title: "The queue has moved", advice: adviceMoved, retry: time.Second},
		{code: queue.CodeMoving, status: 503, title: "The queue is moving", advice: adviceMoved, retry: time.Second},
		{code: queue.CodeUnavailable, status: 503, title: "Not available at the moment",
			advice: "Wait as long as Retry-After says and send it again.", retry: time.Second},
		{code: queue.CodeCommitFailed, status: 503, title: "The commit failed", advice: "Send it again with the " +
			"same Idempotency-Key or the same tokens: the server recognises work that it did already.",
			retry: time.Second},
		{code: codeNotReady, status: 503, title: "Not ready", advice: "errors[] names the checks that fail.",
			retry: time.Second},
		{code: codeInternal, status: 500, title: "Internal error",
			advice: "Report it with the request_id: the server's log has the details."},
		{code: codeClientGone, status: statusClientGone, title: "The client went away"},
	}
}

// unknowns are the failures to find the object that a path names. All are 404 with a code that says what is missing,
// so a program can create a missing queue without reading texts.
func unknowns() []kind {
	return []kind{
		{code: queue.CodeUnknownQueue, status: 404, title: "No such queue",
			advice: "Create it with PUT /v1/queues/{queue}, or use the queue named default."},
		{code: queue.CodeUnknownSubmission, status: 404, title: "No such submission",
			advice: "Check the id; ended submissions are forgotten after the queue's retention."},
		{code: queue.CodeUnknownStrategy, status: 404, title: "No such strategy",
			advice: "GET /v1/queues/{queue}/strategies lists the named strategies."},
		{code: queue.CodeUnknownValue, status: 404, title: "No such value",
			advice: "GET /v1/queues/{queue}/meta-keys/{key}/values lists the values; PUT sets a limit or weight " +
				"for any value."},
		{code: queue.CodeUnknownGroup, status: 404, title: "No such group",
			advice: "GET /v1/queues/{queue}/groups lists the groups; PUT /v1/queues/{queue}/groups/{group} creates " +
				"one."},
		{code: queue.CodeUnknownSchedule, status: 404, title: "No such schedule",
			advice: "GET /v1/queues/{queue}/schedules lists the schedules."},
		{code: queue.CodeUnknownPlugin, status: 404, title: "No such plugin",
			advice: "GET /v1/plugins lists the plugins, and /v1/plugins/{name}/versions the versions of one."},
		{code: queue.CodeUnknownDeadLetter, status: 404, title: "No such dead letter",
			advice: "GET /v1/queues/{queue}/dead-letters lists the dead letters."},
		{code: queue.CodeUnknownRule, status: 404, title: "No such rule",
			advice: "GET /v1/queues/{queue}/rules lists the rules."},
		{code: queue.CodeUnknownConsumer, status: 404, title: "No such consumer",
			advice: "GET /v1/queues/{queue}/consumers lists the consumers."},
		{code: queue.CodeUnknownToken, status: 404, title: "No such access token",
			advice: "GET /v1/tokens lists the access tokens."},
		{code: queue.CodeUnknownBulk, status: 404, title: "No such bulk operation",
			advice: "GET /v1/bulk-operations lists the operations."},
	}
}

// kindOf is the same table by code.
var kindOf = sync.OnceValue(func() map[queue.Code]kind {
	byCode := map[queue.Code]kind{}
	for _, k := range kinds() {
		byCode[k.code] = k
	}
	return byCode
})

// problem is a failure as the client sees it: RFC 9457 with our additions, and what goes into the headers.
type problem struct {
	api.Problem
	retry time.Duration
	cause error // for the log; nil when there is nothing to log
}

// The methods that make a problem an answer of huma's: status, text, content type, headers.
var (
	_ huma.StatusError       = (*problem)(nil)
	_ huma.ContentTypeFilter = (*problem)(nil)
	_ huma.HeadersError      = (*problem)(nil)
	_ json.Marshaler         = (*problem)(nil)
)

func (p *problem) Error() string                { return p.Code + ": " + p.Detail }
func (p *problem) GetStatus() int               { return p.Status }
func (p *problem) ContentType(string) string    { return contentProblem }
func (p *problem) Unwrap() error                { return p.cause }
func (p *problem) MarshalJSON() ([]byte, error) { return json.Marshal(p.Problem) }

// GetHeaders is Retry-After, where waiting helps, and the scheme, where a token is missing.
// Retry-After has whole seconds. Rounding up keeps a client from coming back a moment too early and being refused
// again.
func (p *problem) GetHeaders() http.Header {
	switch {
	case p.Status == http.StatusUnauthorized:
		return http.Header{"Www-Authenticate": {`Bearer realm="quern"`}}
	case p.retry > 0:
		return http.Header{"Retry-After": {strconv.Itoa(int((p.retry + time.Second - 1) / time.Second))}}
	}
	return nil
}

// newProblem makes the problem of a code. A code that is not in the table is a mistake of
// ours and becomes internal.
// The type is a link to the code's entry in the reference, relative, so that it leads to the server that answered.
func newProblem(code queue.Code, detail string, problems ...queue.Problem) *problem {
	k, ok := kindOf()[code]
	if !ok {
		k = kindOf()[codeInternal]
	}
	p := &problem{retry: k.retry, Problem: api.Problem{
		Type: "/docs#" + string(k.code), Title: k.title, Status: k.status, Detail: detail, Code: string(k.code),
	}}
	for _, at := range problems {
		p.Errors = append(p.Errors, api.ProblemError{Pointer: at.Pointer, Detail: at.Detail})
	}
	return p
}

// problemOf is err as the client sees it. The text of an error that is not meant for callers stays here. The order
// of the cases matters: an error may wrap several of these, and our own say the most. A context that was cancelled
// means either a stopping server or a client that left; only the server knows which.
func (a *answers) problemOf(err error) *problem {
	var (
		known   *problem
		failure *queue.Error
		routing *echo.HTTPError
		large   *http.MaxBytesError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &failure):
		p := newProblem(failure.Code, failure.Message, failure.Problems...)
		p.cause, p.retry = failure.Err, cmp.Or(failure.RetryAfter, p.retry)
		if reached := failure.Reached; reached != nil {
			p.Current, p.Max = &reached.Current, &reached.Max
		}
		return p
	case errors.As(err, &routing):
		return routingProblem(routing)
	case errors.As(err, &large):
		return newProblem(queue.CodeTooLarge, "The body is larger than the "+strconv.FormatInt(large.Limit, 10)+
			" bytes that this operation accepts.")
	case errors.Is(err, context.Canceled) && a.waits.stopped():
		return newProblem(queue.CodeUnavailable, "The server is stopping.")
	case errors.Is(err, context.Canceled):
		return newProblem(codeClientGone, "The client went away before the answer.")
	// A wait whose time is over ends without an error. So this is a client that sends too slowly.
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return newProblem(codeSlow, "The request did not arrive in time.")
	}
	return internalProblem(err)
}

// internalProblem is a failure of ours; its cause is for the log.
// The client gets an id and no text: an internal error may carry a path or a piece of someone else's data.
func internalProblem(cause error) *problem {
	detail := "Something went wrong in the server. Its log has the details under this request_id."
	if engine.Damaged(cause) {
		detail = "A file of the server is damaged, so it cannot read what you asked for. Its log names the file and " +
			"has advice under " +
			"this request_id; quern check lists all that is damaged."
	}
	p := newProblem(codeInternal, detail)
	p.cause = cause
	return p
}

// routingProblem is the problem of a request that found no handler.
// Other codes of the router would be new to us, so they count as our fault and are logged.
func routingProblem(err *echo.HTTPError) *problem {
	switch err.Code {
	case http.StatusNotFound:
		return newProblem(codeNotFound, "There is nothing at this path. /docs/api lists all paths.")
	case http.StatusMethodNotAllowed:
		return newProblem(codeMethod, "This path does not know the method. The Allow header lists those it knows.")
	}
	return internalProblem(err)
}

// refuse answers with the problem of err, unless an answer has begun: then the connection is cut, so that the client
// does not take half an answer for a whole one. It returns the problem for the access log, whether or not the client
// got it.
func (a *answers) refuse(c echo.Context, err error) *problem {
	p := a.problemOf(err)
	response := c.Response()
	// The caller closes the connection. A second status cannot be sent.
	if response.Committed {
		return p
	}
	header := response.Header()
	if header.Get(headerRequestID) == "" {
		a.setHeaders(c)
	}
	p.RequestID = header.Get(headerRequestID)
	maps.Copy(header, p.GetHeaders())
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte(`{"title":"Internal error","status":500,"code":"internal"}`)
	}
	header.Set("Content-Type", contentProblem)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	response.WriteHeader(p.Status)
	// An error here means that the client is gone, so there is no one to report it to.
	_, _ = response.Write(body)
	return p
}

// fromHuma turns huma's errors about a request into a problem of ours, with pointers instead of dotted paths, and
// without the value that was sent. huma puts the wrong value into its message. The value may be a secret in the
// wrong field, so only the sentence about it is kept.
func fromHuma(model *huma.ErrorModel) *problem {
	var found []queue.Problem
	for _, detail := range model.Errors {
		if detail != nil {
			found = append(found, queue.Problem{Pointer: pointerOf(detail.Location), Detail: detail.Message})
		}
	}
	switch model.Status {
	case http.StatusBadRequest:
		return newProblem(codeMalformed, "The body is not one complete JSON value.", found...)
	case http.StatusRequestTimeout:
		return newProblem(codeSlow, "The request did not arrive in time.")
	case http.StatusRequestEntityTooLarge:
		return newProblem(queue.CodeTooLarge, "The body is larger than this operation accepts.")
	case http.StatusUnsupportedMediaType:
		return newProblem(codeMediaType, "The body must be application/json.")
	case http.StatusUnprocessableEntity:
		return newProblem(queue.CodeInvalid, "The request is not valid.", found...)
	}
	return internalProblem(model)
}

// pointerOf turns huma's "body.items[3].name" into "/items/3/name" and "query.limit" into "/query/limit". Body
// pointers have no prefix, as the pointers of the strict reader have none.
func pointerOf(location string) string {
	path := strings.NewReplacer("[", "/", "]", "", ".", "/").Replace(location)
	if rest, ok := strings.CutPrefix(path, "body"); ok {
		return rest
	}
	return "/" + path
}
