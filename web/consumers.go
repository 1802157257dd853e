package web

import (
	"context"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	listConsumersAbout = "Those that are attached or were a moment ago, hold something, or have an order. A consumer " +
		"without a name is listed too, but has no path."
	attachAbout = "Server-sent events: `hello` (Hello), `drain`, `quiet`, `resume` and `revoked` " +
		"(RevokedEvent), and a comment every `heartbeat_ms`. While the stream is open the consumer is known to live. " +
		"When it ends without `detach` and the consumer does not attach again within the queue's " +
		"`consumer_grace_ms`, and no other call is made for what the consumer holds, each of its reservations ends as lost: " +
		"the try is counted, but not as an expiry, and the chunk is offered again after the queue's " +
		"`expiry_backoff`. Without a stream only deadlines count. A name is one consumer's own. " +
		"A stream that falls behind is ended: the consumer attaches again and extends what it holds, which tells it what it still has."
	detachAbout = "The consumer leaves: its streams end, orders for it are forgotten, and what it holds goes back " +
		"with no try counted. To be called when it has finished."
	orderAbout = "An order holds until it is taken back with `resume`; it is forgotten when the consumer leaves or " +
		"is lost, when it is not attached and not heard of for an hour, and at a restart of the server."
	drainAbout = "It gets nothing new, and is asked to finish what it holds and leave: by the event `drain` if it is " +
		"attached, and by the reason `draining` of its reserves. " + orderAbout
	quietAbout = "It gets nothing new, but stays; its reserves answer with the reason `quiet`. " + orderAbout
)

// consumers are the handlers of consumers.
type consumers struct{ *Server }

// routes are the part of the table about consumers.
func (x consumers) routes(d *document) {
	const base, one = "/v1/queues/{queue}/consumers", "/v1/queues/{queue}/consumers/{consumer}"
	registerIn(d, operation{id: "list-consumers", method: "GET", path: base, scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagConsumers, compress: true,
		summary: "List a queue's consumers by name", about: listConsumersAbout}, x.list)
	registerIn(d, operation{id: "get-consumer", method: "GET", path: one, scope: scopeRead, narrow: inQueue | noTenants,
		tag: tagConsumers, compress: true,
		summary: "Read a consumer and what it holds"}, x.get)
	x.raw(d, operation{id: "attach-consumer", method: "GET", path: one + "/attach", scope: scopeConsume,
		narrow: inQueue | inHandler, tag: tagConsumers, streams: true,
		summary: "Keep a consumer known", about: attachAbout}, attachShape, x.attach)
	registerIn(d, operation{id: "detach-consumer", method: "POST", path: one + "/detach", scope: scopeConsume,
		narrow: inQueue | inHandler, tag: tagConsumers,
		summary: "Let a consumer leave", about: detachAbout}, x.detach)
	registerIn(d, operation{id: "drain-consumer", act: act{"consumer.drain", "consumer {consumer}"},
		method: "POST", path: one + "/drain", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Tell a consumer to finish and leave", about: drainAbout}, x.order(queue.Drain))
	registerIn(d, operation{id: "quiet-consumer", act: act{"consumer.quiet", "consumer {consumer}"},
		method: "POST", path: one + "/quiet", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Keep work from a consumer", about: quietAbout}, x.order(queue.Quiet))
	registerIn(d, operation{id: "resume-consumer", act: act{"consumer.resume", "consumer {consumer}"},
		method: "POST", path: one + "/resume", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Take drain or quiet back"}, x.order(queue.NoOrder))
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
	if p.escaped {
		if err := unescape(&p.Queue, &p.Consumer); err != nil {
			return nil, err
		}
	}
	return p.QueuePath.locate(e)
}

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
	Cursor string `query:"cursor" maxLength:"256" doc:"The next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

func (x consumers) list(ctx context.Context, q *engine.Queue, in *listConsumersInput) (*output[api.Page[api.Consumer]], error) {
	page, err := q.Consumers.List(ctx, in.Cursor, in.Limit)
	return answeredPage(page, err, apiConsumer)
}

type getConsumerInput struct {
	ConsumerPath
	Cursor string `query:"cursor" maxLength:"64" doc:"The next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

func (x consumers) get(_ context.Context, q *engine.Queue, in *getConsumerInput) (*output[api.ConsumerDetail], error) {
	page, err := q.Consumers.Get(in.Consumer, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	return &output[api.ConsumerDetail]{api.ConsumerDetail{Consumer: apiConsumer(&page.Consumer),
		Items: showAll(page.Items, func(h *queue.HeldChunk) api.HeldChunk {
			return api.HeldChunk{
				Submission: h.Chunk.Submission.String(), Index: h.Chunk.Index, Meta: someMeta(h.Meta), Attempt: uint32(h.Attempt),
				ReservedAt: h.Reserved.API(), Deadline: h.Deadline.API(), Finishing: h.Finishing,
			}
		}), Next: page.Next}}, nil
}

func (x consumers) detach(ctx context.Context, q *engine.Queue, in *ConsumerPath) (*output[api.Released], error) {
	consumer, err := narrowConsumer(ctx, in.Consumer)
	if err != nil {
		return nil, err
	}
	n, err := q.Consumers.Detach(consumer)
	return &output[api.Released]{Body: api.Released{Released: n}}, err
}

// order makes the handler of one order.
func (x consumers) order(order queue.ConsumerOrder) func(context.Context, *engine.Queue, *ConsumerPath) (*output[api.Consumer], error) {
	return func(ctx context.Context, q *engine.Queue, in *ConsumerPath) (*output[api.Consumer], error) {
		c, err := q.Consumers.Order(ctx, in.Consumer, order)
		return answered(c, err, apiConsumer)
	}
}

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
