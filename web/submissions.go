package web

// Reading and changing submissions, after they were inserted (insert.go). A path names a submission by its id
// alone. The id says which shard made it, so no queue is needed to find it. When the submission is known, inSub checks
// whether the token covers it.
//
// Lists of submissions and chunks have free parameters such as meta.KEY, which huma cannot describe. They are
// declared as tables (submissionList, retryList) that read a query and document it, so that the two cannot differ.

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	listAbout = "Newest first. Filters are `state=STATE` (repeated or comma-separated for several) and " +
		"`meta.KEY=VALUE` (repeated for several keys, which must all match). A whole number is the integer, and " +
		"`s:` before a value makes it a string: `meta.company=123` is the integer, `meta.company=s:123` the text. " +
		"`created_before=TIME` and `created_after=TIME` select submissions that were inserted before that time, " +
		"and at that time or later. `next` is the cursor of the next page, and absent on the last. `sort=largest` " +
		"lists open submissions in one page, those with the most chunks left first. It examines the newest " +
		"1,000,000 submissions in slices, so its numbers are of slightly different moments. " + shortPages

	defaultListLimit = 100
)

// submissions are the handlers of submissions and their chunks, but for inserts.
//
// Their answers are bounded in three ways. Lists have pages. Outputs are a stream of any length, since a submission may
// have millions of them. Counts by error examine a bounded number of chunks, and say how many.
type submissions struct {
	engine  *engine.Engine
	waiting waiting
	streams *streams
	buffers *buffers
}

// routes are the part of the table about submissions.
func (x submissions) routes(r *router) {
	registerIn(r, operation{id: "list-submissions",
		shards: joinedList(submissionsOverShards),
		method: "GET", path: "/v1/queues/{queue}/submissions",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagSubmissions, compress: true, freeform: true,
		summary: "List submissions, newest first", about: listAbout, params: submissionList().document()}, x.list)
	registerIn(r, operation{id: "list-retries",
		shards: newestChunks(retryPlace),
		method: "GET", path: "/v1/queues/{queue}/retries",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagSubmissions, compress: true, freeform: true,
		summary: "List chunks that wait for a retry after a failure", about: listRetriesAbout,
		params: retryList().document()}, x.retries)
	registerIn(r, operation{id: "list-retry-groups",
		shards: retryGroupsOverShards(),
		method: "GET", path: "/v1/queues/{queue}/retries/groups",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagSubmissions, compress: true, freeform: true,
		summary: "Group chunks that wait for a retry by their errors", about: retriesAbout,
		params: retryGroupList().document()}, x.failing)
	registerIn(r, operation{id: "get-submission", method: "GET", path: "/v1/submissions/{id}", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, waits: true,
		summary: "Read a submission", about: "With `Prefer: wait=N` (seconds, at most 60) the answer comes when the " +
			"submission leaves the state open, or after N seconds."}, x.get)
	registerIn(r, operation{id: "change-submission", act: act{"submission.change", "submission {id}"},
		method: "PATCH", path: "/v1/submissions/{id}", scope: scopeOperate,
		narrow: inSub, tag: tagSubmissions,
		summary: "Change the priority of an open submission", about: "CustomPriority uses it from " +
			"the next reservation on. An ended submission answers 409. With If-Match, the server changes only a " +
			"priority with this ETag, else it answers 412. Setting the present priority is " +
			"allowed."}, x.change)
	registerIn(r, operation{id: "cancel-submission", act: act{"submission.cancel", "submission {id}"},
		method: "POST", path: "/v1/submissions/{id}/cancel",
		scope: scopeOperate, narrow: inSub, tag: tagSubmissions,
		summary: "Cancel a submission", about: "Skips unfinished chunks and ends their reservations. " +
			"Cancelling an ended submission changes nothing and answers with its present state."}, x.cancel)
	registerIn(r, operation{id: "delete-submission", act: act{"submission.delete", "submission {id}"},
		method: "DELETE", path: "/v1/submissions/{id}", scope: scopeOperate, narrow: inSub, tag: tagSubmissions,
		summary: "Delete an ended submission", about: deleteAbout}, x.delete)
	registerIn(r, operation{id: "list-chunks", method: "GET", path: "/v1/submissions/{id}/chunks", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, compress: true, freeform: true,
		summary: "List a submission's chunks by index", about: shortPages, params: chunkList().document()}, x.chunks)
	registerIn(r, operation{id: "get-chunk", method: "GET", path: "/v1/submissions/{id}/chunks/{index}",
		scope: scopeRead, narrow: inSub, tag: tagSubmissions,
		summary: "Read one chunk"}, x.chunk)
	registerIn(r, operation{id: "cancel-chunk", act: act{"chunk.cancel", "submission {id} chunk {index}"},
		method: "POST", path: "/v1/submissions/{id}/chunks/{index}/cancel",
		scope: scopeOperate, narrow: inSub, tag: tagSubmissions,
		summary: "Cancel one chunk", about: "Skips the chunk: it is not handed out again, no attempt is " +
			"counted, and its consumer loses it. The other chunks go on. A chunk that is " +
			"done, dead or skipped does not change. The answer is the chunk in its present state."}, x.cancelChunk)
	r.raw(operation{id: "list-outputs", method: "GET", path: "/v1/submissions/{id}/outputs", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, compress: true, streams: true,
		summary: "Stream a submission's outputs in index order", about: "One JSON line per chunk that has an output. " +
			"Only the end of the body marks the last line: an answer that breaks off is incomplete."}, outputsShape,
		x.outputs)
	registerIn(r, operation{id: "list-queue-outputs",
		shards: newestChunks(outputPlace),
		method: "GET", path: "/v1/queues/{queue}/outputs",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagSubmissions, compress: true, freeform: true,
		summary: "List the outputs of many submissions", about: manyOutputsAbout,
		params: manyOutputsList().document()}, x.manyOutputs)
	registerIn(r, operation{id: "get-chunk-map", method: "GET", path: "/v1/submissions/{id}/map", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, compress: true,
		summary: "Count a submission's chunks by state, in ranges of indexes", about: mapAbout}, x.chunkMap)
	registerIn(r, operation{id: "list-chunk-attempts", method: "GET",
		path: "/v1/submissions/{id}/chunks/{index}/attempts", scope: scopeRead, narrow: inSub, tag: tagSubmissions,
		summary: "List the ended attempts of a chunk", about: attemptsAbout}, x.attempts)
}

