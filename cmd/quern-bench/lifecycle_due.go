package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// everything is the strategy of the figures below.
const everything = "OldestFirst"

// expiryFigures: what inserts cost while reservations are abandoned, beside inserts while none is.
func expiryFigures(ctx context.Context, r *run, scale lifecycleScale) error {
	w, err := r.openWatched(ctx, "expiries")
	if err != nil {
		return err
	}
	defer w.close()
	r.progress(fmt.Sprintf("%d chunks, one of them expiring every %s", scale.backlog, scale.expiryEvery))
	if err := w.load(ctx, scale.backlog/200, 200); err != nil {
		return err
	}
	plan, err := planOf(everything)
	if err != nil {
		return err
	}
	idle, err := w.insertsFor(ctx, scale.lasting, scale.pause)
	if err != nil {
		return err
	}
	abandoning, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(scale.expiryEvery)
		defer ticker.Stop()
		for {
			select {
			case <-abandoning.Done():
				done <- nil
				return
			case <-ticker.C:
				if _, err := w.q.Reserve(ctx,
					engine.ReserveRequest{Max: 1, Plan: plan, Timeout: queue.MinReservation}, nil); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	beside, err := w.insertsFor(ctx, scale.lasting, scale.pause)
	stop()
	if failed := <-done; err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	r.add("insert_p99/no_expiries", milli(quantile(idle, 0.99)), "ms")
	r.add("insert_p99/expiries", milli(quantile(beside, 0.99)), "ms")
	r.over("insert_p99/no_expiries")
	r.add("insert_longest/no_expiries", milli(idle[len(idle)-1]), "ms")
	r.add("insert_longest/expiries", milli(beside[len(beside)-1]), "ms")
	r.over("insert_longest/no_expiries")
	r.add("expired", float64(kindOf(w.q, "expiry").Done), "chunks")
	return nil
}

// kindOf is how one kind of the life-cycle worker's actions is doing.
func kindOf(q *engine.Queue, kind string) api.LifecycleKind {
	kinds := q.Lifecycle().Kinds
	return kinds[slices.IndexFunc(kinds, func(k api.LifecycleKind) bool { return k.Kind == kind })]
}

// insertsFor are the sorted times of inserts over a while.
func (w *watched) insertsFor(ctx context.Context, lasting, pause time.Duration) ([]time.Duration, error) {
	started := time.Now()
	return w.beside(ctx, pause, func() bool { return time.Since(started) >= lasting })
}

// inFlightFigures: what reserve(10) costs with nothing in flight and with much, in turns so that both see the same machine.
func inFlightFigures(ctx context.Context, r *run, scale lifecycleScale) error {
	r.progress(fmt.Sprintf("reserve(10) beside %d chunks in flight", scale.inFlight))
	var beds [2]*watched
	for i, name := range []string{"none", "much"} {
		w, err := r.openWatched(ctx, name)
		if err != nil {
			return err
		}
		defer w.close()
		if err := w.load(ctx, 1+2*scale.inFlight/200, 200); err != nil {
			return err
		}
		beds[i] = w
	}
	if _, err := beds[1].hold(ctx, everything, scale.inFlight); err != nil {
		return err
	}
	plan, err := planOf(everything)
	if err != nil {
		return err
	}
	var times [2][]time.Duration
	for n := range scale.reserves + scale.reserves/10 {
		for i, w := range beds {
			started := time.Now()
			got, err := w.q.Reserve(ctx, engine.ReserveRequest{Max: 10, Plan: plan}, nil)
			took := time.Since(started)
			if err != nil {
				return err
			}
			if n >= scale.reserves/10 { // the first ones warm up
				times[i] = append(times[i], took)
			}
			var back []queue.ReleaseItem
			for j := range got.Reservations {
				back = append(back, queue.ReleaseItem{Token: got.Reservations[j].Token})
			}
			if err := w.giveBack(ctx, back); err != nil {
				return err
			}
		}
	}
	for i, name := range []string{"none", "much"} {
		slices.Sort(times[i])
		r.add("reserve_10_p50/"+name+"_in_flight", micro(quantile(times[i], 0.5)), "us")
	}
	r.over("reserve_10_p50/none_in_flight")
	return nil
}

// dueFigures: what inserts cost while much comes due at once.
func dueFigures(ctx context.Context, r *run, scale lifecycleScale) error {
	w, err := r.openWatched(ctx, "due")
	if err != nil {
		return err
	}
	defer w.close()
	r.progress(fmt.Sprintf("%d chunks due at once", scale.due))
	if _, _, err := w.q.Insert(ctx, submission(0, uint32(scale.due))); err != nil {
		return err
	}
	held, err := w.hold(ctx, everything, scale.due)
	if err != nil {
		return err
	}
	at := queue.At(time.Now().Add(scale.dueIn))
	for batch := range slices.Chunk(held, queue.MaxBatch) {
		var items []queue.FailItem
		for i := range batch {
			items = append(items, queue.FailItem{Token: batch[i].Token, HasRetry: true, RetryAfter: at - queue.At(time.Now())})
		}
		if _, err := w.q.Fail(ctx, items, nil); err != nil {
			return err
		}
	}
	idle, err := w.insertsFor(ctx, time.Until(at.Std())-100*time.Millisecond, scale.pause)
	if err != nil {
		return err
	}
	waiting := func() uint64 { return w.q.Stats().Waiting }
	if n := waiting(); n != uint64(scale.due) {
		return fmt.Errorf("of %d chunks only %d still wait: this machine is too slow for the figure", scale.due, n)
	}
	time.Sleep(time.Until(at.Std()))
	w.holds.take()
	started := time.Now()
	beside, err := w.beside(ctx, 0, func() bool { return waiting() == 0 })
	if err != nil {
		return err
	}
	took := time.Since(started)
	r.add("due_insert_max/idle", milli(idle[len(idle)-1]), "ms")
	r.add("due_insert_max/promoting", milli(beside[len(beside)-1]), "ms")
	r.over("due_insert_max/idle")
	r.add("due_longest_hold", micro(w.holds.take()), "us")
	r.add("due_promoted", milli(took), "ms")
	return nil
}
