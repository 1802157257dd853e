package web

// Insert of up to 10,000 submissions in one commit. An invalid submission gets a result of
// its own and does not touch the others, unless the call is atomic.
//
// Memory is counted twice, before anything is inserted: for the decoded submissions
// (insertionBytes each) and for the answer to come (answerOf). If the call were refused
// afterwards, the client would not learn what was inserted.
//
//	{"submissions": [ A, B, C ]} ─► list: A ok, B invalid, C ok ─► Queue.InsertMany ─► one commit: A, C
//	                                                                └ atomic: nothing, and A, C are batch_refused

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
	"github.com/quern-queue/quern/web/trace"
)

const insertManyAbout = "Up to 10,000 submissions, each as in a single insert and optionally with its own " +
	"`idempotency_key`. All go to disk in one commit. The answer has one result per submission, in order: " +
	"created, existing (another submission holds its `unique` key), replayed (inserted before with the same " +
	"idempotency key, in its present state), invalid or refused. An invalid " +
	"or refused submission does not prevent the others, unless `atomic` is true: then nothing is inserted, and " +
	"the others are refused with the code batch_refused. As `application/x-ndjson`, each line is one submission, " +
	"and the call is not atomic. An error of the whole call (such as 503 commit_failed) does not tell what " +
	"happened; with keys you can safely send it again."

// insertionBytes is about the memory that one submission of an insert of many takes until it
// is answered, beside its content. It is a generous estimate: too much refuses a call now and
// then, too little ends the server.
const insertionBytes = 1 << 10

// resultBytes is about the size of one result in the answer, beside its metadata.
const resultBytes = 512

// insertMany is POST .../submissions:batch.
func (x *inserting) insertMany(c echo.Context) error {
	r := c.Request()
	if r.Header.Get("Idempotency-Key") != "" {
		return queue.Invalid("/header/Idempotency-Key",
			"is for a single insert; give each submission an idempotency_key of its own")
	}
	media, body, err := x.body(c)
	if err != nil {
		return err
	}
	defer x.bodies.free(body)
	many := x.many.take()
	request := &many.request
	if media == contentLines {
		err = request.DecodeLines(body.b)
	} else {
		err = request.Decode(body.b)
	}
	if err != nil {
		return wireProblem[api.InsertManyRequest](err, body.b, media)
	}
	if len(request.Submissions) == 0 {
		return queue.Invalid("/submissions", "is empty; give 1 to %d submissions", queue.MaxInsertions)
	}
	done, err := x.bodies.holdDecoded(r, int64(len(request.Submissions))*insertionBytes)
	if err != nil {
		return err
	}
	defer done()
	list := x.list(c, request.Submissions, many)
	q, err := x.engine.Work(c.Param("queue"))
	if err != nil {
		return err
	}
	// The list is decoded and its groups are known, so only now it is clear which nodes are to have it. The node that
	// gets an invalid submission refuses it, with the same words.
	if s := x.nodes.dispersed(c, q); s != nil {
		homes, err := s.Homes(list, request.Atomic)
		if err == nil {
			err = x.nodes.share(c, sharedList{"submissions", "results", homes})
		}
		if others, is := errors.AsType[*away](err); is {
			if media == contentLines {
				others.lines = request.Submissions
			}
			sayDurability(c, q)
			x.answers.setHeaders(c)
			return x.nodes.do(c, others, body.b, x.bodies, false)
		}
		if err != nil {
			return err
		}
	}
	ask := x.auth.asking(c)
	defer ask.done()
	if err := ask.hold(answerOf(list)); err != nil { // before anything is inserted
		return err
	}
	if err := q.InsertMany(ask, list, request.Atomic); err != nil {
		return err
	}
	x.traceMany(c, list)
	sayDurability(c, q)
	err = x.answerMany(c, list)
	x.freeMany(many)
	return err
}

// insertManyCall is the memory of an insert of many. It is kept for the next only when the call went well: after an
// error, something may still read the request. Clients make such calls of the inserts of a busy program: tens of
// submissions each, thousands of times a second.
type insertManyCall struct {
	request wire.InsertManyRequest
	asked   []queue.NewSubmission
	list    []queue.Insertion
}

// freeMany keeps the memory of an ordinary call, and nothing of what was in it. A result that stayed would count for
// the submission of the next call at the same place, and a content would keep a body in memory.
func (x *inserting) freeMany(many *insertManyCall) {
	if max(cap(many.list), cap(many.request.Submissions)) > keepItems {
		return
	}
	clear(many.request.Submissions)
	clear(many.asked)
	clear(many.list)
	x.many.Put(many)
}

