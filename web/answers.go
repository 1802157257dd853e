package web

// How answers leave that are not streams, and how their memory is counted.
//
//	handler ─► collected (Writer) ─► counted in access.Answer ─► all of it made? ─► client
//	                                      │ no room
//	                                      └► 429, and nothing of the answer was sent
//
// An answer is sent when all of it is made. So it can be refused to the last byte, compression
// knows its whole, and the engine's data is free while a slow client reads.

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/access"
)

// Answers over access.SmallAnswer count for the memory that they take, from when the engine
// gathers them until the client has taken them: a client that asks for much and reads nothing
// must not fill the memory of all. What cannot be counted is refused before its first byte.

// maxAnswers bounds what all large answers may hold together. Of one access token, they
// may hold Limits.Answers.
const maxAnswers = 128 << 20

// answers writes what goes out in one piece.
type answers struct {
	constant constant
	ids      requestIDs
	buffers  *buffers
	waits    *waits // which the server's stop ends
}

// collected is an answer that is sent when all of it is made. What it was made of is no longer in memory then. It
// holds an answer back that may still be refused. Streams do not go through it.
type collected struct {
	http.ResponseWriter
	answer *access.Answer
	parts  int64 // what is counted of what it is made of
	status int
	body   *buffer
	failed error // there was no room for it
}

// Unwrap is for http.ResponseController.
func (a *collected) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader keeps the status.
func (a *collected) WriteHeader(status int) { a.status = status }

// At the first byte, what the answer is made of is still in memory (parts), so both count together.
// The buffer counts by its capacity, as append grows it in steps.
func (a *collected) Write(b []byte) (int, error) {
	if len(a.body.b) == 0 {
		a.parts = a.answer.Holds()
	}
	if a.failed == nil {
		a.failed = a.answer.Hold(a.parts + max(int64(cap(a.body.b)), int64(len(a.body.b)+len(b))))
	}
	if a.failed != nil {
		return 0, a.failed
	}
	a.body.b = append(a.body.b, b...)
	return len(b), nil
}

// inTurn has read work when it is the turn of its token: lists of one must not take the
// processor from the calls of others.
func inTurn(clock *clock, c echo.Context, read func() error) error {
	ctx := c.Request().Context()
	use, _ := access.Of(ctx).Share()
	if use == nil {
		return read()
	}
	leave, ok, err := use.Reads.Take(ctx, clock.elapsed)
	switch {
	case err != nil:
		return err
	case !ok:
		return tooMuch("More reads of this access token wait for their turn than may.", 0)
	}
	defer leave()
	return read()
}

// collect has make answer into memory, and sends that, unless still fails then. What make returns is returned, or
// that there was no room. still is asked last: between the reading and the sending, a queue may have moved to another
// node, and what was read may be old.
func (a *answers) collect(c echo.Context, make, still func() error) error {
	response := c.Response()
	in := &collected{ResponseWriter: response.Writer, answer: access.Of(c.Request().Context()).Answer,
		body: a.buffers.take()}
	defer func() {
		response.Writer = in.ResponseWriter
		a.buffers.free(in.body)
		_ = in.answer.Hold(0) // less always fits
	}()
	response.Writer = in
	err := make()
	response.Writer = in.ResponseWriter
	if err == nil && in.failed == nil && still != nil {
		in.failed = still()
	}
	if in.failed != nil { // whatever make made of it
		header := response.Header()
		header.Del("Content-Encoding")
		header.Del("Content-Length")
		response.Committed, response.Status, response.Size = false, http.StatusOK, 0
		return in.failed
	}
	if in.status == 0 || err != nil && response.Committed {
		return err // nothing was answered, or half an answer
	}
	_ = in.answer.Hold(int64(cap(in.body.b)))
	in.ResponseWriter.WriteHeader(in.status)
	if len(in.body.b) == 0 {
		return err
	}
	if _, wrong := in.ResponseWriter.Write(in.body.b); wrong != nil {
		return newProblem(codeClientGone, "The client went away before the answer.")
	}
	return err
}
