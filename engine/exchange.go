package engine

import (
	"context"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Exchange is a whole cycle of a consumer in one call: results of finished chunks, extensions of those it still works on, and its next
// chunks.
type Exchange struct {
	Complete []queue.CompleteItem
	Fail     []queue.FailItem
	Extend   []queue.ExtendItem
	Reserve  *ReserveRequest // nil: nothing
}

// Exchanged is the answer. Its slices are reused when it is passed in again.
type Exchanged struct {
	Complete, Fail, Extend []queue.Result
	Reserve                ReserveResult
}

// Exchange finishes first, waits for the commit, and then reserves, so that finished chunks no longer count against limits. Everything is
// checked before anything is done. On an error after the commit the finished part of out is filled.
func (q *Queue) Exchange(ctx context.Context, x Exchange, out *Exchanged) error {
	return exchange(ctx, q, q.config.Load(), queue.At(q.e.options.Now()), x, out)
}

// exchanging has the calls of an exchange to a queue, after everything is checked.
type exchanging interface {
	complete(ctx context.Context, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error)
	fail(ctx context.Context, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error)
	extend(ctx context.Context, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error)
	reserve(ctx context.Context, r *ReserveRequest, dst []queue.Reservation) (ReserveResult, error)
}

// exchange is Exchange of a queue that has these settings.
func exchange(ctx context.Context, with exchanging, settings *queue.Settings, now queue.Time, x Exchange,
	out *Exchanged) (err error) {
	out.Complete, out.Fail, out.Extend = out.Complete[:0], out.Fail[:0], out.Extend[:0]
	out.Reserve = ReserveResult{Reservations: out.Reserve.Reservations[:0]}
	if err := x.check(settings, now); err != nil {
		return err
	}
	if len(x.Complete) > 0 {
		if out.Complete, err = with.complete(ctx, x.Complete, out.Complete); err != nil {
			out.Complete = out.Complete[:0] // no one may take them for facts
			return below("/complete", err)
		}
	}
	if len(x.Fail) > 0 {
		if out.Fail, err = with.fail(ctx, x.Fail, out.Fail); err != nil {
			out.Fail = out.Fail[:0]
			return err
		}
	}
	if len(x.Extend) > 0 {
		if out.Extend, err = with.extend(ctx, x.Extend, out.Extend); err != nil {
			out.Extend = out.Extend[:0]
			return err
		}
	}
	if x.Reserve == nil {
		return nil
	}
	out.Reserve, err = with.reserve(ctx, x.Reserve, out.Reserve.Reservations)
	return err
}

func (q *Queue) fail(ctx context.Context, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error) {
	return q.shard.Fail(ctx, items, dst)
}

func (q *Queue) extend(ctx context.Context, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error) {
	return q.shard.Extend(ctx, items, dst)
}

func (x *Exchange) check(settings *queue.Settings, now queue.Time) error {
	if err := below("/complete", validCompletes(x.Complete)); err != nil {
		return err
	}
	if err := below("/fail", validFails(x.Fail, now)); err != nil {
		return err
	}
	if err := below("/extend", validExtends(x.Extend)); err != nil {
		return err
	}
	if x.Reserve == nil {
		return nil
	}
	return below("/reserve", validReserve(x.Reserve, settings))
}

// below makes the pointers of an error about a part of a request relative to the request: "/items/3" under "/complete" becomes
// "/complete/3", and any other pointer is appended.
func below(part string, err error) error {
	return queue.Repointed(err, func(pointer string) string { return part + strings.TrimPrefix(pointer, "/items") })
}

// Complete finishes chunks. One result per item is appended to dst, in order; it is durable when Complete returns.
func (q *Queue) Complete(ctx context.Context, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validCompletes(items); err != nil {
		return dst, err
	}
	return q.complete(ctx, items, dst)
}

// complete counts the submissions that completions insert for the caller's access token, as inserts do.
func (q *Queue) complete(ctx context.Context, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error) {
	from, share, many := len(dst), insertShare{}, q.many.Load()
	for i := range items {
		if many != nil && len(items[i].Insert) > 0 {
			if err := many.brought(q, i, items[i].Insert); err != nil {
				return dst, err
			}
		}
		if err := q.fitBrought(i, items[i].Insert); err != nil {
			return dst, err
		}
		for n := range items[i].Insert {
			if share.e == nil {
				share = shareOf(ctx, q)
			}
			q.takeShare(ctx, &share, &items[i].Insert[n])
		}
	}
	dst, err := q.shard.Complete(ctx, items, dst)
	for i := range items {
		if err == nil && share.e != nil && dst[from+i].Outcome == queue.OutcomeOK {
			share.add(items[i].Insert)
		}
	}
	return dst, err
}

// Fail reports tries that did not succeed. One result per item is appended to dst, in order.
func (q *Queue) Fail(ctx context.Context, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validFails(items, queue.At(q.e.options.Now())); err != nil {
		return dst, err
	}
	return q.shard.Fail(ctx, items, dst)
}

// Extend moves deadlines. After a restart it also takes back a chunk that no other consumer holds. One result per item is appended to dst,
// in order.
func (q *Queue) Extend(ctx context.Context, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validExtends(items); err != nil {
		return dst, err
	}
	return q.shard.Extend(ctx, items, dst)
}

// Release gives chunks back unworked, at once or after a delay. One result per item is appended to dst, in order.
func (q *Queue) Release(ctx context.Context, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validReleases(items); err != nil {
		return dst, err
	}
	return q.shard.Release(ctx, items, dst)
}

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
	Of       string        // the queue as the caller named it, such as "orders" for all shards or "orders~1" for the first
}

