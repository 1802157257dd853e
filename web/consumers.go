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
	nodes   *forwarding
}

// routes are the part of the table about consumers.
func (x consumers) routes(r *router) {
	const base, one = "/v1/queues/{queue}/consumers", "/v1/queues/{queue}/consumers/{consumer}"
	registerIn(r, operation{id: "list-consumers",
		shards: joinedList(consumersOverShards),
		method: "GET", path: base, scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagConsumers, compress: true,
		summary: "List a queue's consumers by name", about: listConsumersAbout}, x.list)
	registerIn(r, operation{id: "get-consumer",
		shards: joinedList(chunksOfConsumer),
		method: "GET", path: one, scope: scopeRead, narrow: inQueue | noTenants,
		tag: tagConsumers, compress: true,
		summary: "Read a consumer and its reservations"}, x.get)
	r.raw(operation{id: "attach-consumer", method: "GET", path: one + "/attach", scope: scopeConsume,
		narrow: inQueue | inHandler, tag: tagConsumers, streams: true,
		summary: "Attach a consumer", about: attachAbout, params: attachParameters().document()}, attachShape, x.attach)
	register(r, operation{id: "detach-consumer", shards: changedInAll(addReleased, true),
		method: "POST", path: one + "/detach", scope: scopeConsume,
		narrow: inQueue | inHandler, tag: tagConsumers,
		summary: "Detach a consumer", about: detachAbout}, x.detach)
	registerIn(r, operation{id: "drain-consumer",
		shards: changedInAll(addConsumer, true),
		act:    act{"consumer.drain", "consumer {consumer}"},
		method: "POST", path: one + "/drain", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Tell a consumer to finish and leave", about: drainAbout}, x.order(queue.Drain))
	registerIn(r, operation{id: "quiet-consumer",
		shards: changedInAll(addConsumer, true),
		act:    act{"consumer.quiet", "consumer {consumer}"},
		method: "POST", path: one + "/quiet", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Keep new work from a consumer", about: quietAbout}, x.order(queue.Quiet))
	registerIn(r, operation{id: "resume-consumer",
		shards: changedInAll(addConsumer, true),
		act:    act{"consumer.resume", "consumer {consumer}"},
		method: "POST", path: one + "/resume", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Resume a drained or quiet consumer"}, x.order(queue.NoOrder))
}

// ConsumerPath names a consumer; exported like QueuePath.
type ConsumerPath struct {
	QueuePath
	Consumer string `path:"consumer" doc:"The consumer's name"`
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

// The chunks come in pages, the oldest reservation first: an operator looks for chunks that have been held too long.
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
	consumer, err := narrowConsumer(ctx, in.Consumer)
	if err != nil {
		return nil, err
	}
	n, err := x.engine.Detach(in.Queue, consumer)
	return &output[api.Released]{Body: api.Released{Released: n}}, err
}

// order makes the handler of one order. The three orders differ in one value only.
// NoOrder takes the order before it back.
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

// Reservations seen from the operator's side. Consumers never see each other's tokens, and neither do operators: a
// token in a list could complete a chunk in a consumer's name. So the operator's release goes by submission and
// index.
//
//	consumer: POST .../reservations/release   {"token": ...}      it has the token
//	operator: POST .../chunks/{index}/release                     it names the chunk

// held are the handlers by which an operator lists reservations and takes them back.
type held struct{ clock *clock }

const (
	listHeldAbout = "Each reservation with its consumer, its start and its deadline: the longest first, or " +
		"with `sort=deadline` the next deadline first. Filters are `overdue=true` (held for longer than the queue's " +
		"`reservation_timeout_ms`), `consumer=NAME`, `submission=ID` and `meta.KEY=VALUE` as in the list of " +
		"submissions; all must match. A page covers several moments: a chunk that is reserved or finished meanwhile " +
		"may be missing, and a page with a `next` may have fewer items than its limit. With `sort=deadline`, a chunk " +
		"that is extended between two pages may be in both. The list has no tokens."
	releaseHeldAbout = "The server offers the chunk again at once, without counting an attempt; the answer " +
		"names the chunk and its consumer. An attached consumer gets the event `revoked`. The consumer may still " +
		"work on the chunk: its completion counts until the chunk is handed out again. The answer is 409 if no " +
		"consumer holds the chunk. The audit log keeps the consumer and the reason."
	revokeAbout = "The server offers the consumer's chunks again at once, without counting an attempt. If it " +
		"is attached, it gets the event `revoked`. It may get other chunks; see drain and quiet."
)

// routes are the part of the table about reservations as operators see them.
func (x held) routes(r *router) {
	registerIn(r, operation{id: "list-reservations",
		shards: joinedList(heldOverShards),
		method: "GET", path: "/v1/queues/{queue}/reservations",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagReservations, compress: true, freeform: true,
		summary: "List the chunks that consumers hold", about: listHeldAbout, params: heldList().document()}, x.list)
	registerIn(r, operation{id: "release-chunk", act: act{"reservation.release", "submission {id} chunk {index}"},
		method: "POST", path: "/v1/submissions/{id}/chunks/{index}/release", scope: scopeOperate,
		narrow: inSub, tag: tagReservations,
		summary: "Take a chunk back from its consumer", about: releaseHeldAbout}, x.release)
	registerIn(r, operation{id: "release-consumer",
		shards: changedInAll(addReleased, true),
		act:    act{"consumer.release", "consumer {consumer}"},
		method: "POST", path: "/v1/queues/{queue}/consumers/{consumer}/release", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagConsumers,
		summary: "Take back a consumer's chunks", about: revokeAbout}, x.releaseConsumer)
}

// heldList are the parameters of the list.
// Both schemas are replaced, because the sentences about their limits would be wrong: overdue is a boolean that is
// read as a word, and a consumer's name is compared, not checked.
func heldList() parameters[engine.HeldRequest] {
	overdue := choiceParameter("overdue", "true: only chunks held for longer than the queue's reservation_timeout_ms",
		[]string{"true", "false"}, func(r *engine.HeldRequest, chosen string) { r.Filter.Overdue = chosen == "true" })
	overdue.Schema = &huma.Schema{Type: huma.TypeBoolean}
	consumer := textParameter("consumer", "Only chunks of this consumer", queue.MaxConsumerBytes,
		func(r *engine.HeldRequest) *string { return &r.Filter.Consumer })
	consumer.Schema = &huma.Schema{Type: huma.TypeString}
	return append(parameters[engine.HeldRequest]{
		choiceParameter("sort", "age: the longest held first (default). deadline: the earliest deadline first",
			[]string{"age", "deadline"},
			func(r *engine.HeldRequest, chosen string) { r.Filter.ByDeadline = chosen == "deadline" }),
		overdue, consumer,
		submissionParameter("Only chunks of this submission", &huma.Schema{Type: huma.TypeString},
			func(r *engine.HeldRequest) *queue.SubmissionID { return &r.Filter.Submission }),
		metaParameter(func(r *engine.HeldRequest) *queue.Meta { return &r.Filter.Meta }),
	}, pageParameters(func(r *engine.HeldRequest) *string { return &r.Cursor },
		func(r *engine.HeldRequest) *int { return &r.Limit })...)
}

// A tenant's value joins the filter, so it sees all reservations of its own work.
func (x held) list(ctx context.Context, q *engine.Queue,
	in *queueQuery) (*output[api.Page[api.HeldReservation]], error) {
	var request engine.HeldRequest
	if err := heldList().read(in.raw, &request); err != nil {
		return nil, err
	}
	request.Filter.Meta = ownMeta(ctx, request.Filter.Meta)
	page, err := q.Reservations.List(ctx, request)
	return answeredPage(page, err, x.show)
}

// The age is never negative: the clock may have been set back since the reservation.
func (x held) show(h *queue.HeldChunk) api.HeldReservation {
	return api.HeldReservation{
		Submission: h.Chunk.Submission.String(), Index: h.Chunk.Index, Attempt: uint32(h.Attempt), Consumer: h.Consumer,
		Since: h.Reserved.API(), HeldMS: max(0, queue.At(x.clock.now()).Sub(h.Reserved).Milliseconds()),
		Deadline: h.Deadline.API(),
		Overdue:  h.Overdue, Finishing: h.Finishing, Meta: someMeta(h.Meta),
		Progress: progress(&h.Reported), Note: h.Reported.Note,
	}
}

// ReleaseQuery has the name of the person who takes chunks back, and the reason. It is exported like
// QueuePath.
type ReleaseQuery struct {
	Actor  string `query:"actor" maxLength:"128" doc:"Name of the caller on an open server, for the audit log"`
	Reason string `query:"reason" maxLength:"500" doc:"Reason, for the audit log"`
}

type releaseHeldInput struct {
	ChunkPath
	ReleaseQuery
}

// release tells its caller which consumer had the chunk. That consumer may still complete it, until the next one gets
// the chunk.
func (x held) release(ctx context.Context, q *engine.Queue,
	in *releaseHeldInput) (*output[api.HeldReservation], error) {
	taken, err := q.Reservations.Release(ctx, in.chunk, in.Actor, in.Reason)
	return answered(taken, err, x.show)
}

type releaseConsumerInput struct {
	ConsumerPath
	ReleaseQuery
}

// It counts what was taken back and answers 0 for a consumer that holds nothing, so a script need not ask first.
func (x held) releaseConsumer(ctx context.Context, q *engine.Queue,
	in *releaseConsumerInput) (*output[api.Released], error) {
	n, err := q.Reservations.ReleaseConsumer(ctx, in.Consumer, in.Actor, in.Reason)
	return &output[api.Released]{api.Released{Released: n}}, err
}
