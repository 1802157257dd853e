package web

// The stream by which the server knows that a consumer lives. The way it ends decides what happens
// to the consumer's chunks:
//
//	the client closes it, or its connection breaks  ─► away; lost after the grace, unless it comes back
//	POST .../detach came before                     ─► gone; its chunks are released
//	this server stops                               ─► nothing: the next start waits for it
//	it falls behind with events                     ─► the server ends it; the client attaches again and extends
//
// The stream carries what the consumer must hear at once: chunks that were taken from it, and an
// operator's orders.

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// attachHeartbeat is how often the stream of an attached consumer says that it lives. The client learns it from
// `hello`, and takes a stream for broken when several heartbeats stay out.
const attachHeartbeat = 10 * time.Second

// attachRequest is the query of an attachment.
type attachRequest struct{ incarnation string }

// The parameter is optional: a stream that does not say which process it is of ends no other one.
func attachParameters() parameters[attachRequest] {
	return parameters[attachRequest]{textParameter("incarnation", incarnationAbout, queue.MaxIncarnation,
		func(r *attachRequest) *string { return &r.incarnation })}
}

// attach is GET .../consumers/{consumer}/attach. It runs as long as the consumer stays. Attach comes before the
// stream is started, so that a refusal is an ordinary answer with a status.
func (x consumers) attach(c echo.Context) error {
	r := c.Request()
	queueName, consumer := c.Param("queue"), c.Param("consumer")
	consumer, err := narrowConsumer(r.Context(), consumer)
	if err != nil {
		return err
	}
	var asked attachRequest
	if err := attachParameters().read(r.URL.RawQuery, &asked); err != nil {
		return err
	}
	far, attached, err := x.attachAt(c, queueName, consumer, asked.incarnation)
	if err != nil {
		return err
	}
	end, err := x.streams.start(c)
	if err != nil {
		far.close()
		attached.Close(false)
		return err
	}
	defer func() {
		end()
		far.close()
		attached.Close(!x.streams.waits.stopped()) // a server that stops declares no consumer lost
	}()
	// Else the kernel would take a quarter of an hour to give up on a machine that vanished without a word.
	noticeSilence(x.log, r)
	forgetHeaders(r)
	alive := time.NewTicker(attachHeartbeat)
	defer alive.Stop()
	for {
		notice := attached.Next()
		far.join(&notice)
		events, err := noticeEvents(consumer, &notice)
		if notice.Over || err != nil || len(events) > 0 && x.streams.send(c, events) != nil {
			return nil // the consumer has left, or is gone: there is no one to answer
		}
		select {
		case <-attached.Wake():
		case event := <-far.come():
			if x.streams.send(c, event) != nil {
				return nil
			}
		case <-far.over():
			return nil
		case <-alive.C:
			if far.moved() || x.streams.send(c, []byte(": alive\n\n")) != nil {
				return nil
			}
			// Only after a write that succeeded, because that shows that the connection lives.
			attached.Alive()
		case <-r.Context().Done():
			return nil
		}
	}
}

// attachAt attaches a consumer to the shards of this node, and to those of other nodes.
func (x consumers) attachAt(c echo.Context, queueName, consumer, incarnation string) (
	*farAttachment, engine.Attachment, error) {
	q, err := x.engine.Work(queueName)
	if err != nil {
		return nil, nil, err
	}
	far, err := x.nodes.attachFar(c, q)
	if err != nil {
		return nil, nil, err
	}
	attached, err := x.engine.Attach(c.Request().Context(), queueName, consumer, incarnation)
	if far != nil && queue.CodeOf(err) == queue.CodeMoving { // this node has no shard of the queue
		return far, new(elsewhereOnly), nil
	}
	if err != nil {
		far.close()
	}
	return far, attached, err
}

// noticeEvents are the news of a notice as events. All of a notice goes out in one write, in this order: a client
// knows what it is attached to before it hears of revoked chunks.
func noticeEvents(consumer string, n *engine.Notice) (out []byte, err error) {
	add := func(name string, data any) error {
		body, err := json.Marshal(data)
		if err != nil {
			return fmt.Errorf("web: event %s: %w", name, err)
		}
		out = fmt.Appendf(out, "event: %s\ndata: %s\n\n", name, body)
		return nil
	}
	if n.Hello {
		hello := api.Hello{
			Consumer: consumer, HeartbeatMS: attachHeartbeat.Milliseconds(), Epoch: n.Epoch,
			ConsumerGraceMS: n.Grace.Milliseconds(), Reserved: n.Held,
		}
		if err := add(api.EventHello, hello); err != nil {
			return nil, err
		}
	}
	// Only the last order counts. A client that attaches while an order stands gets it behind `hello`.
	if n.Ordered {
		names := [...]string{queue.NoOrder: api.EventResume, queue.Quiet: api.EventQuiet, queue.Drain: api.EventDrain}
		if err := add(names[n.Order], struct{}{}); err != nil {
			return nil, err
		}
	}
	if len(n.Revoked) > 0 {
		event := api.RevokedEvent{Items: make([]api.Revoked, len(n.Revoked))}
		for i := range n.Revoked {
			event.Items[i] = api.Revoked{Token: n.Revoked[i].Token.String(), Reason: n.Revoked[i].Why.String()}
		}
		if err := add(api.EventRevoked, event); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// attachShape documents the stream.
func attachShape(d *document, op *huma.Operation) {
	text := &huma.Schema{Type: huma.TypeString}
	op.Parameters = append([]*huma.Param{
		{Name: "queue", In: "path", Required: true, Description: "Name of the queue", Schema: text},
		{Name: "consumer", In: "path", Required: true, Description: "The consumer's name", Schema: text},
	}, op.Parameters...)
	op.Responses["200"] = &huma.Response{Description: "Events until the consumer leaves: hello (Hello), drain, " +
		"quiet, resume, revoked (RevokedEvent)", Content: map[string]*huma.MediaType{
		contentEvents: d.lines(eventData, reflect.TypeFor[api.Hello](), reflect.TypeFor[api.RevokedEvent]())}}
}
