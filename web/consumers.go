package web

// Consumers as operators see them, and the orders that operators give. attach.go has the stream of
// a consumer. Orders are in memory: they are about processes that run now, and must not meet a
// process of the same name next week.
//
// A consumer is a name. It comes into being with its first reserve or stream, and there is no call to create one.
// Names may have any characters, so the path has them escaped (ConsumerPath).
//
//	detached ── attach ──► attached ── stream ends ──► away ── grace is over ──► lost: its chunks go back
//	    ▲                     │                          │
//	    └──── detach ─────────┘◄──── attach, or a call ──┘

import (
	"context"
	"log/slog"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	listConsumersAbout = "Lists the consumers that are attached or were until just now, hold a chunk, or have an " +
		"operator's order. It includes consumers without a name, but they have no path."
	attachAbout = "Server-sent events: `hello` (Hello), `drain`, `quiet`, `resume` and `revoked` " +
		"(RevokedEvent), and a comment every `heartbeat_ms`. While the stream is open, the server knows that the " +
		"consumer lives. If the stream ends without `detach`, the consumer has the queue's `consumer_grace_ms` to " +
		"attach again or to make a call about its chunks. Otherwise each of its reservations ends as lost: the " +
		"attempt counts, but not as an expiry, and the server offers the chunk again after the queue's " +
		"`expiry_backoff`. Without a stream, only deadlines count. Each consumer needs its own name. A process that " +
		"took over the name of one that died says so with `incarnation`. The server ends " +
		"a stream that falls behind: the consumer attaches again and extends its reservations, which tells it what " +
		"it still has."
	incarnationAbout = "A random text that each process chooses once. If the consumer's last stream was of another " +
		"process, all reservations under the name end as lost at once. The server offers their chunks again: at " +
		"once after a first lost attempt, else after the queue's `expiry_backoff`. Leave it out if this process " +
		"reserved under the name before it first attached"
	detachAbout = "The consumer leaves: its streams end, the server forgets its orders, and its chunks go " +
		"back without counting an attempt. Call this when it has finished."
	orderAbout = "`resume` takes an order back. The server forgets it when the consumer leaves or is lost, " +
		"after an hour without a stream or a call, and at a restart."
	drainAbout = "The consumer gets no new work, and should finish its chunks and leave. The event `drain` " +
		"tells it if it is attached, and the reason `draining` of its reserves tells it in any case. " + orderAbout
	quietAbout = "The consumer gets no new work, but stays. Its reserves answer with the reason `quiet`. " + orderAbout
)

// consumers are the handlers of consumers.
type consumers struct {
	engine  *engine.Engine
	log     *slog.Logger
	streams *streams
}