// answerOf is about how many bytes the answer to an insert of many has.
func answerOf(list []queue.Insertion) (bytes int) {
	for i := range list {
		bytes += resultBytes + list[i].New.Meta.Bytes()
	}
	return bytes
}

// list decodes the submissions for the engine. If one is invalid, its Err says why. One insertCall decodes them all,
// one after another: newSubmission copies all that the engine keeps, and inline contents point into the body, which
// stays.
func (x *inserting) list(c echo.Context, submissions [][]byte, many *insertManyCall) []queue.Insertion {
	var call insertCall // of its own: the last submission does not replace the one before
	many.asked = slices.Grow(many.asked[:0], len(submissions))[:len(submissions)]
	many.list = slices.Grow(many.list[:0], len(submissions))[:len(submissions)]
	asked, list := many.asked, many.list
	for i, text := range submissions {
		list[i].New = &asked[i]
		if err := call.request.DecodeNext(text); err != nil {
			list[i].Err = wireProblem[api.BatchSubmission](err, text, contentJSON)
			continue
		}
		key := string(call.request.IdempotencyKey)
		if call.request.IdempotencyKey != nil {
			if list[i].Err = checkKey("/idempotency_key", key); list[i].Err != nil {
				continue
			}
		}
		asked[i], list[i].Err = x.newSubmission(c, &call, key)
	}
	return list
}

// Results are made one at a time while they are written: ten thousand of them in a list would be twice the memory of
// the answer.
func (x *inserting) answerMany(c echo.Context, list []queue.Insertion) error {
	out := x.answers.buffers.take()
	defer x.answers.buffers.free(out)
	var meta []byte
	out.b = wire.AppendInsertResults(out.b[:0], len(list), func(i int) wire.InsertResult {
		in := &list[i]
		if in.Err != nil {
			return x.refusal(c, i, in.Err)
		}
		result := wire.InsertResult{Status: api.InsertCreated,
			Submission: wireSubmission(&in.Submission, x.engine, meta[:0])}
		if in.Replayed {
			result.Status = api.InsertReplayed
		} else if in.Existing {
			result.Status, result.Submission.Existing = api.InsertExisting, true
		}
		meta = result.Submission.Meta
		return result
	})
	return x.answers.json(c, http.StatusOK, out.b)
}

// refusal says why a submission of an insert of many was not inserted, as the answer of a
// single insert says it.
// A failure of ours for one submission is in the log, but not for each of ten thousand: the lines are counted.
func (x *inserting) refusal(c echo.Context, i int, err error) wire.InsertResult {
	p := x.answers.problemOf(narrowRefusal(c.Request().Context(), err))
	if p.Status >= http.StatusInternalServerError {
		if leftOut, ok := x.lines.take(lineKind{"insert-batch", "one: " + p.Code, true}, x.auth.clock.elapsed()); ok {
			x.log.Error("insert of many: a submission", slog.Int("number", i),
				slog.String("path", clip(c.Request().URL.Path)), slog.Any("error", err), slog.Int("left_out", leftOut))
		}
	}
	result := wire.InsertResult{Status: api.InsertRefused, Code: p.Code, Detail: p.Detail,
		Pointer: "/submissions/" + strconv.Itoa(i)}
	if p.Code == string(queue.CodeInvalid) || p.Code == string(codeMalformed) {
		result.Status = api.InsertInvalid
	}
	for n, at := range p.Errors {
		if n > 0 {
			result.Detail += "; " + at.Pointer + " " + at.Detail
			continue
		}
		result.Detail = at.Detail
		if !strings.HasPrefix(at.Pointer, "/header/") {
			result.Pointer += at.Pointer
		}
	}
	return result
}

// traceMany adds the submissions of an insert of many to the span.
func (x *inserting) traceMany(c echo.Context, list []queue.Insertion) {
	span := x.tracing.spanOf(c)
	if span == nil {
		return
	}
	chunks, wrong, before := int64(0), int64(0), ""
	for i := range list {
		if list[i].Err != nil {
			wrong++
			continue
		}
		chunks += int64(list[i].Submission.Chunks)
		if of := list[i].Submission.Trace; of != before {
			span.Link(of)
			before = of
		}
	}
	span.Set(trace.Int(attrCount, chunks), trace.Int(attrSubmissions, int64(len(list))), trace.Int(attrNotOK, wrong))
}