// submissionOutput has the headers that only some answers carry: an empty header is not sent.
type submissionOutput struct {
	ETag       string `header:"ETag" doc:"ETag of what can be changed: the priority, or a dead letter's content"`
	Applied    string `header:"Preference-Applied" doc:"The wait that the server applied, if the request had one"`
	Durability string `header:"Quern-Durability" doc:"relaxed: the answer came before the data was on disk"`
	Body       api.Submission
}

// tagged is the output with an ETag. Only calls that show or change the tagged field (a priority, a content) send one:
// after a cancel it would name nothing that the caller could change.
func (o *submissionOutput) tagged(etag string) *submissionOutput {
	if o != nil {
		o.ETag = etag
	}
	return o
}

// getSubmissionInput has the wait in a header and not in the query, as RFC 7240 has it: a cache, or a client that
// does not know the header, treats the resource as usual.
type getSubmissionInput struct {
	SubmissionPath
	Prefer string `header:"Prefer" example:"wait=30" doc:"wait=N: answer when it ends, or after N seconds (at most 60)"`
}

// The wait comes before the read: the answer shows the state after the end. When the server stops meanwhile, ends
// returns a context that is still good, and the client gets the present state instead of an error.
func (x submissions) get(ctx context.Context, q *engine.Queue, in *getSubmissionInput) (*submissionOutput, error) {
	wait, err := preferredWait(in.Prefer)
	if err != nil {
		return nil, err
	}
	applied := ""
	if wait > 0 {
		applied = "wait=" + strconv.Itoa(int(wait/time.Second))
		ctx, err = x.waiting.ends(ctx, []queue.SubmissionID{in.id}, wait, false)
		if err != nil {
			return nil, err
		}
	}
	found, err := q.Submissions.Get(ctx, in.id)
	if err != nil {
		return nil, err
	}
	out := &submissionOutput{Body: submissionFor(ctx, ownShard{q})(&found), Applied: applied}
	return out.tagged(priorityETag(found.Priority)), nil
}

// priorityETag is the ETag of a submission. The other fields of the answer change by themselves, and would make every
// If-Match fail.
func priorityETag(priority int64) string {
	return queue.ETag(0, strconv.AppendInt(nil, priority, 10))
}

// preferredWait finds wait=N among the preferences of RFC 7240. More than the longest wait is granted as the longest.
// Other preferences are passed over, as the RFC wants it; a wait that cannot be read is refused, since its sender
// would take an answer at once for an end.
func preferredWait(header string) (time.Duration, error) {
	for preference := range strings.SplitSeq(header, ",") {
		preference, _, _ = strings.Cut(preference, ";")
		name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
		if err != nil {
			return 0, queue.Invalid("/header/Prefer", "has a wait that is not a whole number of seconds")
		}
		return min(time.Duration(seconds)*time.Second, queue.MaxWait), nil
	}
	return 0, nil
}

