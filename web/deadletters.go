package web

// Dead letters over HTTP: lists, groups, and acts on single ones. An act on many is a bulk
// operation (bulk.go), which continues after a crash.
//
//	chunk fails for the last time ─► dead letter ─┬─ redrive ─► ready again
//	                                              ├─ forward ─► a submission in another queue
//	                                              └─ delete  ─► skipped
//
// Each of the three is one commit. A call whose answer was lost may be repeated: if the first one was done, the
// second finds no dead letter and changes nothing.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	listDeadAbout = "Dead chunks of submissions that are open or completed with dead chunks: the newest submission " +
		"first, and within one submission by index. A dead letter stays until you redrive, forward or delete it, " +
		"or until a retention of the queue removes it. " +
		shortPages
	groupsAbout = "Errors that differ only in numbers, hexadecimal ids, UUIDs and quoted parts have one " +
		"fingerprint. The groups count every matching dead letter. There are at most 10,000 groups. If there are " +
		"more kinds of errors, `others` counts the dead letters in no group; a filter by `fingerprint` finds those " +
		"too."
	forwardAbout = "The chunk becomes a submission of one chunk in the other queue, with its content, meta and " +
		"attachment; `forwarded_from` there says where it came from. Here it counts as skipped, in the same " +
		"commit. It arrives exactly once, even after a crash."
	changeAbout = "The body is the new content, at most 65,536 bytes; it replaces inline contents only. The chunk " +
		"stays dead: redrive or forward it afterwards. The audit log has both contents: size, SHA-256, and up to " +
		"1,000 bytes of text. A queue keeps at most 1,000 changed contents of 16 MiB in all, until their submissions " +
		"leave the history. With If-Match, the server changes only the content with the dead letter's ETag, else it " +
		"answers 412."
	redriveAbout = "The chunk is ready again with its attempts reset; its history stays. A submission that " +
		"completed with dead chunks opens again. After its dead_deadline the answer is 409, unless the " +
		"queue's on_deadline is dead_letter: then the submission goes on without a dead_deadline."
)

// deadLetters are the handlers of dead chunks that can be redriven.
type deadLetters struct{ engine *engine.Engine }

// routes are the part of the table about dead letters.
func (x deadLetters) routes(r *router) {
	// A letter belongs to a submission, whose meta decides whether a token covers it: inSub for one letter, ownMeta
	// in the filter of a list.
	registerIn(r, operation{id: "list-dead-letters",
		shards: newestChunks(letterPlace),
		method: "GET", path: "/v1/queues/{queue}/dead-letters",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagDeadLetters, compress: true, freeform: true,
		summary: "List dead letters", about: listDeadAbout, params: letterList().document()}, x.list)
	registerIn(r, operation{id: "list-dead-letter-groups", shards: deadGroupsOverShards(), method: "GET",
		path:  "/v1/queues/{queue}/dead-letters/groups",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagDeadLetters, compress: true, freeform: true,
		summary: "Group dead letters by the fingerprint of their errors", about: groupsAbout,
		params: groupList().document()}, x.groups)
	registerIn(r, operation{id: "get-dead-letter", shards: inShardOf("submission"), method: "GET",
		path: "/v1/queues/{queue}/dead-letters/{submission}/{index}", scope: scopeRead, narrow: inQueue | inSub,
		tag:     tagDeadLetters,
		summary: "Read a dead letter with its last 10 attempts"}, x.get)
	registerIn(r, operation{id: "redrive-dead-letter", shards: inShardOf("submission"),
		act: act{"dead_letter.redrive", "submission {submission} chunk {index}"}, method: "POST",
		path: "/v1/queues/{queue}/dead-letters/{submission}/{index}/redrive", scope: scopeOperate,
		narrow: inQueue | inSub, tag: tagDeadLetters,
		summary: "Redrive a dead chunk", about: redriveAbout}, x.redrive)
	registerIn(r, operation{id: "forward-dead-letter", shards: inShardOf("submission"),
		act: act{"dead_letter.forward", "submission {submission} chunk {index}"}, method: "POST",
		path: "/v1/queues/{queue}/dead-letters/{submission}/{index}/forward", scope: scopeOperate,
		narrow: inQueue | inSub | inHandler, tag: tagDeadLetters,
		summary: "Forward a dead chunk to another queue", about: forwardAbout}, x.forward)
	registerIn(r, operation{id: "put-dead-letter-content", shards: inShardOf("submission"), brings: true,
		act: act{"dead_letter.change", "submission {submission} chunk {index}"}, method: "PUT",
		path: "/v1/queues/{queue}/dead-letters/{submission}/{index}/content", scope: scopeOperate,
		narrow: inQueue | inSub, tag: tagDeadLetters,
		summary: "Change the content of a dead chunk", about: changeAbout}, x.change)
	registerIn(r, operation{id: "delete-dead-letter", shards: inShardOf("submission"),
		act: act{"dead_letter.delete", "submission {submission} chunk {index}"}, method: "DELETE",
		path: "/v1/queues/{queue}/dead-letters/{submission}/{index}", scope: scopeOperate, narrow: inQueue | inSub,
		tag:     tagDeadLetters,
		summary: "Delete a dead letter for good", about: "It counts as skipped from then on."}, x.delete)
}

