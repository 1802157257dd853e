package web

// Bulk operations over HTTP. The request is checked here, field by field, as it will run for hours
// without anyone to ask. A bound token must have its value in the filter. Else its operation would
// walk over items that the token may not see, and its counts would reveal them.
//
// How a bulk operation goes on after the answer is in engine/shard/bulks:
//
//	POST /v1/bulk-operations ─► bulkRequest ─► engine: id, in the journal ─► 202 Location
//	GET  /v1/bulk-operations/{id} ◄── counts and progress, until 100 more have ended in the queue
//
// The path names no queue, so the table cannot check that the token covers it: each handler does (inHandler). For an
// operation that the token does not cover, it answers "unknown" and never "forbidden", which would confirm that the
// operation exists.

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const bulkAbout = "Applies an action to everything in a queue that matches the filter, in the background. " +
	"`redrive`, `delete` and `forward` (to another queue) are for dead letters. `retry` makes chunks that wait for " +
	"a retry ready now, and also ends the delays of released chunks (snoozes). `give_up` ends chunks that wait for " +
	"a retry, as if their attempts were used up. `cancel` and `reprioritize` are for open submissions. `purge` " +
	"deletes submissions, open and ended, with all that the server has of them. After a restart, the operation " +
	"continues where it was. A dry run counts the matches and changes nothing."

// bulks are the handlers of bulk operations.
type bulks struct {
	engine *engine.Engine
	nodes  *forwarding
}

// routes are the part of the table about bulk operations.
func (x bulks) routes(r *router) {
	register(r, operation{id: "list-bulk-operations",
		shards: joinedList(bulksOverShards),
		method: "GET", path: "/v1/bulk-operations", scope: scopeRead,
		narrow: inHandler, tag: tagBulk, compress: true, spread: x.listAll,
		summary: "List bulk operations, newest first",
		about: "All running operations, and the last 100 ended ones of each queue. In a cluster " +
			"the nodes have two seconds to answer; `missing` names those that did not."}, x.list)
	register(r, operation{id: "start-bulk-operation", shards: startBulkInShards, act: act{"bulk.start", ""},
		method: "POST", path: "/v1/bulk-operations", scope: scopeOperate,
		narrow: inHandler, tag: tagBulk, accepts: true,
		summary: "Apply an action to everything that matches a filter", about: bulkAbout}, x.start)
	register(r, operation{id: "get-bulk-operation",
		shards: bulkInShards,
		method: "GET", path: "/v1/bulk-operations/{id}", scope: scopeRead,
		narrow: inHandler, tag: tagBulk,
		summary: "Read the progress of a bulk operation"}, x.get)
	register(r, operation{id: "cancel-bulk-operation",
		shards: bulkInShards,
		act:    act{"bulk.cancel", "bulk operation {id}"},
		method: "POST", path: "/v1/bulk-operations/{id}/cancel",
		scope: scopeOperate, narrow: inHandler, tag: tagBulk,
		summary: "Stop a bulk operation",
		about: "The changes that it has made stay. Cancelling an operation that has ended changes " +
			"nothing."}, x.cancel)
}

type startBulkInput struct {
	Body decoded[api.BulkRequest]
}

// start checks the token before it looks for the queue, so that "no such queue" and "not yours" are the same answer.
// The meta of a bound token must be in the filter as given: if it were added silently, the request would not mean
// what its sender wrote.
func (x bulks) start(ctx context.Context, in *startBulkInput) (*creation[api.BulkOperation], error) {
	r, err := bulkRequest(&in.Body.value)
	if err != nil {
		return nil, err
	}
	if token := boundTo(ctx); token != nil {
		if !token.CoversQueue(in.Body.value.Queue) {
			return nil, unknownQueue(in.Body.value.Queue)
		}
		if r.To != "" && !token.CoversQueue(r.To) {
			return nil, unknownQueue(r.To)
		}
		if !coversEntries(&token.Restriction, r.Filter.Meta) {
			return nil, newProblem(codeForbidden, "The token "+strconv.Quote(token.Name)+" is bound to "+
				token.Restriction.Bounds()+".", queue.Problem{Pointer: "/filter/meta",
				Detail: "must have " + token.Restriction.Bounds()})
		}
	}
	// With a token, its name is the actor, whatever the request says: no client can start work in another's name.
	r.Actor = access.Of(ctx).Actor(r.Actor)
	q, err := x.engine.Queue(in.Body.value.Queue)
	if err != nil {
		return nil, err
	}
	b, err := q.Bulks.Start(ctx, r)
	if err != nil {
		return nil, err
	}
	return &creation[api.BulkOperation]{Status: http.StatusAccepted, Location: "/v1/bulk-operations/" + b.ID.String(),
		Body: bulkFor(ctx)(&b)}, nil
}

