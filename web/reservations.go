package web

// Reserve, complete, fail, extend and release: the calls that carry the load. They read and write
// JSON by hand (package sdk/wire) into memory that is kept from call to call, because a reserve of
// one chunk would otherwise spend more on garbage than on its pick.
//
//	pooled call ─► decode (points into the body) ─► engine ─► encode (points into call.scratch) ─► client ─► pool
//
// So three lifetimes matter. A decoded request is valid until the body is given back. An answer is
// valid until its call is given back. And a call that waits gives both back first, and holds its
// request alone.

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

const (
	// maxFinishBytes bounds the bodies that may carry outputs: a full batch of tokens is
	// 0.6 MB, the rest is for outputs.
	maxFinishBytes = 16 << 20

	// stoppedRetry is the time after which a waiting consumer is asked to come back when the server stops.
	stoppedRetry = time.Second
)

const (
	reserveAbout = "Takes up to `max` chunks in the order of the strategy. It takes fewer if their contents, " +
		"attachments and metadata exceed 4 MiB; the next call gets the others. With `wait_ms`, an empty answer waits " +
		"that long for work that fits the strategy. `reason` explains an empty answer; with `all_limited`, `limited` " +
		"names some of the values at their limit."
	resultsAbout = "One result per item, in order: ok, already (done before with this token), lost, gone, " +
		"unknown or invalid. A bad item does not affect the others."
	insertsAbout = " With `insert`, the server inserts submissions into this queue in the commit of the chunk's " +
		"completion: all of them and the completion, or nothing. The caller then needs the scope produce, too. A " +
		"token that completes nothing inserts nothing, so you can safely send the same request again. If the server " +
		"cannot insert one of the submissions now, it refuses the item, and the chunk stays reserved."
)

// consuming are the handlers of the calls of consumers. The three pools are apart, as their calls differ in size: an
// exchange has the memory of a finish and of a reserve.
type consuming struct {
	engine  *engine.Engine
	auth    *auth
	bodies  *bodies
	answers *answers
	waits   *waits
	tracing *tracing
	inserts *inserting // inserts the submissions of completions
	nodes   *forwarding

	reserves  pool[reserveCall]
	finishes  pool[finishCall]
	exchanges pool[exchangeCall]
}