// letterFilter are the parameters that say which dead letters are meant.
func letterFilter() parameters[engine.DeadRequest] {
	id, at := 20, &huma.Schema{Type: huma.TypeString, Format: "date-time"} // characters of an id
	return parameters[engine.DeadRequest]{
		submissionParameter("Only dead letters of this submission", &huma.Schema{Type: huma.TypeString, MaxLength: &id},
			func(r *engine.DeadRequest) *queue.SubmissionID { return &r.Filter.Dead.Submission }),
		textParameter("fingerprint", "Only dead letters with this fingerprint", fingerprintLength,
			func(r *engine.DeadRequest) *string { return &r.Filter.Dead.Fingerprint }),
		timeParameter("died_before", "Only chunks that died before this time", at,
			func(r *engine.DeadRequest) *queue.Time { return &r.Filter.Dead.DiedBefore }),
		timeParameter("died_after", "Only chunks that died at this time or later", at,
			func(r *engine.DeadRequest) *queue.Time { return &r.Filter.Dead.DiedAfter }),
		metaParameter(func(r *engine.DeadRequest) *queue.Meta { return &r.Filter.Meta }),
	}
}

// groupList are the parameters of a list of groups of dead letters.
func groupList() parameters[engine.DeadRequest] {
	return append(letterFilter(), cursorParameter(func(r *engine.DeadRequest) *string { return &r.Cursor }))
}

// letterList are the parameters of a list of dead letters.
func letterList() parameters[engine.DeadRequest] {
	return append(letterFilter(), pageParameters(func(r *engine.DeadRequest) *string { return &r.Cursor },
		func(r *engine.DeadRequest) *int { return &r.Limit })...)
}

// fingerprintLength is that of queue.Fingerprint, in characters.
const fingerprintLength = 16

// asked reads which letters a query means. A token that is bound to a value sees the
// letters of that value alone, and a submission of another is not there for it.
func (x deadLetters) asked(ctx context.Context, in *queueQuery,
	known parameters[engine.DeadRequest]) (r engine.DeadRequest, err error) {
	if err := known.read(in.raw, &r); err != nil {
		return r, err
	}
	if token := tenantOf(ctx); token != nil && r.Filter.Dead.Submission != 0 {
		err = coverage(ctx, x.engine, &token.Restriction, r.Filter.Dead.Submission)
	}
	r.Filter.Meta = ownMeta(ctx, r.Filter.Meta)
	return r, err
}

func (x deadLetters) list(ctx context.Context, q *engine.Queue,
	in *queueQuery) (*output[api.Page[api.DeadLetter]], error) {
	request, err := x.asked(ctx, in, letterList())
	if err != nil {
		return nil, err
	}
	page, err := q.DeadLetters.List(ctx, request)
	return answeredPage(page, err, apiDeadLetter)
}

// All groups come in one piece from the engine, at most 10,000, and are cut into pages here. Sorting is by count,
// largest first: the reader came for the most frequent error.
func (x deadLetters) groups(ctx context.Context, q *engine.Queue, in *queueQuery) (*output[api.DeadGroups], error) {
	request, err := x.asked(ctx, in, groupList())
	if err != nil {
		return nil, err
	}
	groups, err := q.DeadLetters.Groups(ctx, request.Filter)
	if err != nil {
		return nil, err
	}
	largest := func(g *api.DeadGroup) string { return downwards(g.Count) + "." + g.Fingerprint }
	groups.Items, groups.Next, err = pageOf(behind(groups.Items, request.Cursor, largest), "", largest, asIs)
	return answered(groups, err, asIs)
}

// DeadPath names a dead letter; exported like QueuePath.
type DeadPath struct {
	QueuePath
	Submission string `path:"submission" maxLength:"20" doc:"Id of the submission"`
	Index      string `path:"index" maxLength:"10" doc:"Index of the chunk, from 0"`

	chunk queue.ChunkID
}

