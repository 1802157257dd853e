package web

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
	"github.com/quern-queue/quern/web/trace"
)

const insertManyAbout = "Up to 10,000 submissions, each as in a single insert, with an `idempotency_key` of its own if it likes. " +
	"All go to the disk in one commit, and the answer has one result per submission, in order: created, replayed (inserted before with " +
	"the same key; the submission is as it is now), invalid or refused. Those that are invalid or refused keep no other from being " +
	"inserted, unless `atomic` is true: then nothing is inserted, and the others are refused with the code batch_refused. As " +
	"`application/x-ndjson` each line is one submission, and the call is not atomic. An error of the whole call (such as 503 " +
	"commit_failed) says nothing of any submission: with keys it can be sent again safely."

// insertionBytes is about what one submission of an insert of many takes in memory until it is answered, beside its content.
const insertionBytes = 1 << 10

// resultBytes is about how many bytes of its answer one of them takes, beside its metadata.
const resultBytes = 512

// insertingMany are the steps of an insert of many.
type insertingMany struct{ s *Server }

// handle is POST .../submissions:batch.
func (m insertingMany) handle(c echo.Context) error {
	s, r := m.s, c.Request()
	if r.Header.Get("Idempotency-Key") != "" {
		return queue.Invalid("/header/Idempotency-Key", "is for a single insert; give each submission an idempotency_key of its own")
	}
	media, body, err := insertBody(s, c)
	if err != nil {
		return err
	}
	defer s.freeBody(body)
	var request wire.InsertManyRequest
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
	done, err := holdDecoded(s, r, int64(len(request.Submissions))*insertionBytes)
	if err != nil {
		return err
	}
	defer done()
	list := m.list(c, &request)
	q, err := s.engine.Queue(c.Param("queue"))
	if err != nil {
		return err
	}
	ask := &asking{Context: r.Context(), server: s, request: r}
	defer ask.done()
	if err := ask.hold(answerOf(list)); err != nil { // before anything is inserted
		return err
	}
	if err := q.InsertMany(ask, list, request.Atomic); err != nil {
		return err
	}
	m.trace(c, list)
	sayDurability(c, q)
	return m.answer(c, list)
}

// answerOf is about how many bytes the answer to an insert of many has.
func answerOf(list []queue.Insertion) (bytes int) {
	for i := range list {
		bytes += resultBytes + list[i].New.Meta.Bytes()
	}
	return bytes
}

// list is what the engine is asked for. What is wrong with one is its Err.
func (m insertingMany) list(c echo.Context, request *wire.InsertManyRequest) []queue.Insertion {
	s := m.s
	var call insertCall // of its own: what is decoded last does not replace what came before
	asked := make([]queue.NewSubmission, len(request.Submissions))
	list := make([]queue.Insertion, len(request.Submissions))
	for i, text := range request.Submissions {
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
		asked[i], list[i].Err = newSubmission(s, c, &call, key)
	}
	return list
}

func (m insertingMany) answer(c echo.Context, list []queue.Insertion) error {
	s := m.s
	out := s.pools.buffer()
	defer s.pools.free(out)
	var meta []byte
	out.b = wire.AppendInsertResults(out.b[:0], len(list), func(i int) wire.InsertResult {
		in := &list[i]
		if in.Err != nil {
			return m.refusal(c, i, in.Err)
		}
		result := wire.InsertResult{Status: api.InsertCreated, Submission: wireSubmission(&in.Submission, meta[:0])}
		if in.Replayed {
			result.Status = api.InsertReplayed
		}
		meta = result.Submission.Meta
		return result
	})
	return s.writeJSON(c, http.StatusOK, out.b)
}

// refusal says why a submission of an insert of many was not inserted, as the answer of a single insert says it.
func (m insertingMany) refusal(c echo.Context, i int, err error) wire.InsertResult {
	s := m.s
	p := s.problemOf(narrowRefusal(c.Request().Context(), err))
	if p.Status >= http.StatusInternalServerError {
		if leftOut, ok := s.metrics.lines.take(lineKind{"insert-batch", "one: " + p.Code}, s.now().Sub(s.began)); ok {
			s.log.Error("insert of many: a submission", slog.Int("number", i), slog.String("path", clip(c.Request().URL.Path)),
				slog.Any("error", err), slog.Int("left_out", leftOut))
		}
	}
	result := wire.InsertResult{Status: api.InsertRefused, Code: p.Code, Detail: p.Detail, Pointer: "/submissions/" + strconv.Itoa(i)}
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

// trace says what an insert of many made.
func (m insertingMany) trace(c echo.Context, list []queue.Insertion) {
	span := m.s.spanOf(c)
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