// routes are the part of the table that is served most.
func (x *consuming) routes(r *router) {
	r.raw(operation{id: "reserve", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Reserve chunks", about: reserveAbout}, reserveShape, x.reserve)
	r.raw(operation{id: "complete", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/complete",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Report chunks as done", about: resultsAbout + insertsAbout}, finishShape[api.CompleteRequest](),
		x.complete)
	r.raw(operation{id: "fail", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/fail",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Report failed attempts", about: resultsAbout}, finishShape[api.FailRequest](), x.fail)
	r.raw(operation{id: "extend", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/extend",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Move the deadlines of reservations", about: resultsAbout}, finishShape[api.ExtendRequest](), x.extend)
	r.raw(operation{id: "release", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/release",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Give chunks back without working on them", about: resultsAbout}, finishShape[api.ReleaseRequest](),
		x.release)
	r.raw(operation{id: "exchange", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/exchange",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Finish chunks and reserve the next ones in one call",
		about: "The server commits the results first, and then " +
			"reserves. This is the fast path of consumers. Completions take `insert`, " +
			"as those of a complete do."}, exchangeShape, x.exchange)
}

// reserveCall is the memory of one reserve, kept for the next.
// A call keeps its slices at the size of the largest batch it had, up to keepBody bytes: the next reserve of the
// same consumer usually wants as much.
type reserveCall struct {
	request  wire.ReserveRequest
	response wire.ReserveResponse
	held     []queue.Reservation
	scratch  []byte // tokens and meta objects that response points into
}

// freeReserve accepts nil, for a caller that gave its call back before.
func (x *consuming) freeReserve(call *reserveCall) {
	if call != nil && cap(call.scratch) <= keepBody {
		x.reserves.Put(call)
	}
}

// reserve is POST .../reservations. There are two tries. The first answers at once, with pooled memory. Only if it
// found nothing and may wait, the call gives that memory back and parks.
func (x *consuming) reserve(c echo.Context) error {
	body, err := x.bodies.readJSON(c, maxBodyBytes)
	if err != nil {
		return err
	}
	q, err := x.engine.Work(c.Param("queue"))
	if err != nil {
		x.bodies.free(body)
		return err
	}
	call, ask := x.reserves.take(), x.auth.asking(c)
	defer func() {
		ask.done()
		x.freeReserve(call)
	}()
	request, err := x.decodeReserve(c.Request().Context(), call, q, body)
	if err != nil {
		return err
	}
	// The first try does not wait. So a reserve that finds work at once, the usual one under load, never pays for
	// waiting: no second credential, no deadline to move, no place in the list of waiting calls.
	wait := request.Wait
	request.Wait, request.Of = 0, c.Param("queue")
	result, err := q.Reserve(ask, request, call.held[:0])
	if err != nil {
		return err
	}
	if len(result.Reservations) == 0 && wait > 0 {
		// The call's memory is of no use while it waits: ten thousand waiting calls must cost little.
		ask.done()
		x.freeReserve(call)
		call, request.Wait = nil, wait
		result, err = x.park(c, q, ask, request)
		call = x.reserves.take()
		if err != nil {
			return err
		}
	} else {
		call.held = result.Reservations
	}
	x.tracing.reserved(c, &request, &result, false)
	call.scratch = fillReservations(&call.response, call.scratch[:0], result)
	out := x.answers.buffers.take()
	defer x.answers.buffers.free(out)
	out.b = call.response.Append(out.b[:0])
	return x.handOver(c, q, ask, &call.response, result.Reservations, out.b)
}

// decodeReserve reads the body and gives its buffer back. The request that it returns points into nothing that is
// reused, because reserveRequest copies all that it keeps: names become strings, the strategy a plan.
func (x *consuming) decodeReserve(ctx context.Context, call *reserveCall, q engine.Work,
	body *buffer) (engine.ReserveRequest, error) {
	defer x.bodies.free(body)
	if err := call.request.Decode(body.b); err != nil {
		return engine.ReserveRequest{}, wireProblem[api.ReserveRequest](err, body.b, contentJSON)
	}
	return reserveRequest(ctx, &call.request, q, "")
}

// reserveRequest resolves the strategy and refuses values that the engine's types cannot
// hold. The engine checks the rest. prefix is where the request stands in the body.
func reserveRequest(ctx context.Context, in *wire.ReserveRequest, q engine.Work,
	prefix string) (engine.ReserveRequest, error) {
	var out engine.ReserveRequest
	switch {
	// Checked before the conversion to a Duration, which a large number would overflow.
	case in.WaitMS < 0 || in.WaitMS > queue.MaxWait.Milliseconds():
		return out, queue.Invalid(prefix+"/wait_ms", "is %d; 0 to %d are allowed", in.WaitMS,
			queue.MaxWait.Milliseconds())
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
		Max: in.Max, Plan: asked.Plan, Strategy: asked.Name, Unusable: asked.Unusable, Consumer: string(in.Consumer),
		Context: about,
		Wait:    time.Duration(in.WaitMS) * time.Millisecond,
		Timeout: time.Duration(in.TimeoutMS) * time.Millisecond,
		Limited: queue.MaxLimited,
	}
	if tenantOf(ctx) != nil {
		err = narrowReserve(ctx, q, prefix, &out)
	}
	return out, err
}

// narrowReserve keeps a reserve within the restriction of a tenant's token, and the answer too: it
// does not count chunks that others have in flight. The list of values at their limit would name
// other tenants, so it is left out.
func narrowReserve(ctx context.Context, q engine.Work, prefix string, r *engine.ReserveRequest) (err error) {
	r.Limited = 0
	if r.Plan, err = narrowPlan(ctx, q, r.Plan); err == nil {
		r.Consumer, err = narrowConsumer(ctx, r.Consumer)
	}
	return prefixed(err, prefix)
}

// park waits for work. It ends when there is some, when the wait is over, when the client
// goes away (an error) or when the server stops (an empty answer that asks to come back).
// A call that waits keeps no headers and no buffer: ten thousand consumers may wait at once, each for a minute.
func (x *consuming) park(c echo.Context, q engine.Work, ask *asking,
	request engine.ReserveRequest) (engine.ReserveResult, error) {
	stopped := nothingNow()
	by := x.auth.credentialOf(c.Request())
	access.Of(ask) // the headers say whose answer it is
	ask.by = by
	forgetHeaders(c.Request())
	// A server that is stopping does not let new calls wait. They get an empty answer and the time to come back.
	if !x.waits.enter(c.Response(), by, request.Wait) {
		return stopped, nil
	}
	defer x.waits.leave(c.Response())
	result, err := q.Reserve(ask, request, nil)
	if err != nil && x.waits.stopped() {
		return stopped, nil
	}
	if err != nil && by != nil && !x.auth.good(by) {
		return result, noLongerGood()
	}
	return result, err
}

// handOver sends the answer with the reserved chunks. A client that is gone before the
// first byte gets nothing, and its chunks go back. From the first byte on only the client
// knows what it has: a client that closes behind the answer looks like one that never read
// it, also when the write fails. The chunks of a lost answer stay reserved until their
// deadline. A large answer for which there is no room is not sent either.
func (x *consuming) handOver(c echo.Context, q engine.Work, ask *asking, response *wire.ReserveResponse,
	reserved []queue.Reservation, answer []byte) error {
	ctx := c.Request().Context()
	kept := ctx.Err()
	if kept != nil && x.waits.stopped() {
		kept = nil // a server that stops ends the contexts of calls that wait, whose clients are there
	}
	if kept == nil {
		kept = ask.hold(cap(answer))
	}
	if kept != nil && len(reserved) > 0 {
		engine.GiveBack(ctx, q, reserved)
		return kept
	}
	if len(answer) > access.SmallAnswer { // its sources must not stay in memory while the client takes it
		clear(reserved)
		clear(response.Reservations)
	}
	_ = x.answers.json(c, 200, answer)
	return nil
}

// fillReservations puts a result into the answer. Tokens and meta objects are appended to
// scratch, which is returned.
// Everything in the answer points into scratch or into the engine's results, so nothing of it may be used once the
// call is back in its pool.
func fillReservations(out *wire.ReserveResponse, scratch []byte, result engine.ReserveResult) []byte {
	out.Reservations = out.Reservations[:0]
	out.Reason, out.HasRetryAfter, out.RetryAfterMS, out.Limited = "", false, 0, out.Limited[:0]
	out.Warnings = out.Warnings[:0]
	for _, why := range result.Unusable {
		out.Warnings = append(out.Warnings, wire.Warning(strategy.WarningOf(why)))
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
			Deadline: int64(in.Deadline), ReadyAt: int64(in.Ready),
			Content: in.Content.Bytes, IsKey: in.Content.IsKey, Meta: meta,
			Priority: in.Priority, Attachment: in.Attachment, Trace: in.Trace,
		})
	}
	if len(result.Reservations) == 0 {
		out.Reason = result.Reason.String()
		if result.RetryAfter > 0 {
			out.HasRetryAfter, out.RetryAfterMS = true, max(1, result.RetryAfter.Milliseconds())
		}
		for _, v := range result.Limited {
			key, missing := queue.LackedBy(v.Key)
			out.Limited = append(out.Limited, wire.Saturated{Key: key, Value: v.Value, InFlight: v.InFlight,
				Limit: v.Limit, Missing: missing})
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
	brought  bringing // submissions of the completions
}

// A call that grew to ten thousand items is left to the garbage collector. The pool keeps calls of the usual size.
func (x *consuming) freeFinish(call *finishCall) {
	if max(cap(call.completeItems), cap(call.failItems), cap(call.extendItems), cap(call.releaseItems)) <= keepItems {
		x.finishes.Put(call)
	}
}

// finish is the common frame: read, decode, do, answer. do appends the results to its second argument. The queue is
// looked up behind the body: so a large body to a queue that does not exist is read to its end, and the connection
// stays usable.
func (x *consuming) finish(c echo.Context, limit int64,
	do func(call *finishCall, body []byte, q engine.Work) ([]queue.Result, error)) error {
	body, err := x.bodies.readJSON(c, limit)
	if err != nil {
		return err
	}
	defer x.bodies.free(body)
	q, err := x.engine.Work(c.Param("queue"))
	if err != nil {
		return err
	}
	call := x.finishes.take()
	defer x.freeFinish(call)
	defer func() { call.brought.end() }()
	results, err := do(call, body.b, q)
	if others, is := errors.AsType[*away](err); is {
		sayDurability(c, q)
		x.answers.setHeaders(c)
		return x.nodes.do(c, others, body.b, x.bodies, false)
	}
	if err != nil {
		return err
	}
	traceSettled(x.tracing.spanOf(c), results)
	call.results = results
	call.response.Results = appendResults(call.response.Results[:0], results)
	call.brought.answer(c, call.response.Results)
	out := x.answers.buffers.take()
	defer x.answers.buffers.free(out)
	out.b = call.response.Append(out.b[:0])
	sayDurability(c, q)
	return x.answers.json(c, 200, out.b)
}

// complete is POST .../reservations/complete.
func (x *consuming) complete(c echo.Context) error {
	return x.finish(c, maxFinishBytes, func(call *finishCall, body []byte, q engine.Work) ([]queue.Result, error) {
		if err := call.complete.Decode(body); err != nil {
			return nil, wireProblem[api.CompleteRequest](err, body, contentJSON)
		}
		items := completeItems(call.completeItems[:0], call.complete.Items)
		call.completeItems = items
		var err error
		if call.brought, err = x.bring(c, "/items", call.complete.Items, items); err != nil {
			return nil, err
		}
		if err := x.maySettle(c, q, engine.Finishing{Complete: items}, len(items),
			func(i int) *queue.Token { return &items[i].Token }); err != nil {
			return nil, err
		}
		ask := x.auth.asking(c)
		defer ask.done()
		return q.Complete(ask, items, call.results[:0])
	})
}

// fail is POST .../reservations/fail.
func (x *consuming) fail(c echo.Context) error {
	return x.finish(c, maxFinishBytes, func(call *finishCall, body []byte, q engine.Work) ([]queue.Result, error) {
		if err := call.fail.Decode(body); err != nil {
			return nil, wireProblem[api.FailRequest](err, body, contentJSON)
		}
		items := failItems(call.failItems[:0], call.fail.Items)
		call.failItems = items
		if err := x.maySettle(c, q, engine.Finishing{Fail: items}, len(items),
			func(i int) *queue.Token { return &items[i].Token }); err != nil {
			return nil, err
		}
		return q.Fail(c.Request().Context(), items, call.results[:0])
	})
}

// extend is POST .../reservations/extend.
func (x *consuming) extend(c echo.Context) error {
	return x.finish(c, maxBodyBytes, func(call *finishCall, body []byte, q engine.Work) ([]queue.Result, error) {
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
		if err := x.maySettle(c, q, engine.Finishing{Extend: items}, len(items),
			func(i int) *queue.Token { return &items[i].Token }); err != nil {
			return nil, err
		}
		return q.Extend(c.Request().Context(), items, call.results[:0])
	})
}

// release is POST .../reservations/release.
func (x *consuming) release(c echo.Context) error {
	return x.finish(c, maxBodyBytes, func(call *finishCall, body []byte, q engine.Work) ([]queue.Result, error) {
		if err := call.release.Decode(body); err != nil {
			return nil, wireProblem[api.ReleaseRequest](err, body, contentJSON)
		}
		items := releaseItems(call.releaseItems[:0], call.release.Items)
		call.releaseItems = items
		if err := x.maySettle(c, q, engine.Finishing{Release: items}, len(items),
			func(i int) *queue.Token { return &items[i].Token }); err != nil {
			return nil, err
		}
		return q.Release(c.Request().Context(), items, call.results[:0])
	})
}

// maySettle refuses tokens of reservations beyond the access token's restriction, and traces the others. Tokens of
// shards that other nodes serve go to those nodes (away), which also know what the access token covers. A batch with
// an invalid item is refused before that: a node that has done its part could not take it back when another node
// refuses its own. maySettle runs before the engine sees any item: a batch with one token that is not allowed is
// refused as a whole, since a half-done batch would be hard to repeat.
func (x *consuming) maySettle(c echo.Context, q engine.Work, asked engine.Finishing, n int,
	token func(int) *queue.Token) error {
	if s := x.nodes.dispersed(c, q); s != nil {
		if err := s.Finishable(&asked); err != nil {
			return err
		}
		if err := x.nodes.finishing(c, s, &asked, func() []sharedList {
			return []sharedList{{"items", "results", tokensOf(s, n, token)}}
		}); err != nil {
			return err
		}
	}
	x.tracing.settling(x.tracing.spanOf(c), n, token)
	return mayFinish(c.Request().Context(), x.engine, "/items", n, token)
}

// tokenOf reads a token. A text that is no token becomes the zero token, which no server ever gave out: its result is
// "unknown", and the other items of the batch are not affected. Only length and form are checked here. The shard,
// which has the key, checks whether the server made the token.
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

// An error text is cut here and not refused: a worker whose message is too long should not lose the failure.
func failItems(dst []queue.FailItem, in []wire.FailItem) []queue.FailItem {
	for i := range in {
		dst = append(dst, queue.FailItem{
			Token: tokenOf(in[i].Token), Error: string(clipText(in[i].Error, queue.MaxErrorBytes)), Fatal: in[i].Fatal,
			HasRetry: in[i].HasRetryAfter, RetryAfter: queue.Time(in[i].RetryAfterMS),
			RetryAt: queue.Time(in[i].RetryAt),
		})
	}
	return dst
}

func extendItems(dst []queue.ExtendItem, in []wire.ExtendItem, name string) []queue.ExtendItem {
	for i := range in {
		dst = append(dst, queue.ExtendItem{Token: tokenOf(in[i].Token), Timeout: queue.Time(in[i].TimeoutMS),
			Consumer: name, Reported: queue.Reported{Progress: in[i].Progress, HasProgress: in[i].HasProgress,
				Note: string(in[i].Note)}})
	}
	return dst
}

// progress is how much of a chunk is done, as the API has it.
func progress(t *queue.Reported) *float64 {
	if t.HasProgress {
		return &t.Progress
	}
	return nil
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
		dst = append(dst, queue.ReleaseItem{Token: tokenOf(in[i].Token), Delay: queue.Time(in[i].DelayMS)})
	}
	return dst
}

// clipText keeps at most `most` bytes and no half character. The text need not be UTF-8: then it is cut where a
// character could begin.
func clipText(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Results stand in the order of the items, and there is one for each, so a client matches them by their place.
func appendResults(dst []wire.Result, results []queue.Result) []wire.Result {
	for i := range results {
		in := &results[i]
		dst = append(dst, wire.Result{Status: in.Outcome.String(), Code: in.Code, Detail: in.Detail,
			Deadline: int64(in.Deadline)})
	}
	return dst
}