// bulkRequest turns a request into the engine's words. A priority is refused for other actions rather than ignored:
// the sender meant it to do something.
func bulkRequest(asked *api.BulkRequest) (r queue.BulkRequest, err error) {
	r = queue.BulkRequest{To: asked.To, Limit: asked.Limit, Rate: asked.RatePerSecond, DryRun: asked.DryRun,
		Actor: asked.Actor}
	var ok bool
	if r.Action, ok = queue.ParseBulkAction(asked.Action); !ok {
		return r, queue.Invalid("/action", "must be %s", strings.Join(queue.BulkActions(), ", "))
	}
	switch {
	case r.Action != queue.BulkReprioritize && asked.Priority != nil:
		return r, queue.Invalid("/priority", "is for the action reprioritize only")
	case r.Action == queue.BulkReprioritize && asked.Priority == nil:
		return r, queue.Invalid("/priority", "is missing: a whole number from %d to %d", -queue.MaxPriority,
			queue.MaxPriority)
	case asked.Priority != nil:
		r.Priority = *asked.Priority
	}
	f, in := &r.Filter, &asked.Filter
	f.Dead.Fingerprint, f.Dead.Oldest = in.Fingerprint, in.Oldest
	if in.Submission != "" {
		if f.Dead.Submission, err = submissionAt("/filter/submission", in.Submission); err != nil {
			return r, err
		}
	}
	// The engine refuses states that the action cannot apply to. Here only their names are read.
	for i, name := range in.States {
		state, ok := queue.ParseSubmissionState(name)
		if !ok {
			return r, queue.Invalid(fmt.Sprintf("/filter/states/%d", i),
				"must be a state of a submission, such as open or completed_with_dead")
		}
		f.States = append(f.States, state)
	}
	f.Meta = queue.EntriesOf(in.Meta)
	f.CreatedBefore, f.CreatedAfter = queue.At(in.CreatedBefore.Time), queue.At(in.CreatedAfter.Time)
	f.Dead.DiedBefore, f.Dead.DiedAfter = queue.At(in.DiedBefore.Time), queue.At(in.DiedAfter.Time)
	return r, nil
}

// listBulksInput has no limit. There are at most 116 operations for each queue: 16 that run, and the last 100 that
// ended.
type listBulksInput struct {
	Cursor
	Queue string `query:"queue" maxLength:"64" doc:"Only operations of this queue"`
}

// list needs no lock over queues: ids grow with time, and the order is by id downwards, so an operation that starts
// between two pages is on neither of them.
func (x bulks) list(ctx context.Context, in *listBulksInput) (*output[api.PageBulkOperation], error) {
	if token := boundTo(ctx); token != nil && in.Queue != "" && !token.CoversQueue(in.Queue) {
		return nil, unknownQueue(in.Queue)
	}
	list, err := x.engine.Bulks(in.Queue)
	if err != nil {
		return nil, err
	}
	list = within(ctx, list, func(b *queue.Bulk) bool { return coversBulk(ctx, b) })
	started := func(b *queue.Bulk) string { return downwards(uint64(b.ID)) }
	items, next, err := pageOf(behind(list, in.Cursor.Cursor, started), "", started, bulkFor(ctx))
	return answered(api.PageBulkOperation{Items: items, Next: next}, err, asIs)
}

// listAll lists the operations of all queues of a cluster.
// An id tells the shard that drew it, so no two nodes list the same operation, and joining needs no removal of
// doubles. With a queue in the query only that queue's node is asked, by the normal way.
func (x bulks) listAll(c echo.Context) (bool, error) {
	if c.QueryParam("queue") != "" {
		return false, nil
	}
	parts := x.nodes.everywhere(c)
	if refused := x.nodes.askAll(c, parts); refused != nil {
		return true, refused.relay(c)
	}
	out := api.PageBulkOperation{Missing: x.nodes.missing(c.Request().Context(), parts)}
	var err error
	out.Items, out.Next, err = joinPages(parts, func(b *api.BulkOperation) string {
		id, _ := queue.ParseBulkID(b.ID)
		return downwards(uint64(id))
	})
	if err != nil {
		return true, err
	}
	return true, c.JSON(http.StatusOK, out)
}

// BulkPath names a bulk operation; exported like QueuePath.
type BulkPath struct {
	ID string `path:"id" maxLength:"512" doc:"Id of the operation"`
}

