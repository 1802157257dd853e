package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

//	node A: outbox of a queue ── GET ?source=7 ──► node B: "up to number 41 of source 7 they are here"
//	                          ── POST 42, 43 ────► inserted with their numbers, in one commit
//	                             answer lost? A asks again, B knows 43: nothing arrives twice
//
// Dead letters that go on to a queue of another node go there by these two paths. Only nodes can call
// them: a call needs a sealed hop. They are no part of the API, so the document does not list them.
const (
	lettersPath = "/cluster/letters/:queue"
	// maxLetters bounds the bytes of one delivery: the engine sends 16 MiB and one letter
	// more at most, written with little around them.
	maxLetters = 2*maxInsertBytes + 32<<20
)

// lettersRoutes are for the node that serves the queue.
func lettersRoutes(e *echo.Echo, core *engine.Engine, sealed *hops) {
	route := func(method string, handle func(echo.Context, engine.Letterbox) error) {
		e.Add(method, lettersPath, func(c echo.Context) error {
			if sealed.of(c.Request()) == nil {
				return newProblem(codeForbidden, "Only nodes of this cluster send dead letters this way.")
			}
			q, err := core.Queue(c.Param("queue"))
			if err != nil {
				return err
			}
			return handle(c, q.Letterbox())
		})
	}
	route(http.MethodGet, func(c echo.Context, box engine.Letterbox) error {
		source, err := strconv.ParseUint(c.QueryParam("source"), 10, 64)
		if err != nil {
			return queue.Invalid("/query/source", "must be a number")
		}
		number, err := box.Arrived(c.Request().Context(), source)
		if err != nil {
			return err
		}
		return c.String(http.StatusOK, strconv.FormatUint(number, 10))
	})
	route(http.MethodPost, func(c echo.Context, box engine.Letterbox) error {
		var list []queue.Delivery
		body := http.MaxBytesReader(c.Response(), c.Request().Body, maxLetters)
		if err := json.NewDecoder(body).Decode(&list); err != nil {
			return newProblem(codeMalformed, "The dead letters cannot be read: "+err.Error())
		}
		if err := box.Deliver(c.Request().Context(), list); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
}

// Letterbox is that of a queue that another node of the cluster serves, at a URL.
// The engine does not know whether a queue is here or elsewhere: both kinds of letterbox have the same two methods.
func (s *Server) Letterbox(at, name string) engine.Letterbox {
	return farLetterbox{s.forwarding, at + "/cluster/letters/" + url.PathEscape(name)}
}

// farLetterbox is the letterbox of a queue of another node.
type farLetterbox struct {
	through *forwarding
	url     string
}

// Arrived is asked before the first delivery, and again after each one whose answer was lost.
func (b farLetterbox) Arrived(ctx context.Context, source uint64) (uint64, error) {
	text, err := b.call(ctx, http.MethodGet, b.url+"?source="+strconv.FormatUint(source, 10), nil)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(text), 10, 64)
}

func (b farLetterbox) Deliver(ctx context.Context, list []queue.Delivery) error {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(list); err != nil {
		return err
	}
	_, err := b.call(ctx, http.MethodPost, b.url, &body)
	return err
}

// Any failure leaves the letters in the outbox, and the sender tries again later. It tells only "moving" apart,
// which is expected in a cluster, and no reason to park a letter.
func (b farLetterbox) call(ctx context.Context, method, to string, body io.Reader) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		return nil, err
	}
	// No token of a client goes along. The hop is sealed with the cluster's own key, so only nodes can deliver
	// letters.
	r.Header.Set(headerHop, b.through.auth.hops.seal(&hop{From: "cluster"}))
	answer, err := b.through.transport.RoundTrip(r)
	if err != nil {
		return nil, &queue.Error{Code: queue.CodeMoving, Message: "The node that serves the queue does not answer.",
			Err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(http.MaxBytesReader(nil, answer.Body, maxPart))
	if err == nil && answer.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("the node that serves the queue answers %s: %s", answer.Status, text)
		if answer.StatusCode == http.StatusServiceUnavailable {
			err = &queue.Error{Code: queue.CodeMoving, Message: err.Error()}
		}
	}
	return text, err
}
