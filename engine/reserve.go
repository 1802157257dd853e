package engine

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// ReserveRequest asks for up to Max chunks (1 to queue.MaxReserve) by a plan.
type ReserveRequest struct {
	Max      int
	Plan     *strategy.Plan
	Consumer string
	Context  queue.Meta    // what the consumer says of itself to plugins and scores, from queue.NewContext
	Wait     time.Duration // for the first chunk, 0 to queue.MaxWait
	Timeout  time.Duration // until the deadline; 0: the queue's
	Strategy string        // the name that the plan was asked for by; "": it has none
	Unusable []error       // of Asked; the result repeats it
	Limited  int           // how many saturated values a result without chunks names at most: 0 to queue.MaxLimited
}

// ReserveResult is the answer. Reason, RetryAfter and Limited are set when there are no reservations: RetryAfter 0 is
// "no idea", and Limited is for queue.AllLimited: as many as were asked for of the values that are in the way.
type ReserveResult struct {
	Reservations []queue.Reservation
	Reason       queue.EmptyReason
	RetryAfter   time.Duration
	Limited      []queue.Saturated
	Unusable     []error // why blocks of the strategy are not scored, also beside reservations: ReserveRequest.Unusable
}

// Reserve hands chunks to a consumer. The reservations are appended to dst.
func (q *Queue) Reserve(ctx context.Context, r ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	if err := validReserve(&r, q.config.Load()); err != nil {
		return ReserveResult{Reservations: dst}, err
	}
	return q.reserve(ctx, &r, dst)
}

func (q *Queue) reserve(ctx context.Context, r *ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	if q.many.Load() != nil {
		if err := countsInOne(r.Plan); err != nil {
			return ReserveResult{Reservations: dst}, err
		}
	}
	from, started := len(dst), q.e.options.Now()
	got, err := q.shard.Reserve(ctx, machine.Request{Plan: r.Plan, Max: r.Max, Consumer: r.Consumer, Context: r.Context,
		Timeout: r.Timeout, Wait: r.Wait, Limited: min(max(r.Limited, 0), queue.MaxLimited),
		Now: queue.At(started)}, dst)
	if err == nil {
		q.counts.reserve.Observe((q.e.options.Now().Sub(started) - got.Waited).Seconds())
		q.counts.strategies.add(r.Strategy, len(got.Reservations)-from)
		q.inUse.add(r.Plan, r.Consumer, len(got.Reservations)-from)
		if len(got.Reservations) == from {
			q.empty.count(got.Reason)
		}
	}
	return ReserveResult{Reservations: got.Reservations, Reason: got.Reason, RetryAfter: got.RetryAfter,
		Limited: got.Limited, Unusable: r.Unusable}, err
}