type cancelBulkInput struct {
	BulkPath
	Actor string `query:"actor" maxLength:"128" doc:"Name of the caller on an open server, kept with the operation"`
}

// coversBulk says whether a bulk operation is within what the token is bound to.
func coversBulk(ctx context.Context, b *queue.Bulk) bool {
	token := boundTo(ctx)
	return token == nil || token.CoversQueue(b.Queue) && coversEntries(&token.Restriction, b.Filter.Meta)
}

// covered is a bulk operation, if the token covers it. The zero operation of an id that does not exist is covered by
// no bound token, so both cases take the same way.
func (x bulks) covered(ctx context.Context, id string) (queue.Bulk, error) {
	b, err := x.engine.Bulk(id)
	if !coversBulk(ctx, &b) { // also where there is none
		err = uncovered(queue.CodeUnknownBulk, "such bulk operation")
	}
	return b, err
}

func (x bulks) get(ctx context.Context, in *BulkPath) (*output[api.BulkOperation], error) {
	b, err := x.covered(ctx, in.ID)
	return answered(b, err, bulkFor(ctx))
}

// cancel returns once the stop is durable. The present slice may still finish: its items are in the counts of the
// answer.
func (x bulks) cancel(ctx context.Context, in *cancelBulkInput) (*output[api.BulkOperation], error) {
	if _, err := x.covered(ctx, in.ID); err != nil {
		return nil, err
	}
	b, err := x.engine.CancelBulk(ctx, in.ID, access.Of(ctx).Actor(in.Actor))
	return answered(b, err, bulkFor(ctx))
}

// bulkFor shows bulk operations to a caller. It does not name a queue that the token does not cover. A tenant does not
// see how far the operation is: it examines the work of all tenants, so these numbers tell how much others have.
func bulkFor(ctx context.Context) func(*queue.Bulk) api.BulkOperation {
	return func(b *queue.Bulk) api.BulkOperation {
		out := apiBulk(b)
		out.To = coveredQueue(ctx, out.To)
		if tenantOf(ctx) != nil {
			out.Examined, out.ToExamine, out.Percent, out.RemainingMS = nil, nil, nil, 0
		}
		return out
	}
}

// apiBulk shows an operation. Remaining time is rounded up to a millisecond, so that 0 means "nothing left" and not
// "nearly nothing". Counts are pointers in the API where 0 must be shown and absent must not mean 0.
func apiBulk(b *queue.Bulk) api.BulkOperation {
	f := &b.Filter
	out := api.BulkOperation{
		ID: b.ID.String(), Queue: b.Queue, Action: b.Action.String(), To: b.To, Limit: b.Limit, RatePerSecond: b.Rate,
		DryRun: b.DryRun, Actor: b.Actor, State: b.State.String(),
		Filter: api.BulkFilter{
			Meta: f.Meta.Object(), CreatedBefore: f.CreatedBefore.API(), CreatedAfter: f.CreatedAfter.API(),
			Fingerprint: f.Dead.Fingerprint, DiedBefore: f.Dead.DiedBefore.API(), DiedAfter: f.Dead.DiedAfter.API(),
			Oldest: f.Dead.Oldest,
		},
		CreatedAt: b.ID.Created().API(), FinishedAt: b.Finished.API(),
		Matched: b.Counts.Matched, Done: b.Counts.Done, Unchanged: b.Counts.Unchanged, Refused: b.Counts.Refused,
		Failure:     b.Failure,
		CancelledBy: b.EndedBy, RemainingMS: (b.Remaining + time.Millisecond - 1).Milliseconds(),
	}
	w, percent := b.Walk, b.Walk.Percent(b.State)
	out.Examined = &w.Examined
	if b.Action != queue.BulkPurge || b.State != queue.BulkRunning { // no one counts the ended submissions
		out.ToExamine, out.Percent = &w.ToExamine, &percent
	}
	// 0 is a priority like any other, so its presence, not its value, says whether the action has one.
	if b.Action == queue.BulkReprioritize {
		out.Priority = &b.Priority
	}
	if f.Dead.Submission != 0 {
		out.Filter.Submission = f.Dead.Submission.String()
	}
	for _, state := range f.States {
		out.Filter.States = append(out.Filter.States, state.String())
	}
	return out
}

// apiOrigin is nil for a submission that was inserted.
func apiOrigin(in *queue.Origin) *api.Origin {
	if in == nil {
		return nil
	}
	return &api.Origin{
		Queue: in.Queue, Submission: in.Chunk.Submission.String(), Index: in.Chunk.Index, Attempts: in.Attempts,
		DiedAt: in.Died.API(), Error: in.Error,
	}
}
