package web

// What the hot calls share: reading bodies, writing answers, and telling what is wrong with a body
// that the hand-written decoders refused. Their problems must read like those of the other calls,
// which huma's decoder finds: same code, same pointer, same words.

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/wire"
)

// readJSON reads the body of a hot call, which is JSON.
func (b *bodies) readJSON(c echo.Context, limit int64) (*buffer, error) {
	if _, err := mediaType(c.Request(), contentJSON); err != nil {
		return nil, err
	}
	if err := plainPath(c.Request()); err != nil {
		return nil, err
	}
	return b.read(c, limit)
}

// plainPath refuses query parameters where an operation knows none: a misspelt option must not be ignored.
func plainPath(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	return queue.Invalid("/query", "has parameters, but this operation knows none; its options go into the body")
}

// json writes an answer that is already encoded. An error means that the client is gone.
func (a *answers) json(c echo.Context, status int, body []byte) error {
	a.setHeaders(c)
	response := c.Response()
	header := response.Header()
	header["Content-Type"] = a.constant.json
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	response.WriteHeader(status)
	_, err := response.Write(body)
	return err
}

// sayDurability marks the answer to a write where the queue answers before the disk has it.
func sayDurability(c echo.Context, q engine.Work) {
	if q.Relaxed() {
		c.Response().Header().Set(headerDurability, queue.Relaxed.String())
	}
}

// wireProblem is the problem of a body that wire refused: what is not JSON at all is told
// apart from what says something wrong. R is the request, of package api.
func wireProblem[R any](err error, body []byte, media string) error {
	var refused *wire.Error
	if !errors.As(err, &refused) {
		return err
	}
	at := queue.Problem{Pointer: refused.Pointer, Detail: refused.Detail}
	if number := refused.Number(); number != "" {
		if allowed := allowedAt(reflect.TypeFor[R](), refused.Pointer); allowed != "" {
			at.Detail = "must be " + number + "; " + allowed + " are allowed"
		}
	}
	if media == contentJSON && !json.Valid(body) {
		return newProblem(codeMalformed, "The body is not one complete JSON value.", at)
	}
	return newProblem(queue.CodeInvalid, "The request is not valid.", at)
}

// prefixed moves the pointers of err below prefix, where that part of the body stands.
// Pointers into the path stay.
func prefixed(err error, prefix string) error {
	return queue.Repointed(err, func(pointer string) string {
		if strings.HasPrefix(pointer, "/path/") {
			return pointer
		}
		return prefix + pointer
	})
}

// renamed moves the pointers of an error from one field to another.
func renamed(err error, from, to string) error {
	return queue.Repointed(err, func(pointer string) string {
		if rest, ok := strings.CutPrefix(pointer, from); ok {
			return to + rest
		}
		return pointer
	})
}

// pool keeps memory that hot calls would otherwise allocate every time. What has grown
// beyond an ordinary call is not kept.
type pool[T any] struct{ sync.Pool }

func (p *pool[T]) take() *T {
	if held, ok := p.Get().(*T); ok {
		return held
	}
	return new(T)
}

// keepItems is the longest list whose memory is kept for the next call.
const keepItems = 1024
