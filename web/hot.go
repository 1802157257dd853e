package web

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

// hotBody reads the JSON body of a hot call.
func (s *Server) hotBody(c echo.Context, limit int64) (*buffer, error) {
	if _, err := s.mediaType(c.Request(), contentJSON); err != nil {
		return nil, err
	}
	if err := plainPath(c.Request()); err != nil {
		return nil, err
	}
	return s.readBody(c, limit)
}

// plainPath refuses query parameters where an operation knows none: a misspelt option must not be ignored.
func plainPath(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	return queue.Invalid("/query", "has parameters, but this operation knows none; its options go into the body")
}

// writeJSON writes an answer that is already encoded. An error means that the client is gone.
func (s *Server) writeJSON(c echo.Context, status int, body []byte) error {
	s.setHeaders(c)
	response := c.Response()
	header := response.Header()
	header["Content-Type"] = s.constant.json
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	response.WriteHeader(status)
	_, err := response.Write(body)
	return err
}

// sayDurability marks the answer to a write where the queue answers before the disk has it.
func sayDurability(c echo.Context, q *engine.Queue) {
	if q.Relaxed() {
		c.Response().Header().Set(headerDurability, queue.Relaxed.String())
	}
}

// wireProblem is the problem of a body that wire refused: what is not JSON at all is told apart from what says
// something wrong. R is the request, of package api.
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

// prefixed moves the pointers of err below prefix, where that part of the body stands. Pointers into the path stay.
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

// pools hold what hot calls would otherwise allocate every time. What has grown beyond an ordinary call is not kept.
type pools struct {
	buffers   sync.Pool // *buffer
	reserves  sync.Pool // *reserveCall
	finishes  sync.Pool // *finishCall
	exchanges sync.Pool // *exchangeCall
	inserts   sync.Pool // *insertCall
}

// keepItems is the longest list whose memory is kept for the next call.
const keepItems = 1024

func take[T any](pool *sync.Pool) *T {
	if held, ok := pool.Get().(*T); ok {
		return held
	}
	return new(T)
}

func (p *pools) reserveCall() *reserveCall { return take[reserveCall](&p.reserves) }

// freeReserve accepts nil, for a caller that gave its call back before.
func (p *pools) freeReserve(call *reserveCall) {
	if call != nil && cap(call.scratch) <= keepBody {
		p.reserves.Put(call)
	}
}

func (p *pools) finishCall() *finishCall { return take[finishCall](&p.finishes) }

func (p *pools) freeFinish(call *finishCall) {
	if max(cap(call.completeItems), cap(call.failItems), cap(call.extendItems), cap(call.releaseItems)) <= keepItems {
		p.finishes.Put(call)
	}
}

func (p *pools) exchangeCall() *exchangeCall { return take[exchangeCall](&p.exchanges) }

func (p *pools) freeExchange(call *exchangeCall) {
	if max(cap(call.asked.Complete), cap(call.asked.Fail), cap(call.asked.Extend)) <= keepItems && cap(call.scratch) <= keepBody {
		p.exchanges.Put(call)
	}
}

func (p *pools) insertCall() *insertCall { return take[insertCall](&p.inserts) }

func (p *pools) freeInsert(call *insertCall) {
	if cap(call.request.Inline) <= keepItems {
		call.request.Inline = nil
		p.inserts.Put(call)
	}
}