// ReserveResult is the answer. Reason, RetryAfter and Limited are set when there are no reservations: RetryAfter 0 is "no idea", and
// Limited, for queue.AllLimited, has the saturated values, as many as were asked for.
type ReserveResult struct {
	Reservations []queue.Reservation
	Reason       queue.EmptyReason
	RetryAfter   time.Duration
	Limited      []queue.Saturated
	Unusable     []error // why blocks of the strategy are not scored, also beside reservations: ReserveRequest.Unusable
}

// manyNow is the queue that q is the first shard of, after a change of the number of shards that may be under way.
func (q *Queue) manyNow() *Sharded {
	q.splitting.RLock()
	defer q.splitting.RUnlock()
	return q.many.Load()
}

// Reserve hands chunks to a consumer. The reservations are appended to dst.
func (q *Queue) Reserve(ctx context.Context, r ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	if err := validReserve(&r, q.config.Load()); err != nil {
		return ReserveResult{Reservations: dst}, err
	}
	return q.reserve(ctx, &r, dst)
}

func (q *Queue) reserve(ctx context.Context, r *ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	many := q.many.Load()
	switch {
	case many != nil && r.Of == many.name: // the queue got more shards after the call found it
		return many.reserve(ctx, r, dst)
	case many != nil:
		if err := countsInOne(r.Plan, false); err != nil {
			return ReserveResult{Reservations: dst}, err
		}
	}
	from, started := len(dst), q.e.options.Now()
	request := machine.Request{Plan: r.Plan, Max: r.Max, Consumer: r.Consumer, Context: r.Context, Timeout: r.Timeout, Wait: r.Wait,
		Limited: min(max(r.Limited, 0), queue.MaxLimited), Came: started, Whole: many == nil}
	got, err := q.shard.Reserve(ctx, request, dst)
	if err == shard.ErrMoreShards {
		if many = q.manyNow(); many != nil {
			rest := *r
			rest.Wait = max(0, r.Wait-q.e.options.Now().Sub(started))
			return many.reserve(ctx, &rest, dst)
		}
		request.Whole = false // the setting came through and its call failed: the other shards have nothing yet
		got, err = q.shard.Reserve(ctx, request, dst)
	}
	if err == nil {
		q.counts.reserve.Observe((q.e.options.Now().Sub(started) - got.Waited).Seconds(), 1)
		q.counts.strategies.add(r.Strategy, len(got.Reservations)-from)
		q.inUse.Add(r.Plan, r.Consumer, len(got.Reservations)-from)
		if len(got.Reservations) == from {
			q.empty.count(got.Reason)
		}
	}
	return ReserveResult{Reservations: got.Reservations, Reason: got.Reason, RetryAfter: got.RetryAfter,
		Limited: got.Limited, Unusable: r.Unusable}, err
}