// cancel answers when the end is durable. Consumers learn of it by `revoked` or by their next call.
func (x submissions) cancel(ctx context.Context, q *engine.Queue, in *SubmissionPath) (*submissionOutput, error) {
	ended, err := q.Submissions.Cancel(ctx, in.id)
	return changedSubmission(ctx, q, ended, err)
}

const deleteAbout = "Removes its meta, contents, outputs, attempts and dead letters for good, before the retention " +
	"of the queue would. The answer comes when all of this is gone. An open submission answers 409, unless " +
	"`cancel=true` ends it first. 503 means that the server has noted the deletion and finishes it by itself, also " +
	"after a restart. Backups keep their copies until you delete them. Its idempotency key stays known, as a hash, " +
	"for 24 hours."

type deleteSubmissionInput struct {
	SubmissionPath
	Cancel bool `query:"cancel" doc:"End it first if it is open: consumers lose its chunks"`
}

func (x submissions) delete(ctx context.Context, q *engine.Queue, in *deleteSubmissionInput) (*struct{}, error) {
	return nil, q.Submissions.Delete(ctx, in.id, in.Cancel)
}

// changedSubmission is the answer to a change of a submission.
func changedSubmission(ctx context.Context, q *engine.Queue, changed queue.Submission,
	err error) (*submissionOutput, error) {
	if err != nil {
		return nil, err
	}
	// A queue with relaxed durability answered before the disk had the change. The header says so to a client that
	// cares.
	out := &submissionOutput{Body: submissionFor(ctx, ownShard{q})(&changed)}
	if q.Relaxed() {
		out.Durability = queue.Relaxed.String()
	}
	return out, nil
}

type changeInput struct {
	SubmissionPath
	Match
	Body decoded[api.SubmissionChange]
}

// The priority is a pointer in the body: 0 is a priority, so an absent one must not look like it.
func (x submissions) change(ctx context.Context, q *engine.Queue, in *changeInput) (*submissionOutput, error) {
	if in.Body.value.Priority == nil {
		return nil, queue.Invalid("/priority", "is missing: a whole number from %d to %d", -queue.MaxPriority,
			queue.MaxPriority)
	}
	changed, err := q.Submissions.SetPriority(ctx, in.id, *in.Body.value.Priority, func(now int64) error {
		return in.hold(priorityETag(now))
	})
	out, err := changedSubmission(ctx, q, changed, err)
	return out.tagged(priorityETag(changed.Priority)), err
}

// ownMeta adds the value that a token is bound to, so a tenant's list is a filtered list and needs no code of its
// own.
func (x submissions) list(ctx context.Context, q *engine.Queue,
	in *queueQuery) (*output[api.Page[api.Submission]], error) {
	request := engine.ListRequest{Limit: defaultListLimit}
	if err := submissionList().read(in.raw, &request); err != nil {
		return nil, err
	}
	request.Meta = ownMeta(ctx, request.Meta)
	page, err := q.Submissions.List(ctx, request)
	return answeredPage(page, err, submissionFor(ctx, ownShard{q}))
}

const retriesAbout = "Errors that differ only in numbers, hexadecimal ids, UUIDs and quoted parts have one " +
	"fingerprint, as in groups of dead letters. `meta.KEY=VALUE` takes only submissions with this value. The bulk " +
	"action retry with a fingerprint tries the chunks of a group now. The server examines at most 100,000 chunks of " +
	"the newest 1,000,000 submissions, in slices, so the counts are of slightly different moments."

const listRetriesAbout = "Chunks of the newest submission come first, and within a submission they are in the " +
	"order of their indexes. `meta.KEY=VALUE` takes only submissions with this value. " + shortPages

// retryGroupList are the parameters of groups of failed tries. The groups have no pages; the fingerprint of one leads
// to the list of its chunks.
func retryGroupList() parameters[engine.RetryRequest] {
	return parameters[engine.RetryRequest]{metaParameter(func(r *engine.RetryRequest) *queue.Meta { return &r.Meta })}
}

// retryList are the parameters of a list of failed tries.
func retryList() parameters[engine.RetryRequest] {
	return append(append(retryGroupList(),
		textParameter("error", "Only chunks whose last error has this fingerprint", fingerprintLength,
			func(r *engine.RetryRequest) *string { return &r.Fingerprint })),
		pageParameters(func(r *engine.RetryRequest) *string { return &r.Cursor },
			func(r *engine.RetryRequest) *int { return &r.Limit })...)
}