// routes are the part of the table about consumers.
func (x consumers) routes(r *router) {
	const base, one = "/v1/queues/{queue}/consumers", "/v1/queues/{queue}/consumers/{consumer}"
	registerIn(r, operation{id: "list-consumers", method: "GET", path: base, scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagConsumers, compress: true,
		summary: "List a queue's consumers by name", about: listConsumersAbout}, x.list)
	registerIn(r, operation{id: "get-consumer", method: "GET", path: one, scope: scopeRead, narrow: inQueue | noTenants,
		tag: tagConsumers, compress: true,
		summary: "Read a consumer and its reservations"}, x.get)
	r.raw(operation{id: "attach-consumer", method: "GET", path: one + "/attach", scope: scopeConsume,
		narrow: inQueue | inHandler, tag: tagConsumers, streams: true,
		summary: "Attach a consumer", about: attachAbout, params: attachParameters().document()}, attachShape, x.attach)
	register(r, operation{id: "detach-consumer", method: "POST", path: one + "/detach", scope: scopeConsume,
		narrow: inQueue | inHandler, tag: tagConsumers,
		summary: "Detach a consumer", about: detachAbout}, x.detach)
	registerIn(r, operation{id: "drain-consumer", act: act{"consumer.drain", "consumer {consumer}"},
		method: "POST", path: one + "/drain", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Tell a consumer to finish and leave", about: drainAbout}, x.order(queue.Drain))
	registerIn(r, operation{id: "quiet-consumer", act: act{"consumer.quiet", "consumer {consumer}"},
		method: "POST", path: one + "/quiet", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Keep new work from a consumer", about: quietAbout}, x.order(queue.Quiet))
	registerIn(r, operation{id: "resume-consumer", act: act{"consumer.resume", "consumer {consumer}"},
		method: "POST", path: one + "/resume", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Resume a drained or quiet consumer"}, x.order(queue.NoOrder))
}

// ConsumerPath names a consumer; exported like QueuePath.
type ConsumerPath struct {
	QueuePath
	Consumer string `path:"consumer" doc:"The consumer's name"`

	escaped bool // the path was cut into its parts before its escapes were undone
}

var _ huma.Resolver = (*ConsumerPath)(nil)

// Resolve notes which form of the path the parts were cut from.
func (p *ConsumerPath) Resolve(ctx huma.Context) []error {
	address := ctx.URL()
	p.escaped = address.RawPath != ""
	return nil
}

func (p *ConsumerPath) locate(e *engine.Engine) (*engine.Queue, error) {
	if err := p.unescaped(); err != nil {
		return nil, err
	}
	return p.QueuePath.locate(e)
}

// unescaped has the parts of the path without escapes.
func (p *ConsumerPath) unescaped() error {
	if !p.escaped {
		return nil
	}
	return unescape(&p.Queue, &p.Consumer)
}

// It undoes the escapes of the parts after the path was cut: a name with a '/' in it would be cut in two otherwise.
func unescape(parts ...*string) (err error) {
	for _, part := range parts {
		if *part, err = url.PathUnescape(*part); err != nil {
			return queue.Invalid("/path", "has an escape that is none: %% and two hexadecimal digits")
		}
	}
	return nil
}

type listConsumersInput struct {
	QueuePath
	Cursor string `query:"cursor" maxLength:"256" doc:"Cursor from the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

// The cursor is a name: a consumer that appears between two pages is on the second if its name comes later.
func (x consumers) list(ctx context.Context, q *engine.Queue,
	in *listConsumersInput) (*output[api.Page[api.Consumer]], error) {
	page, err := q.Consumers.List(ctx, in.Cursor, in.Limit)
	return answeredPage(page, err, apiConsumer)
}

type getConsumerInput struct {
	ConsumerPath
	Paging
}

// The chunks come in pages, the oldest reservation first: what an operator looks for is what has been held too
// long.
func (x consumers) get(_ context.Context, q *engine.Queue, in *getConsumerInput) (*output[api.ConsumerDetail], error) {
	page, err := q.Consumers.Get(in.Consumer, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	return &output[api.ConsumerDetail]{api.ConsumerDetail{Consumer: apiConsumer(&page.Consumer),
		Items: showAll(page.Items, func(h *queue.HeldChunk) api.HeldChunk {
			return api.HeldChunk{
				Submission: h.Chunk.Submission.String(), Index: h.Chunk.Index, Meta: someMeta(h.Meta),
				Attempt:    uint32(h.Attempt),
				ReservedAt: h.Reserved.API(), Deadline: h.Deadline.API(), Finishing: h.Finishing,
				Progress: progress(&h.Reported), Note: h.Reported.Note,
			}
		}), Next: page.Next}}, nil
}

// A tenant's consumers have names of their own inside (narrowConsumer), so two tenants may both call one
// "worker-1", and neither can detach the other's.
func (x consumers) detach(ctx context.Context, in *ConsumerPath) (*output[api.Released], error) {
	if err := in.unescaped(); err != nil {
		return nil, err
	}
	consumer, err := narrowConsumer(ctx, in.Consumer)
	if err != nil {
		return nil, err
	}
	n, err := x.engine.Detach(in.Queue, consumer)
	return &output[api.Released]{Body: api.Released{Released: n}}, err
}

// order makes the handler of one order.
// The three orders differ in one value only. NoOrder takes back what was ordered before.
func (x consumers) order(order queue.ConsumerOrder) func(context.Context, *engine.Queue,
	*ConsumerPath) (*output[api.Consumer], error) {
	return func(ctx context.Context, q *engine.Queue, in *ConsumerPath) (*output[api.Consumer], error) {
		c, err := q.Consumers.Order(ctx, in.Consumer, order)
		return answered(c, err, apiConsumer)
	}
}

// A consumer that is away still has the time of its last stream inside, but an answer with both times would read as
// if it were attached.
func apiConsumer(c *queue.Consumer) api.Consumer {
	out := api.Consumer{
		Consumer: c.Name, State: api.ConsumerDetached, AttachedSince: c.Since.API(), AwaySince: c.Away.API(),
		LostAt:     c.LostAt.API(),
		LastSeenAt: c.Seen.API(), Draining: c.Order == queue.Drain, Quiet: c.Order == queue.Quiet, Reserved: c.Reserved,
		OldestReservedAt: c.Oldest.API(), Overdue: c.Overdue,
	}
	switch {
	case c.Attached:
		out.State = api.ConsumerAttached
	case c.Away != 0:
		out.State, out.AttachedSince = api.ConsumerAway, api.Time{}
	}
	return out
}