// Only the form is checked here. Whether there is such a letter is known under the shard's lock, at the moment of the
// act.
func (p *DeadPath) locate(e *engine.Engine) (q *engine.Queue, err error) {
	if p.chunk, err = chunkAt("/path/submission", p.Submission, p.Index); err != nil {
		return nil, err
	}
	return p.QueuePath.locate(e)
}

// Only the single letter has its history. In a list it would multiply the answer, and few readers want it.
func (x deadLetters) get(ctx context.Context, q *engine.Queue, in *DeadPath) (*tagged[api.DeadLetter], error) {
	d, err := q.DeadLetters.Get(ctx, in.chunk)
	if err != nil {
		return nil, err
	}
	out := &tagged[api.DeadLetter]{Body: apiDeadLetter(&d)}
	// The content is a second question, without a lock over both: a letter that was redriven in between is shown as
	// it was, without its content.
	content, err := q.DeadLetters.Content(ctx, in.chunk)
	if err != nil && queue.CodeOf(err) != queue.CodeUnknownDeadLetter { // it was redriven a moment ago
		return nil, err
	}
	// A larger content could not be changed, and need not be shown.
	if content != nil && len(content) <= queue.MaxReplacedContent {
		out.Body.Content, out.ETag = content, queue.ETag(0, content)
	}
	if len(d.Past) > 0 {
		out.Body.History = showAll(d.Past, apiAttempt)
	}
	return out, nil
}

// redrive, forward and change answer with the submission, because a letter that has left is no longer there to be
// shown.
func (x deadLetters) redrive(ctx context.Context, q *engine.Queue, in *DeadPath) (*submissionOutput, error) {
	if err := q.DeadLetters.Redrive(ctx, in.chunk); err != nil {
		return nil, err
	}
	return afterLetter(ctx, q, in.chunk.Submission)
}

type forwardDeadInput struct {
	DeadPath
	Body decoded[api.ForwardRequest]
}

// The target is checked first: a token that does not cover it must not learn whether it exists.
func (x deadLetters) forward(ctx context.Context, q *engine.Queue, in *forwardDeadInput) (*submissionOutput, error) {
	if token := boundTo(ctx); token != nil && !token.CoversQueue(in.Body.value.To) {
		return nil, unknownQueue(in.Body.value.To)
	}
	if err := q.DeadLetters.Forward(ctx, in.chunk, in.Body.value.To); err != nil {
		return nil, err
	}
	return afterLetter(ctx, q, in.chunk.Submission)
}

// afterLetter is a submission as it is after an act on one of its dead chunks.
func afterLetter(ctx context.Context, q *engine.Queue, id queue.SubmissionID) (*submissionOutput, error) {
	sub, err := q.Submissions.Get(ctx, id)
	return changedSubmission(ctx, q, sub, err)
}

type changeDeadInput struct {
	DeadPath
	Match
	Body decoded[api.Bytes]
}

// change replaces the content while the chunk is dead. Redriving is a call of its own, so that an operator can look
// at it first, and change many before a bulk redrive.
func (x deadLetters) change(ctx context.Context, q *engine.Queue, in *changeDeadInput) (*submissionOutput, error) {
	if err := q.DeadLetters.SetContent(ctx, in.chunk, in.Body.value, in.contentGuard); err != nil {
		return nil, err
	}
	out, err := afterLetter(ctx, q, in.chunk.Submission)
	return out.tagged(queue.ETag(0, in.Body.value)), err
}

// contentGuard is the engine's question before it changes a content. It compares digests: after an operator has typed
// the content for an hour, the client need not send back the whole content that it saw before.
func (m *Match) contentGuard(before []byte) error { return m.hold(queue.ETag(0, before)) }

func (x deadLetters) delete(ctx context.Context, q *engine.Queue, in *DeadPath) (*struct{}, error) {
	return nil, q.DeadLetters.Delete(ctx, in.chunk)
}

func apiDeadLetter(d *queue.DeadChunk) api.DeadLetter {
	return api.DeadLetter{
		Submission: d.Chunk.Submission.String(), Index: d.Chunk.Index, SubmissionState: d.State.String(),
		Attempts: uint32(d.Attempts),
		Expiries: uint32(d.Expiries), Redrives: uint32(d.Redrives), DiedAt: d.Died.API(), Consumer: d.Consumer,
		Error: d.Error, Fingerprint: d.Fingerprint,
	}
}

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

// Letterbox is the letterbox of a queue that another node of the cluster serves, at a URL. The engine does not know
// whether a queue is here or elsewhere: both kinds of letterbox have the same two methods.
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

// Any failure leaves the letters in the outbox, and the sender tries again later. Only "moving" is told apart: it is
// expected in a cluster, and no reason to park a letter.
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
