package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

var lifecycleNames = []string{
	"insert_longest_hold", "insert_max", "cancel/*", "cancel_longest_hold/*", "cancel_insert_max/*", "cancel_swept/*",
	"insert_p99/*", "insert_longest/*", "expired", "reserve_10_p50/*", "due_insert_max/*", "due_longest_hold", "due_promoted",
}

// lifecycleScale is how much of everything the suite lets end, come due or be held.
type lifecycleScale struct {
	inserts int           // of one chunk each, to measure a plain insert
	chunks  uint32        // of the submissions that are cancelled
	held    []int         // reservations of them, a case each
	pause   time.Duration // between two inserts of the foreground

	backlog     int           // chunks, while some expire
	expiryEvery time.Duration // one of them
	lasting     time.Duration // of each side of that figure
	inFlight    int           // chunks
	reserves    int           // of ten chunks, on each side
	due         int           // chunks that come due at once
	dueIn       time.Duration // from when they begin to be failed
}

var fullLifecycle = lifecycleScale{
	inserts: 2000, chunks: 1_000_000, held: []int{0, 100_000, 1_000_000}, pause: time.Millisecond,
	backlog: 200_000, expiryEvery: 200 * time.Millisecond, lasting: 4 * time.Second, inFlight: 30_000, reserves: 4000,
	due: 50_000, dueIn: 4 * time.Second,
}

func lifecycleSuite(ctx context.Context, r *run) error {
	return lifecycleFigures(ctx, r, fullLifecycle)
}

func lifecycleFigures(ctx context.Context, r *run, scale lifecycleScale) error {
	for _, step := range []func(context.Context, *run, lifecycleScale) error{cancelFigures, expiryFigures, inFlightFigures, dueFigures} {
		if err := step(ctx, r, scale); err != nil {
			return err
		}
	}
	return nil
}

// longest keeps the longest of some times.
type longest struct{ ns atomic.Int64 }

func (l *longest) note(took time.Duration) {
	for was := l.ns.Load(); int64(took) > was; was = l.ns.Load() {
		if l.ns.CompareAndSwap(was, int64(took)) {
			return
		}
	}
}

// take returns the longest time since the last call.
func (l *longest) take() time.Duration { return time.Duration(l.ns.Swap(0)) }

// watched is an engine whose holds are measured.
type watched struct {
	*bed
	holds *longest
	next  int
}

func (r *run) openWatched(ctx context.Context, name string) (*watched, error) {
	m := &watched{holds: new(longest)}
	var err error
	m.bed, err = r.openOptions(ctx, name, engine.Options{Now: time.Now, Seed: rand.Uint64, Held: m.holds.note})
	return m, err
}

// insertOne inserts a submission of one chunk and says how long that took.
func (m *watched) insertOne(ctx context.Context) (time.Duration, error) {
	m.next++
	started := time.Now()
	_, _, err := m.q.Insert(ctx, submission(m.next, 1))
	return time.Since(started), err
}

// inserts are the sorted times of n of them, one after the other.
func (m *watched) inserts(ctx context.Context, n int, pause time.Duration) ([]time.Duration, error) {
	return m.beside(ctx, pause, func() bool {
		n--
		return n <= 0
	})
}

// beside inserts until `until` says so, and returns the sorted times.
func (m *watched) beside(ctx context.Context, pause time.Duration, until func() bool) (times []time.Duration, err error) {
	for first := true; first || !until(); first = false {
		took, err := m.insertOne(ctx)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
		time.Sleep(pause)
	}
	slices.Sort(times)
	return times, nil
}

// cancelFigures measures what the end of a large submission costs the caller, and every other client.
func cancelFigures(ctx context.Context, r *run, scale lifecycleScale) error {
	m, err := r.openWatched(ctx, "cancel")
	if err != nil {
		return err
	}
	defer m.close()
	r.progress("plain inserts")
	m.holds.take()
	plain, err := m.inserts(ctx, scale.inserts, scale.pause)
	if err != nil {
		return err
	}
	r.add("insert_longest_hold", micro(m.holds.take()), "us")
	r.add("insert_max", milli(plain[len(plain)-1]), "ms")
	for _, held := range scale.held {
		if err := m.cancelOne(ctx, r, scale, held); err != nil {
			return err
		}
	}
	return nil
}

// cancelOne cancels a submission of which some chunks are held, beside inserts.
func (m *watched) cancelOne(ctx context.Context, r *run, scale lifecycleScale, held int) error {
	r.progress(fmt.Sprintf("cancel of %d chunks, %d of them held", scale.chunks, held))
	large := submission(0, scale.chunks)
	large.Meta = queue.Meta{{Key: "large", Value: queue.IntValue(int64(held))}}
	sub, _, err := m.q.Insert(ctx, large)
	if err != nil {
		return err
	}
	if _, err := m.bed.hold(ctx, fmt.Sprintf(`SelectOnly("large", %d, OldestFirst)`, held), held); err != nil {
		return err
	}
	m.holds.take()
	started := time.Now()
	var replied, swept time.Duration
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, failed = m.q.Submissions.Cancel(ctx, sub.ID)
		replied = time.Since(started)
	}()
	times, err := m.beside(ctx, scale.pause, func() bool {
		select {
		case <-done:
		default:
			return false
		}
		return kindOf(m.q, "sweep").Pending == 0
	})
	swept = time.Since(started)
	<-done
	if err != nil || failed != nil {
		return fmt.Errorf("cancel beside inserts: %v, %v", failed, err)
	}
	name := fmt.Sprintf("/held_%d", held)
	r.add("cancel"+name, milli(replied), "ms")
	r.add("cancel_longest_hold"+name, micro(m.holds.take()), "us")
	r.over("insert_longest_hold")
	r.add("cancel_insert_max"+name, milli(times[len(times)-1]), "ms")
	r.over("insert_max")
	r.add("cancel_swept"+name, milli(swept), "ms")
	return nil
}

// everything is the strategy of the figures below.
const everything = "OldestFirst"

// expiryFigures measures inserts while reservations are abandoned, beside inserts while none is.
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

// inFlightFigures measures reserve(10) with nothing in flight and with much, in turns so that both see the same machine.
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

// dueFigures measures inserts while much comes due at once.
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
	waiting := func() uint64 { return w.q.Stats().Waiting }
	var idle []time.Duration
	at, dueIn := queue.At(time.Now()), scale.dueIn
	for waiting() != uint64(scale.due) { // on a slow machine they come due too early, so it gives itself more time
		if at, idle, err = w.putOff(ctx, scale, dueIn); err != nil {
			return err
		}
		dueIn *= 2
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

// putOff has chunks fail until a moment for all of them, and inserts until shortly before it. It returns the moment, and the sorted times
// of the inserts. Chunks of an earlier call come due first.
func (m *watched) putOff(ctx context.Context, scale lifecycleScale, dueIn time.Duration) (queue.Time, []time.Duration, error) {
	for m.q.Stats().Waiting > 0 {
		time.Sleep(time.Millisecond)
	}
	held, err := m.hold(ctx, everything, scale.due)
	if err != nil {
		return 0, nil, err
	}
	at := queue.At(time.Now().Add(dueIn))
	for batch := range slices.Chunk(held, queue.MaxBatch) {
		var items []queue.FailItem
		for i := range batch {
			items = append(items, queue.FailItem{Token: batch[i].Token, RetryAt: at})
		}
		if _, err := m.q.Fail(ctx, items, nil); err != nil {
			return 0, nil, err
		}
	}
	idle, err := m.insertsFor(ctx, time.Until(at.Std())-100*time.Millisecond, scale.pause)
	return at, idle, err
}
