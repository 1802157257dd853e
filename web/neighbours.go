package web

// The engine of one node sends errands about shards of a queue to the engine of another:
//
//	engine: errand ─► Carry ── POST /cluster/shards/orders/errand ──► Nodes.Answer of the other node
//
// This file carries the errands, and knows nothing of their contents (engine.Neighbours). Only nodes can send them: a
// call needs a sealed hop, which also names the caller. The memory of a strategy's view counts for the access token of
// that caller, wherever the shard is.
//
// The path is no part of the API, so the document does not list it.

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

const questionPath = "/cluster/shards/:queue/:question"

// questionsRoute answers other nodes about the shards of this one.
func questionsRoute(e *echo.Echo, core *engine.Engine, a *auth, b *bodies) {
	e.POST(questionPath, func(c echo.Context) error {
		r := c.Request()
		if a.hops.of(r) == nil {
			return newProblem(codeForbidden, "Only nodes of this cluster ask this.")
		}
		body, err := b.readBytes(c, maxFinishBytes)
		if err != nil {
			return err
		}
		defer b.free(body)
		// A question may wait for work as long as a reserve does. When this server stops, it ends.
		if !a.waits.enter(c.Response(), nil, queue.MaxWait) {
			return &queue.Error{Code: queue.CodeMoving, Message: "This node is about to stop. Send this again in a " +
				"moment."}
		}
		defer a.waits.leave(c.Response())
		ask := a.asking(c)
		defer ask.done()
		answer, err := core.Nodes().Answer(ask, c.Param("queue"), c.Param("question"), body.b)
		if err != nil {
			return err
		}
		c.Response().Header().Set("Content-Length", strconv.Itoa(len(answer)))
		return c.Blob(http.StatusOK, "application/octet-stream", answer)
	})
}

// Carry lets the node at a URL answer a question about a queue, in the name of the caller in ctx. If the node does not
// answer, the code is CodeMoving: the node may be lost or slow, and the caller's next try may find the shard
// elsewhere.
func (s *Server) Carry(ctx context.Context, at, name, question string, body []byte) ([]byte, error) {
	return s.forwarding.askNode(ctx, at+"/cluster/shards/"+url.PathEscape(name)+"/"+question, body)
}

func (f *forwarding) askNode(ctx context.Context, to string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// The caller's proof goes along, so that the other node knows whose view of a strategy it keeps. The proof is no
	// secret of the client: only nodes can read and use it.
	h := hop{From: "cluster"}
	if by := credentialIn(ctx); by != nil {
		h.Proof, h.Subject = &by.proof, by.subject
	}
	r.Header.Set(headerHop, f.auth.hops.seal(&h))
	answer, err := f.transport.RoundTrip(r)
	if err != nil {
		if ctx.Err() == context.Canceled {
			return nil, ctx.Err()
		}
		return nil, &queue.Error{Code: queue.CodeMoving, Message: "A node that serves a part of the queue does not " +
			"answer. Send this again in a moment; another node takes over if it is gone.", Err: err}
	}
	defer answer.Body.Close()
	var text bytes.Buffer // of the size that is announced, if that is possible
	text.Grow(int(min(max(answer.ContentLength, 0)+bytes.MinRead, maxPart)))
	_, err = text.ReadFrom(http.MaxBytesReader(nil, answer.Body, maxPart))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the node answers %s: %s", answer.Status, clip(text.String()))
	}
	return text.Bytes(), err
}
