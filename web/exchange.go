package web

// The exchange: complete, fail, extend, commit, and then reserve, in one call. It is the fast path
// of workers: one round trip and one commit per batch of work.
//
//	decode ─► may the token settle these? ─► engine.Exchange ─► results (facts) + reservations
//	                                              │ nothing to reserve, and wait_ms left
//	                                              ▼
//	                                     exchangeLater: park, holding the results only
//
// The one rule that shapes this file: results that are committed are facts, and their answer must
// not be lost to a failure of the reserve. So if the reserve fails, or its answer has no room, the
// results go out with an empty reserve. The client would otherwise repeat work that is done.

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// exchangeCall is the memory of one exchange, kept for the next. While a call waits for work it is
// given back to the pool (exchangeLater): ten thousand waiting consumers must not hold ten thousand
// of them.
type exchangeCall struct {
	request  wire.ExchangeRequest
	asked    engine.Exchange
	reserve  engine.ReserveRequest // what asked.Reserve points at
	done     engine.Exchanged
	response wire.ExchangeResponse
	scratch  []byte
}

// A call that grew for a large batch is left to the garbage collector, as in freeFinish.
func (x *consuming) freeExchange(call *exchangeCall) {
	if max(cap(call.asked.Complete), cap(call.asked.Fail), cap(call.asked.Extend)) <= keepItems &&
		cap(call.scratch) <= keepBody {
		x.exchanges.Put(call)
	}
}

// exchange is POST .../reservations/exchange: finish, commit, then reserve, in one round trip.
func (x *consuming) exchange(c echo.Context) error {
	body, err := x.bodies.readJSON(c, maxFinishBytes)
	if err != nil {
		return err
	}
	q, err := x.engine.Work(c.Param("queue"))
	if err != nil {
		x.bodies.free(body)
		return err
	}
	call := x.exchanges.take()
	ask := x.auth.asking(c)
	defer func() {
		ask.done()
		x.freeExchange(call)
	}()
	err = x.exchangeNow(c, call, ask, body, q)
	if others, is := errors.AsType[*away](err); is {
		defer x.bodies.free(body)
		sayDurability(c, q)
		x.answers.setHeaders(c)
		return x.nodes.do(c, others, body.b, x.bodies, true)
	}
	if x.bodies.free(body); err != nil {
		return err
	}
	result := call.done.Reserve
	if call.asked.Reserve != nil && len(result.Reservations) == 0 && call.reserve.Wait > 0 {
		ask.done()
		call, result = x.exchangeLater(c, call, ask, q)
	}
	settled := len(call.response.Complete)+len(call.response.Fail) > 0
	if call.asked.Reserve != nil {
		x.tracing.reserved(c, &call.reserve, &result, settled)
	} else if !settled {
		x.tracing.untraced(c) // only deadlines were moved
	}
	call.scratch = fillReservations(&call.response.ReserveResponse, call.scratch[:0], result)
	out := x.answers.buffers.take()
	defer x.answers.buffers.free(out)
	out.b = call.response.Append(out.b[:0])
	sayDurability(c, q)
	err = x.handOver(c, q, ask, &call.response.ReserveResponse, result.Reservations, out.b)
	if queue.CodeOf(err) == queue.CodeOverloaded &&
		len(call.response.Complete)+len(call.response.Fail)+len(call.response.Extend) > 0 {
		// There is no room for the reservations. The results are facts, and are sent.
		call.scratch = fillReservations(&call.response.ReserveResponse, call.scratch[:0], nothingNow())
		out.b = call.response.Append(out.b[:0])
		return x.answers.json(c, 200, out.b)
	}
	return err
}