func (x submissions) retries(ctx context.Context, q *engine.Queue,
	in *queueQuery) (*output[api.Page[api.Retry]], error) {
	var request engine.RetryRequest
	if err := retryList().read(in.raw, &request); err != nil {
		return nil, err
	}
	request.Meta = ownMeta(ctx, request.Meta)
	page, err := q.Submissions.Retries(ctx, request)
	return answeredPage(page, err, asIs)
}

func (x submissions) failing(ctx context.Context, q *engine.Queue, in *queueQuery) (*output[api.RetryGroups], error) {
	var request engine.RetryRequest
	if err := retryGroupList().read(in.raw, &request); err != nil {
		return nil, err
	}
	groups, err := q.Submissions.Failing(ctx, ownMeta(ctx, request.Meta))
	return answered(groups, err, asIs)
}

// submissionFilter are the parameters that select submissions, for a list and for a stream of ends; states are the
// allowed ones. Both have one table, so that a filter that works in a list works in the stream, too.
func submissionFilter(states ...string) parameters[engine.ListRequest] {
	return parameters[engine.ListRequest]{
		stateParameter(queue.ParseSubmissionState,
			func(r *engine.ListRequest) *[]queue.SubmissionState { return &r.States }, states...),
		metaParameter(func(r *engine.ListRequest) *queue.Meta { return &r.Meta }),
		textParameter("schedule", "Only submissions of this schedule, even if it was deleted",
			queue.MaxScheduleNameBytes, func(r *engine.ListRequest) *string { return &r.Schedule }),
	}
}

// createdParameters select submissions by the time of their insert.
func createdParameters() parameters[engine.ListRequest] {
	at := &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	return parameters[engine.ListRequest]{
		timeParameter("created_before", "Only submissions that were inserted before this time", at,
			func(r *engine.ListRequest) *queue.Time { return &r.CreatedBefore }),
		timeParameter("created_after", "Only submissions that were inserted at this time or later", at,
			func(r *engine.ListRequest) *queue.Time { return &r.CreatedAfter }),
	}
}

// submissionList are the parameters of a list of submissions.
// They are made for each call: a table holds functions into the request that it reads, and making it is cheap
// beside a list.
func submissionList() parameters[engine.ListRequest] {
	return slices.Concat(createdParameters(), parameters[engine.ListRequest]{
		choiceParameter("sort", "newest first (default), or largest: open submissions with the most chunks left first",
			[]string{"newest", "largest"},
			func(r *engine.ListRequest, chosen string) { r.Largest = chosen == "largest" }),
	}, submissionFilter(queue.SubmissionStateNames()...),
		pageParameters(func(r *engine.ListRequest) *string { return &r.Cursor },
			func(r *engine.ListRequest) *int { return &r.Limit }))
}

const manyOutputsAbout = "Outputs of the newest submission come first, and within a submission they are in the order " +
	"of their indexes. The filters are those of the list of submissions, such as `meta.batch=7` and " +
	"`state=completed`. Each item names its submission and chunk. If an answer was lost, ask for the same page " +
	"again. The list is complete when a page has no `next`. Outputs of a submission that you insert meanwhile are " +
	"not in it. If an output is lost, its page answers 500; `created_before` leaves its submission out. " + shortPages

// manyOutputsList are the parameters of a list of outputs: those of a list of submissions, but for its order.
func manyOutputsList() parameters[engine.ListRequest] {
	return slices.Concat(createdParameters(), submissionFilter(queue.SubmissionStateNames()...),
		pageParameters(func(r *engine.ListRequest) *string { return &r.Cursor },
			func(r *engine.ListRequest) *int { return &r.Limit }))
}

func (x submissions) manyOutputs(ctx context.Context, q *engine.Queue,
	in *queueQuery) (*output[api.Page[api.SubmissionOutput]], error) {
	var request engine.ListRequest
	if err := manyOutputsList().read(in.raw, &request); err != nil {
		return nil, err
	}
	request.Meta = ownMeta(ctx, request.Meta)
	page, err := q.Submissions.ManyOutputs(ctx, request)
	return answeredPage(page, err, asIs)
}

// metaKeyOf takes the key out of a parameter's name: meta.KEY, or meta[KEY], as generated
// clients write it (deepObject).
func metaKeyOf(name string) (key string, is bool) {
	if key, is = strings.CutPrefix(name, "meta["); is {
		return strings.CutSuffix(key, "]")
	}
	return strings.CutPrefix(name, "meta.")
}
