package web

// Reservations seen from the operator's side. Consumers never see each other's tokens, and neither do operators: a
// token in a list could complete a chunk in a consumer's name. So the operator's release goes by submission and
// index.
//
//	consumer: POST .../reservations/release   {"token": ...}      it has the token
//	operator: POST .../chunks/{index}/release                     it names the chunk

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// held are the handlers of what an operator sees and takes back of what consumers hold.
type held struct{ clock *clock }

const (
	listHeldAbout = "Each reservation with its consumer, its start and its deadline: the longest first, or " +
		"with `sort=deadline` the next deadline first. Filters are `overdue=true` (held for longer than the queue's " +
		"`reservation_timeout_ms`), `consumer=NAME`, `submission=ID` and `meta.KEY=VALUE` as in the list of " +
		"submissions; all must match. A page covers several moments: a chunk that is reserved or finished meanwhile " +
		"may be missing, and a page with a `next` may have fewer items than its limit. With `sort=deadline`, a chunk " +
		"that is extended between two pages may be in both. Tokens are not shown."
	releaseHeldAbout = "The server offers the chunk again at once, without counting an attempt; the answer " +
		"names the chunk and its consumer. An attached consumer gets the event `revoked`. The consumer may still " +
		"work on the chunk: its completion counts until the chunk is handed out again. The answer is 409 if no " +
		"consumer holds the chunk. The audit log keeps the consumer and the reason."
	revokeAbout = "The server offers the consumer's chunks again at once, without counting an attempt. If it " +
		"is attached, it gets the event `revoked`. It may get other chunks; see drain and quiet."
)

// routes are the part of the table about reservations as operators see them.
func (x held) routes(r *router) {
	registerIn(r, operation{id: "list-reservations", method: "GET", path: "/v1/queues/{queue}/reservations",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagReservations, compress: true, freeform: true,
		summary: "List the chunks that consumers hold", about: listHeldAbout, params: heldList().document()}, x.list)
	registerIn(r, operation{id: "release-chunk", act: act{"reservation.release", "submission {id} chunk {index}"},
		method: "POST", path: "/v1/submissions/{id}/chunks/{index}/release", scope: scopeOperate,
		narrow: inSub, tag: tagReservations,
		summary: "Take a chunk back from its consumer", about: releaseHeldAbout}, x.release)
	registerIn(r, operation{id: "release-consumer", act: act{"consumer.release", "consumer {consumer}"},
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

// ReleaseQuery says who takes chunks back, and why; exported like QueuePath.
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
