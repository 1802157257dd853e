package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// This file says why the body of a call did not arrive. net/http has no types for most reasons, and huma keeps only
// their texts. Without it, a client that hangs up would look like a failure of the server.

// arriving is a body that keeps its problem for the answer. Its state is its own and not in the echo.Context: when the
// call is sent on, the body may be read for a moment after the call.
type arriving struct {
	io.ReadCloser
	r        *http.Request
	auth     *auth // of a call that a token was admitted for
	received int64
	broken   *problem
}

// Read looks the token up again when all of the body has come: else a client could send the head of a call, and use a
// revoked token minutes later.
func (b *arriving) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.received += int64(n)
	switch {
	case b.auth != nil && (err == io.EOF || b.received == b.r.ContentLength) && b.auth.ended(b.r):
		n, err = 0, noLongerGood()
	case err != nil && err != io.EOF:
		err = unread(b.r, err)
	}
	b.broken, _ = err.(*problem)
	return n, err
}

// receive prepares for the body of a call. Hot calls with a Content-Length are left as they are: readBytes sees to
// them, without another object. The call gets a request of its own: net/http looks at the body of the one that it made,
// and would wait for a body that a refused client, with "Expect: 100-continue", never sends.
//
// A connection with a chunked body is closed behind it: net/http does not tell whether the request also had a
// Content-Length, and the bytes behind such a request may be read in two ways (RFC 9112, section 6.1).
func receive(c echo.Context, op *operation) {
	r := c.Request()
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	chunked := chunkedBody(r)
	if chunked {
		c.Response().Header().Set("Connection", "close")
	}
	if chunked || r.ProtoMajor > 1 || op == nil || !op.hot {
		own := *r
		body := &arriving{ReadCloser: r.Body, r: &own}
		own.Body = body
		c.SetRequest(&own)
		c.Set(brokenKey, body)
	}
}

func chunkedBody(r *http.Request) bool { return r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 }

// unread is the error of reading a body as the answer says it: that the client did not send the body whole. Other
// errors stay as they are.
func unread(r *http.Request, err error) error {
	var (
		known   *problem
		large   *http.MaxBytesError
		network net.Error
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.ErrUnexpectedEOF):
		return newProblem(codeMalformed, "The body ended early: less arrived than was announced.")
	case errors.As(err, &network) && network.Timeout(), errors.As(err, &large), errors.Is(err, context.Canceled):
		return err
	case r.Context().Err() != nil: // net/http ends it when a read fails
		return newProblem(codeClientGone, "The client went away before its request had arrived.")
	case chunkedBody(r):
		return newProblem(codeMalformed, "The body is not in the chunks that Transfer-Encoding announces: "+
			strings.TrimPrefix(err.Error(), "http: ")+".")
	case r.ProtoMajor > 1:
		return newProblem(codeMalformed, "The body cannot be read to its end: "+err.Error()+".")
	}
	return err
}
