package web

import (
	"context"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// exchangeCall is the memory of one exchange, kept for the next.
type exchangeCall struct {
	request  wire.ExchangeRequest
	asked    engine.Exchange
	reserve  engine.ReserveRequest // what asked.Reserve points at
	done     engine.Exchanged
	response wire.ExchangeResponse
	scratch  []byte
	asking   asking
}

// exchange is POST .../reservations/exchange: finish, commit, then reserve, in one round trip.
func (s consuming) exchange(c echo.Context) error {
	body, err := s.hotBody(c, maxFinishBytes)
	if err != nil {
		return err
	}
	q, err := s.engine.Queue(c.Param("queue"))
	if err != nil {
		s.freeBody(body)
		return err
	}
	call := s.pools.exchangeCall()
	ask := &call.asking
	defer func() {
		ask.done()
		s.pools.freeExchange(call)
	}()
	if err = s.exchangeNow(c, call, body, q); err != nil {
		return err
	}
	result := call.done.Reserve
	if call.asked.Reserve != nil && len(result.Reservations) == 0 && call.reserve.Wait > 0 {
		ask.done()
		ask = &asking{Context: c.Request().Context(), server: s.Server, request: c.Request()}
		call, result = s.exchangeLater(c, call, ask, q)
	}
	settled := len(call.response.Complete)+len(call.response.Fail) > 0
	if call.asked.Reserve != nil {
		s.traceReserved(c, &call.reserve, &result, settled)
	} else if !settled {
		s.untraced(c) // only deadlines were moved
	}
	call.scratch = fillReservations(&call.response.ReserveResponse, call.scratch[:0], result)
	out := s.pools.buffer()
	defer s.pools.free(out)
	out.b = call.response.Append(out.b[:0])
	sayDurability(c, q)
	err = s.handOver(c, q, ask, &call.response.ReserveResponse, result.Reservations, out.b)
	if queue.CodeOf(err) == queue.CodeOverloaded && len(call.response.Complete)+len(call.response.Fail)+len(call.response.Extend) > 0 {
		// There is no room for what was reserved. The results are facts, and are sent.
		call.scratch = fillReservations(&call.response.ReserveResponse, call.scratch[:0], nothingNow())
		out.b = call.response.Append(out.b[:0])
		return s.writeJSON(c, 200, out.b)
	}
	return err
}

// exchangeNow decodes and does all that need not wait. It gives the body back: only outputs and errors pointed into it,
// and they are committed when the engine returns.
func (s consuming) exchangeNow(c echo.Context, call *exchangeCall, body *buffer, q *engine.Queue) error {
	defer s.freeBody(body)
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
	if err := s.mayExchange(ctx, asked); err != nil {
		return err
	}
	asked.Reserve = nil
	wait := time.Duration(0)
	if in.HasReserve {
		if call.reserve, err = reserveRequest(ctx, &in.Reserve, q, "/reserve"); err != nil {
			return err
		}
		wait, call.reserve.Wait = call.reserve.Wait, 0
		asked.Reserve = &call.reserve
	}
	span := s.spanOf(c)
	s.traceSettling(span, len(asked.Complete), func(i int) *queue.Token { return &asked.Complete[i].Token })
	s.traceSettling(span, len(asked.Fail), func(i int) *queue.Token { return &asked.Fail[i].Token })
	call.asking = asking{Context: ctx, server: s.Server, request: c.Request()}
	if err = q.Exchange(&call.asking, *asked, &call.done); err != nil {
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
	call.response.Fail = appendResults(call.response.Fail[:0], call.done.Fail)
	call.response.Extend = appendResults(call.response.Extend[:0], call.done.Extend)
	return nil
}

// mayExchange refuses what is beyond what the access token is bound to.
func (s consuming) mayExchange(ctx context.Context, x *engine.Exchange) error {
	if boundTo(ctx) == nil {
		return nil
	}
	if err := s.mayFinish(ctx, "/complete", len(x.Complete), func(i int) *queue.Token { return &x.Complete[i].Token }); err != nil {
		return err
	}
	if err := s.mayFinish(ctx, "/fail", len(x.Fail), func(i int) *queue.Token { return &x.Fail[i].Token }); err != nil {
		return err
	}
	return s.mayFinish(ctx, "/extend", len(x.Extend), func(i int) *queue.Token { return &x.Extend[i].Token })
}

// finished says whether there was something to finish and every item has its result.
func (call *exchangeCall) finished() bool {
	asked, done := &call.asked, &call.done
	return len(done.Complete)+len(done.Fail)+len(done.Extend) > 0 &&
		len(done.Complete) == len(asked.Complete) && len(done.Fail) == len(asked.Fail) && len(done.Extend) == len(asked.Extend)
}

// exchangeLater waits for work after all else is committed, holding no more than the results. Whatever happens while it
// waits, the results are answered: they are facts.
func (s consuming) exchangeLater(c echo.Context, call *exchangeCall, ask *asking, q *engine.Queue) (*exchangeCall, engine.ReserveResult) {
	request := call.reserve
	response := wire.ExchangeResponse{
		Complete: slices.Clone(call.response.Complete),
		Fail:     slices.Clone(call.response.Fail),
		Extend:   slices.Clone(call.response.Extend),
	}
	s.pools.freeExchange(call)
	result, err := s.park(c, q, ask, request)
	if err != nil {
		result = nothingNow()
	}
	return &exchangeCall{response: response, asked: engine.Exchange{Reserve: &request}, reserve: request}, result
}

// nothingNow is the answer to a reserve that failed beside results.
func nothingNow() engine.ReserveResult {
	return engine.ReserveResult{Reason: queue.Nothing, RetryAfter: stoppedRetry}
}
