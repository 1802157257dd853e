package web

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

const (
	// maxFinishBytes bounds the bodies that may carry outputs: a full batch of tokens is 0.6 MB, the rest is for outputs.
	maxFinishBytes = 16 << 20

	// stoppedRetry is the time after which a waiting consumer is asked to come back when the server stops.
	stoppedRetry = time.Second
)

const (
	reserveAbout = "Takes up to `max` chunks in the order of the strategy: fewer where their contents, attachments and metadata have " +
		"more than 4 MiB, and the others come with the next call. With `wait_ms` an empty answer is put off " +
		"until there is work for this strategy, at most so long. " +
		"An empty answer says why in `reason`, and with `all_limited` names some of the values that are at their limit in `limited`."
	resultsAbout = "One result per item, in order: ok, already (done before by this very token), lost, gone, unknown " +
		"or invalid. One bad item does not spoil the others."
)

// consuming are the handlers of what consumers call.
type consuming struct{ *Server }

// routes are the part of the table that is served most.
func (s consuming) routes(d *document) {
	s.raw(d, operation{id: "reserve", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Reserve chunks", about: reserveAbout}, reserveShape, s.reserve)
	s.raw(d, operation{id: "complete", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/complete",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Report chunks as done", about: resultsAbout}, finishShape[api.CompleteRequest](), s.complete)
	s.raw(d, operation{id: "fail", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/fail",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Report tries that did not succeed", about: resultsAbout}, finishShape[api.FailRequest](), s.fail)
	s.raw(d, operation{id: "extend", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/extend",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Move the deadlines of reservations", about: resultsAbout}, finishShape[api.ExtendRequest](), s.extend)
	s.raw(d, operation{id: "release", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/release",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Give chunks back unworked", about: resultsAbout}, finishShape[api.ReleaseRequest](), s.release)
	s.raw(d, operation{id: "exchange", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/exchange",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Finish chunks and reserve the next in one call", about: "What is finished is committed first; then " +
			"chunks are reserved. The fast path of consumers."}, exchangeShape, s.exchange)
}

// reserveCall is the memory of one reserve, kept for the next.
type reserveCall struct {
	request  wire.ReserveRequest
	response wire.ReserveResponse
	held     []queue.Reservation
	scratch  []byte // tokens and meta objects that response points into
	asking   asking
}

// reserve is POST .../reservations.
func (s consuming) reserve(c echo.Context) error {
	body, err := s.hotBody(c, maxBodyBytes)
	if err != nil {
		return err
	}
	q, err := s.engine.Queue(c.Param("queue"))
	if err != nil {
		s.freeBody(body)
		return err
	}
	call, ask := s.pools.reserveCall(), (*asking)(nil)
	defer func() {
		if ask != nil {
			ask.done()
		}
		s.pools.freeReserve(call)
	}()
	request, err := s.decodeReserve(c.Request().Context(), call, q, body)
	if err != nil {
		return err
	}
	wait := request.Wait
	request.Wait = 0
	ask = &call.asking
	*ask = asking{Context: c.Request().Context(), server: s.Server, request: c.Request()}
	result, err := q.Reserve(ask, request, call.held[:0])
	if err != nil {
		return err
	}
	if len(result.Reservations) == 0 && wait > 0 {
		// What the call holds in memory is of no use while it waits: ten thousand of them must cost little.
		ask.done()
		s.pools.freeReserve(call)
		call, ask = nil, &asking{Context: c.Request().Context(), server: s.Server, request: c.Request()}
		request.Wait = wait
		result, err = s.park(c, q, ask, request)
		call = s.pools.reserveCall()
		if err != nil {
			return err
		}
	} else {
		call.held = result.Reservations
	}
	s.traceReserved(c, &request, &result, false)
	call.scratch = fillReservations(&call.response, call.scratch[:0], result)
	out := s.pools.buffer()
	defer s.pools.free(out)
	out.b = call.response.Append(out.b[:0])
	return s.handOver(c, q, ask, &call.response, result.Reservations, out.b)
}

// decodeReserve reads the body and gives its buffer back; what it returns points into nothing that is reused.
func (s consuming) decodeReserve(ctx context.Context, call *reserveCall, q *engine.Queue, body *buffer) (engine.ReserveRequest, error) {
	defer s.freeBody(body)
	if err := call.request.Decode(body.b); err != nil {
		return engine.ReserveRequest{}, wireProblem[api.ReserveRequest](err, body.b, contentJSON)
	}
	return reserveRequest(ctx, &call.request, q, "")
}

// reserveRequest resolves the strategy and checks what the engine's types cannot hold; all else is the engine's to check.
// prefix is where the request stands in the body.
func reserveRequest(ctx context.Context, in *wire.ReserveRequest, q *engine.Queue, prefix string) (engine.ReserveRequest, error) {
	var out engine.ReserveRequest
	switch {
	case in.WaitMS < 0 || in.WaitMS > queue.MaxWait.Milliseconds():
		return out, queue.Invalid(prefix+"/wait_ms", "is %d; 0 to %d are allowed", in.WaitMS, queue.MaxWait.Milliseconds())
	case in.TimeoutMS < 0 || in.TimeoutMS > queue.MaxReservation.Milliseconds():
		return out, queue.Invalid(prefix+"/timeout_ms", "is %d; %d to %d are allowed, or 0 for the queue's default",
			in.TimeoutMS, queue.MinReservation.Milliseconds(), queue.MaxReservation.Milliseconds())
	}
	var about queue.Meta
	if len(in.Context) > 0 {
		var err error
		if about, err = queue.NewContext(appendEntries(nil, in.Context)); err != nil {
			return out, prefixed(err, prefix)
		}
	}
	asked, err := q.Asked(ctx, in.Strategy)
	if err != nil {
		return out, prefixed(err, prefix)
	}
	out = engine.ReserveRequest{
		Max: in.Max, Plan: asked.Plan, Strategy: asked.Name, Unusable: asked.Unusable, Consumer: string(in.Consumer), Context: about,
		Wait:    time.Duration(in.WaitMS) * time.Millisecond,
		Timeout: time.Duration(in.TimeoutMS) * time.Millisecond,
		Limited: queue.MaxLimited,
	}
	if tenantOf(ctx) != nil {
		err = narrowReserve(ctx, q, prefix, &out)
	}
	return out, err
}

// narrowReserve keeps a reserve to what a tenant's token is bound to: also the answer, which does not count what others have in flight.
func narrowReserve(ctx context.Context, q *engine.Queue, prefix string, r *engine.ReserveRequest) (err error) {
	r.Limited = 0
	if r.Plan, err = narrowPlan(ctx, q, r.Plan); err == nil {
		r.Consumer, err = narrowConsumer(ctx, r.Consumer)
	}
	return prefixed(err, prefix)
}

// park waits for work. It ends when there is some, when the wait is over, when the client goes away (an error) or when
// the server stops (an empty answer that asks to come back).
func (s consuming) park(c echo.Context, q *engine.Queue, ask *asking, request engine.ReserveRequest) (engine.ReserveResult, error) {
	stopped := nothingNow()
	by := s.credentialOf(c.Request())
	access.Of(ask) // whose answer it is stands in the headers
	forgetHeaders(c.Request())
	s.waitLonger(c.Response(), request.Wait) // before enter: stopping sets a deadline too
	if !s.waits.enter(c.Response(), by) {
		return stopped, nil
	}
	defer s.waits.leave(c.Response())
	result, err := q.Reserve(ask, request, nil)
	if err != nil && s.waits.stopped() {
		return stopped, nil
	}
	if err != nil && by != nil && !s.good(by) {
		return result, noLongerGood()
	}
	return result, err
}

// handOver sends the answer with what was reserved. A client that is gone before the first byte gets nothing, and its chunks go back. From
// the first byte on only the client knows what it has: a client that closes behind the answer looks like one that never read it, also when
// the write fails. What a lost answer handed out waits for its deadline. A large answer for which there is no room is not sent either.
func (s consuming) handOver(c echo.Context, q *engine.Queue, ask *asking, response *wire.ReserveResponse, reserved []queue.Reservation,
	answer []byte) error {
	ctx := c.Request().Context()
	kept := ctx.Err()
	if kept != nil && s.waits.stopped() {
		kept = nil // a server that stops ends the contexts of calls that wait, whose clients are there
	}
	if kept == nil {
		kept = ask.hold(cap(answer))
	}
	if kept != nil && len(reserved) > 0 {
		items := make([]queue.ReleaseItem, len(reserved))
		for i := range reserved {
			items[i].Token = reserved[i].Token
		}
		// Should this fail, the deadline does the same later.
		_, _ = q.Release(context.WithoutCancel(ctx), items, nil)
		return kept
	}
	if len(answer) > access.SmallAnswer { // what it was made of must not stay while the client takes it
		clear(reserved)
		clear(response.Reservations)
	}
	_ = s.writeJSON(c, 200, answer)
	return nil
}

// fillReservations puts a result into the answer. Tokens and meta objects are appended to scratch, which is returned.
func fillReservations(out *wire.ReserveResponse, scratch []byte, result engine.ReserveResult) []byte {
	out.Reservations = out.Reservations[:0]
	out.Reason, out.HasRetryAfter, out.RetryAfterMS, out.Limited = "", false, 0, out.Limited[:0]
	out.Warnings = out.Warnings[:0]
	for _, why := range result.Unusable {
		out.Warnings = append(out.Warnings, wire.Warning(unusable(why)))
	}
	var meta []byte
	for i := range result.Reservations {
		in := &result.Reservations[i]
		start := len(scratch)
		scratch = in.Token.AppendText(scratch)
		token := scratch[start:len(scratch):len(scratch)]
		// Chunks of one submission often come together, and share their meta.
		if i == 0 || in.Token.Submission != result.Reservations[i-1].Token.Submission {
			start = len(scratch)
			scratch = appendMeta(scratch, in.Meta)
			meta = scratch[start:len(scratch):len(scratch)]
		}
		out.Reservations = append(out.Reservations, wire.Reservation{
			Token: token, Submission: uint64(in.Token.Submission), Index: in.Token.Index, Attempt: uint32(in.Attempt),
			Deadline: int64(in.Deadline), Content: in.Content.Bytes, IsKey: in.Content.IsKey, Meta: meta,
			Priority: in.Priority, Attachment: in.Attachment, Trace: in.Trace,
		})
	}
	if len(result.Reservations) == 0 {
		out.Reason = result.Reason.String()
		if result.RetryAfter > 0 {
			out.HasRetryAfter, out.RetryAfterMS = true, max(1, result.RetryAfter.Milliseconds())
		}
		for _, v := range result.Limited {
			out.Limited = append(out.Limited, wire.Saturated{Key: v.Key, Value: v.Value, InFlight: v.InFlight, Limit: v.Limit})
		}
	}
	return scratch
}

// finishCall is the memory of one complete, fail, extend or release.
type finishCall struct {
	complete wire.CompleteRequest
	fail     wire.FailRequest
	extend   wire.ExtendRequest
	release  wire.ReleaseRequest

	completeItems []queue.CompleteItem
	failItems     []queue.FailItem
	extendItems   []queue.ExtendItem
	releaseItems  []queue.ReleaseItem

	results  []queue.Result
	response wire.ResultsResponse
}

// finish is the common frame: read, decode, do, answer. do appends the results to its second argument.
func (s consuming) finish(c echo.Context, limit int64,
	do func(call *finishCall, body []byte, q *engine.Queue) ([]queue.Result, error)) error {
	body, err := s.hotBody(c, limit)
	if err != nil {
		return err
	}
	defer s.freeBody(body)
	q, err := s.engine.Queue(c.Param("queue"))
	if err != nil {
		return err
	}
	call := s.pools.finishCall()
	defer s.pools.freeFinish(call)
	results, err := do(call, body.b, q)
	if err != nil {
		return err
	}
	traceSettled(s.spanOf(c), results)
	call.results = results
	call.response.Results = appendResults(call.response.Results[:0], results)
	out := s.pools.buffer()
	defer s.pools.free(out)
	out.b = call.response.Append(out.b[:0])
	sayDurability(c, q)
	return s.writeJSON(c, 200, out.b)
}

// complete is POST .../reservations/complete.
func (s consuming) complete(c echo.Context) error {
	return s.finish(c, maxFinishBytes, func(call *finishCall, body []byte, q *engine.Queue) ([]queue.Result, error) {
		if err := call.complete.Decode(body); err != nil {
			return nil, wireProblem[api.CompleteRequest](err, body, contentJSON)
		}
		items := completeItems(call.completeItems[:0], call.complete.Items)
		call.completeItems = items
		if err := s.maySettle(c, len(items), func(i int) *queue.Token { return &items[i].Token }); err != nil {
			return nil, err
		}
		return q.Complete(c.Request().Context(), items, call.results[:0])
	})
}

// fail is POST .../reservations/fail.
func (s consuming) fail(c echo.Context) error {
	return s.finish(c, maxFinishBytes, func(call *finishCall, body []byte, q *engine.Queue) ([]queue.Result, error) {
		if err := call.fail.Decode(body); err != nil {
			return nil, wireProblem[api.FailRequest](err, body, contentJSON)
		}
		items := failItems(call.failItems[:0], call.fail.Items)
		call.failItems = items
		if err := s.maySettle(c, len(items), func(i int) *queue.Token { return &items[i].Token }); err != nil {
			return nil, err
		}
		return q.Fail(c.Request().Context(), items, call.results[:0])
	})
}

// extend is POST .../reservations/extend.
func (s consuming) extend(c echo.Context) error {
	return s.finish(c, maxBodyBytes, func(call *finishCall, body []byte, q *engine.Queue) ([]queue.Result, error) {
		if err := call.extend.Decode(body); err != nil {
			return nil, wireProblem[api.ExtendRequest](err, body, contentJSON)
		}
		if err := validConsumer(call.extend.Consumer); err != nil {
			return nil, err
		}
		consumer, err := narrowConsumer(c.Request().Context(), string(call.extend.Consumer))
		if err != nil {
			return nil, err
		}
		items := extendItems(call.extendItems[:0], call.extend.Items, consumer)
		call.extendItems = items
		if err := s.maySettle(c, len(items), func(i int) *queue.Token { return &items[i].Token }); err != nil {
			return nil, err
		}
		return q.Extend(c.Request().Context(), items, call.results[:0])
	})
}

// release is POST .../reservations/release.
func (s consuming) release(c echo.Context) error {
	return s.finish(c, maxBodyBytes, func(call *finishCall, body []byte, q *engine.Queue) ([]queue.Result, error) {
		if err := call.release.Decode(body); err != nil {
			return nil, wireProblem[api.ReleaseRequest](err, body, contentJSON)
		}
		items := releaseItems(call.releaseItems[:0], call.release.Items)
		call.releaseItems = items
		if err := s.maySettle(c, len(items), func(i int) *queue.Token { return &items[i].Token }); err != nil {
			return nil, err
		}
		return q.Release(c.Request().Context(), items, call.results[:0])
	})
}

// maySettle refuses tokens of reservations that are beyond what the access token is bound to, and traces the others.
func (s consuming) maySettle(c echo.Context, n int, token func(int) *queue.Token) error {
	s.traceSettling(s.spanOf(c), n, token)
	return s.mayFinish(c.Request().Context(), "/items", n, token)
}

// tokenOf reads a token. What is none becomes the zero token, which no server ever gave out: its result is "unknown",
// and the other items of the batch are not touched by it.
func tokenOf(text []byte) queue.Token {
	token, _ := queue.ParseToken(text)
	return token
}

func completeItems(dst []queue.CompleteItem, in []wire.CompleteItem) []queue.CompleteItem {
	for i := range in {
		dst = append(dst, queue.CompleteItem{Token: tokenOf(in[i].Token), Output: in[i].Output})
	}
	return dst
}

func failItems(dst []queue.FailItem, in []wire.FailItem) []queue.FailItem {
	for i := range in {
		dst = append(dst, queue.FailItem{
			Token: tokenOf(in[i].Token), Error: string(clipText(in[i].Error, queue.MaxErrorBytes)), Fatal: in[i].Fatal,
			HasRetry: in[i].HasRetryAfter, RetryAfter: queue.Time(in[i].RetryAfterMS), RetryAt: queue.Time(in[i].RetryAt),
		})
	}
	return dst
}

func extendItems(dst []queue.ExtendItem, in []wire.ExtendItem, name string) []queue.ExtendItem {
	for i := range in {
		dst = append(dst, queue.ExtendItem{Token: tokenOf(in[i].Token), Timeout: queue.Time(in[i].TimeoutMS), Consumer: name})
	}
	return dst
}

// validConsumer is for the name that stands beside items.
func validConsumer(name []byte) error {
	if len(name) > queue.MaxConsumerBytes {
		return queue.Invalid("/consumer", "has %d bytes; at most %d are allowed", len(name), queue.MaxConsumerBytes)
	}
	return nil
}

func releaseItems(dst []queue.ReleaseItem, in []wire.ReleaseItem) []queue.ReleaseItem {
	for i := range in {
		dst = append(dst, queue.ReleaseItem{Token: tokenOf(in[i].Token)})
	}
	return dst
}

// clipText keeps at most `most` bytes and no half character.
func clipText(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func appendResults(dst []wire.Result, results []queue.Result) []wire.Result {
	for i := range results {
		in := &results[i]
		dst = append(dst, wire.Result{Status: in.Outcome.String(), Code: in.Code, Detail: in.Detail, Deadline: int64(in.Deadline)})
	}
	return dst
}
