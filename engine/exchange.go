package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
)

// Exchange is a whole cycle of a consumer in one call: what it finished, what it still works on, and its next chunks.
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

// Exchange finishes first, waits for the commit, and then reserves: what it finished no longer counts against limits.
// Everything is checked before anything is done. On an error after the commit the finished part of out is filled.
func (q *Queue) Exchange(ctx context.Context, x Exchange, out *Exchanged) (err error) {
	out.Complete, out.Fail, out.Extend = out.Complete[:0], out.Fail[:0], out.Extend[:0]
	out.Reserve = ReserveResult{Reservations: out.Reserve.Reservations[:0]}
	if err := x.check(q.config.Load(), queue.At(q.e.options.Now())); err != nil {
		return err
	}
	if len(x.Complete) > 0 {
		if out.Complete, err = q.shard.Complete(ctx, x.Complete, out.Complete); err != nil {
			return err
		}
	}
	if len(x.Fail) > 0 {
		if out.Fail, err = q.shard.Fail(ctx, x.Fail, out.Fail); err != nil {
			return err
		}
	}
	if len(x.Extend) > 0 {
		if out.Extend, err = q.shard.Extend(ctx, x.Extend, out.Extend); err != nil {
			return err
		}
	}
	if x.Reserve == nil {
		return nil
	}
	out.Reserve, err = q.reserve(ctx, x.Reserve, out.Reserve.Reservations)
	return err
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