// exchangeNow decodes and does all that need not wait. Its caller gives the body back: only outputs and errors pointed
// into it, and they are committed when the engine returns.
func (x *consuming) exchangeNow(c echo.Context, call *exchangeCall, ask *asking, body *buffer, q engine.Work) error {
	in := &call.request
	if err := in.Decode(body.b); err != nil {
		return wireProblem[api.ExchangeRequest](err, body.b, contentJSON)
	}
	if err := validConsumer(in.Consumer); err != nil {
		return err
	}
	asked := &call.asked
	asked.Complete = completeItems(asked.Complete[:0], in.Complete)
	asked.Fail = failItems(asked.Fail[:0], in.Fail)
	consumer := in.Consumer
	if len(consumer) == 0 && in.HasReserve {
		consumer = in.Reserve.Consumer
	}
	ctx := c.Request().Context()
	name, err := narrowConsumer(ctx, string(consumer))
	if err != nil {
		return err
	}
	asked.Extend = extendItems(asked.Extend[:0], in.Extend, name)
	brought, err := x.bring(c, "/complete", in.Complete, asked.Complete)
	if err != nil {
		return err
	}
	defer brought.end()
	if s := x.nodes.dispersed(c, q); s != nil {
		if err := x.exchangeElsewhere(c, s, call); err != nil {
			return err
		}
	}
	if err := x.mayExchange(ctx, asked); err != nil {
		return err
	}
	asked.Reserve = nil
	wait := time.Duration(0)
	if in.HasReserve {
		if call.reserve, err = reserveRequest(ctx, &in.Reserve, q, "/reserve"); err != nil {
			return err
		}
		wait, call.reserve.Wait, call.reserve.Of = call.reserve.Wait, 0, c.Param("queue")
		asked.Reserve = &call.reserve
	}
	span := x.tracing.spanOf(c)
	x.tracing.settling(span, len(asked.Complete), func(i int) *queue.Token { return &asked.Complete[i].Token })
	x.tracing.settling(span, len(asked.Fail), func(i int) *queue.Token { return &asked.Fail[i].Token })
	if err = q.Exchange(ask, *asked, &call.done); err != nil {
		if !call.finished() {
			return err
		}
		// All of it is committed and only the reserve failed: the results are facts, and are sent.
		call.done.Reserve = nothingNow()
		wait = 0
	}
	call.reserve.Wait = wait
	traceSettled(span, call.done.Complete, call.done.Fail)
	call.response.Complete = appendResults(call.response.Complete[:0], call.done.Complete)
	brought.answer(c, call.response.Complete)
	call.response.Fail = appendResults(call.response.Fail[:0], call.done.Fail)
	call.response.Extend = appendResults(call.response.Extend[:0], call.done.Extend)
	return nil
}

// exchangeElsewhere says which nodes have to do an exchange; nil: this one does all of it. It refuses an invalid
// exchange before any node does a part.
func (x *consuming) exchangeElsewhere(c echo.Context, s *engine.Sharded, call *exchangeCall) error {
	asked := call.asked
	if asked.Reserve = nil; call.request.HasReserve {
		reserve, err := reserveRequest(c.Request().Context(), &call.request.Reserve, s, "/reserve")
		if err != nil {
			return err
		}
		asked.Reserve = &reserve
	}
	if err := s.Check(&asked); err != nil {
		return err
	}
	finish := engine.Finishing{Complete: asked.Complete, Fail: asked.Fail, Extend: asked.Extend}
	return x.nodes.finishing(c, s, &finish, func() []sharedList {
		complete := tokensOf(s, len(asked.Complete), func(i int) *queue.Token { return &asked.Complete[i].Token })
		fail := tokensOf(s, len(asked.Fail), func(i int) *queue.Token { return &asked.Fail[i].Token })
		extend := tokensOf(s, len(asked.Extend), func(i int) *queue.Token { return &asked.Extend[i].Token })
		return []sharedList{{"complete", "complete", complete}, {"fail", "fail", fail}, {"extend", "extend", extend}}
	})
}

// mayExchange refuses an exchange beyond the access token's restriction. It looks at all lists before anything is
// done: half of an exchange would be hard to repeat.
func (x *consuming) mayExchange(ctx context.Context, asked *engine.Exchange) error {
	if boundTo(ctx) == nil {
		return nil
	}
	err := mayFinish(ctx, x.engine, "/complete", len(asked.Complete),
		func(i int) *queue.Token { return &asked.Complete[i].Token })
	if err == nil {
		err = mayFinish(ctx, x.engine, "/fail", len(asked.Fail),
			func(i int) *queue.Token { return &asked.Fail[i].Token })
	}
	if err != nil {
		return err
	}
	return mayFinish(ctx, x.engine, "/extend", len(asked.Extend),
		func(i int) *queue.Token { return &asked.Extend[i].Token })
}

// finished says whether there was something to finish and every item has its result. With all three lists at their
// full length, only the reserve can have failed.
func (call *exchangeCall) finished() bool {
	asked, done := &call.asked, &call.done
	return len(done.Complete)+len(done.Fail)+len(done.Extend) > 0 &&
		len(done.Complete) == len(asked.Complete) && len(done.Fail) == len(asked.Fail) &&
		len(done.Extend) == len(asked.Extend)
}

// exchangeLater waits for work after all else is committed, holding no more than the
// results. Whatever happens while it waits, the results are answered: they are facts.
func (x *consuming) exchangeLater(c echo.Context, call *exchangeCall, ask *asking,
	q engine.Work) (*exchangeCall, engine.ReserveResult) {
	request := call.reserve
	response := wire.ExchangeResponse{
		Complete: slices.Clone(call.response.Complete),
		Fail:     slices.Clone(call.response.Fail),
		Extend:   slices.Clone(call.response.Extend),
	}
	x.freeExchange(call)
	result, err := x.park(c, q, ask, request)
	if err != nil {
		result = nothingNow()
	}
	return &exchangeCall{response: response, asked: engine.Exchange{Reserve: &request}, reserve: request}, result
}

// nothingNow is the answer to a reserve that failed beside results.
func nothingNow() engine.ReserveResult {
	return engine.ReserveResult{Reason: queue.Nothing, RetryAfter: stoppedRetry}
}
