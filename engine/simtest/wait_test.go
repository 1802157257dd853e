package simtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/submissions"
)

// waiter is a reserve call that waits in its own goroutine.
type waiter struct {
	got    machine.Reserved
	err    error
	done   atomic.Bool // got and err are there
	cancel context.CancelFunc
}

func (w *waiter) String() string {
	if !w.done.Load() {
		return "still waiting"
	}
	return fmt.Sprintf("%d chunks, reason %q, %v", len(w.got.Reservations), w.got.Reason, w.err)
}

func (w *waiter) served(chunks int) bool {
	return w.done.Load() && w.err == nil && len(w.got.Reservations) == chunks
}

// await starts a waiter and returns when it is parked, or answered.
func await(t *testing.T, b *box, text string, most int) *waiter {
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiter{cancel: cancel}
	q := machine.Request{Plan: plan(t, text), Max: most, Timeout: time.Hour, Wait: time.Minute}
	go func() {
		w.got, w.err = b.shard.Reserve(ctx, q, nil)
		w.done.Store(true)
	}()
	synctest.Wait()
	return w
}

// inBubble runs a test with a shard in a bubble, where synctest tells when everybody waits.
func inBubble(t *testing.T, settings queue.Settings, f func(t *testing.T, b *box)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, settings)
		b.open()
		f(t, b)
		synctest.Wait()
		if n := b.shard.Stats().ConsumersWaiting; n != 0 {
			t.Errorf("%d consumers are said to wait after all were answered", n)
		}
		b.close()
	})
}

// waitEnd waits for the end of a submission, and reads it.
func waitEnd(ctx context.Context, b *box, id queue.SubmissionID) (queue.Submission, error) {
	w := submissions.NewWatch(1)
	b.shard.Submissions.Watch(w, id)
	defer b.shard.Submissions.Unwatch(w, id)
	if err := w.Wait(ctx, time.Hour); err != nil {
		return queue.Submission{}, err
	}
	return b.shard.Submissions.Get(ctx, id)
}

// A caller that stops waiting for the end of a submission takes nothing from the other callers that wait for it.
//
//quern:overlapping
func TestWaitsForAnEndAreApart(t *testing.T) {
	inBubble(t, relaxed(), func(t *testing.T, b *box) {
		sub := mustInsert(t, b, prefixed(1))
		type wait struct {
			sub  queue.Submission
			err  error
			done bool
		}
		begin := func(ctx context.Context) *wait {
			w := &wait{}
			go func() {
				w.sub, w.err = waitEnd(ctx, b, sub.ID)
				w.done = true
			}()
			synctest.Wait()
			return w
		}
		staying, stop := context.WithCancel(ctx)
		defer stop()
		leaving, leave := context.WithCancel(ctx)
		first, leaves, last := begin(staying), begin(leaving), begin(staying)
		leave()
		synctest.Wait()
		if !leaves.done || !errors.Is(leaves.err, context.Canceled) || first.done || last.done {
			t.Errorf("one of three left: got %+v, %+v, %+v; want the second to end as cancelled", *first, *leaves, *last)
		}
		if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // no time passes: the waits do not just run out
		for _, w := range []*wait{first, last} {
			if !w.done || w.err != nil || w.sub.State != queue.Cancelled {
				t.Errorf("the submission is cancelled: got %+v, want the wait told so", *w)
			}
		}
	})
}

// Everything that makes a chunk available serves a waiting caller.
//
//quern:overlapping
func TestWaiterIsServed(t *testing.T) {
	t.Parallel()
	withRetry := relaxed()
	withRetry.MaxExpiries = 9
	withRetry.ExpiryBackoff = queue.Backoff{Base: time.Minute, Factor: 1, Cap: time.Minute}
	withRetry.RetryBackoff = withRetry.ExpiryBackoff
	atOnce := relaxed()
	atOnce.ExpiryBackoff = queue.Backoff{}
	tail := atOnce
	tail.Requeue = queue.Tail
	hold := func(t *testing.T, b *box) []queue.Reservation {
		mustInsert(t, b, prefixed(1))
		return mustReserve(t, b, "Random", 1)
	}
	for _, test := range []struct {
		name     string
		settings queue.Settings
		prepare  func(t *testing.T, b *box) []queue.Reservation
		text     string
		serve    func(t *testing.T, b *box, held []queue.Reservation)
	}{
		{"insert", relaxed(), nil, "Random", func(t *testing.T, b *box, _ []queue.Reservation) { mustInsert(t, b, prefixed(1)) }},
		{"release", relaxed(), hold, "OldestFirst", func(t *testing.T, b *box, held []queue.Reservation) {
			if _, err := b.shard.Release(ctx, []queue.ReleaseItem{{Token: held[0].Token}}, nil); err != nil {
				t.Error(err)
			}
		}},
		{"fail", relaxed(), hold, "NewestFirst", func(t *testing.T, b *box, held []queue.Reservation) {
			if _, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[0].Token}}, nil); err != nil {
				t.Error(err)
			}
		}},
		{"expiry", atOnce, hold, "CustomPriority", func(_ *testing.T, b *box, _ []queue.Reservation) { tickAfter(b, 2*time.Hour) }},
		{"retry due", withRetry, hold, "Random", func(t *testing.T, b *box, held []queue.Reservation) {
			if _, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[0].Token, HasRetry: true, RetryAfter: 1000}}, nil); err != nil {
				t.Error(err)
			}
			tickAfter(b, time.Second)
		}},
		{"expiry and its back-off", withRetry, hold, "Random", func(_ *testing.T, b *box, _ []queue.Reservation) {
			tickAfter(b, 2*time.Hour)
			tickAfter(b, time.Minute+time.Millisecond)
		}},
		{"run_at due", relaxed(), func(t *testing.T, b *box) []queue.Reservation {
			n := prefixed(1)
			n.RunAt = b.clock.now() + 5000
			mustInsert(t, b, n)
			return nil
		}, "Random", func(_ *testing.T, b *box, _ []queue.Reservation) { tickAfter(b, 5*time.Second) }},
		{"limit opens by complete", relaxed(), func(t *testing.T, b *box) []queue.Reservation {
			mustInsert(t, b, prefixed(2, number("a", 1)))
			return mustReserve(t, b, "Random", 1)
		}, `MaxSimultaneous("a", 1, Random)`, func(t *testing.T, b *box, held []queue.Reservation) {
			if _, err := b.shard.Complete(ctx, completions(held), nil); err != nil {
				t.Error(err)
			}
		}},
		{"limit opens by cancel", relaxed(), func(t *testing.T, b *box) []queue.Reservation {
			sub := mustInsert(t, b, prefixed(1, number("a", 1)))
			held := mustReserve(t, b, "Random", 1)
			held[0].Token.Submission = sub.ID
			mustInsert(t, b, prefixed(1, number("a", 1)))
			return held
		}, `MaxSimultaneous("a", 1, OldestFirst)`, func(t *testing.T, b *box, held []queue.Reservation) {
			if _, err := b.shard.Submissions.Cancel(ctx, held[0].Token.Submission); err != nil {
				t.Error(err)
			}
		}},
		{"cancel of the work before a suspect", tail, func(t *testing.T, b *box) []queue.Reservation {
			before := mustInsert(t, b, prefixed(1, number("a", 2)))
			mustInsert(t, b, prefixed(1, number("a", 1)))
			held := mustReserve(t, b, `SelectOnly("a", 1, Random)`, 1)
			tickAfter(b, 2*time.Hour)
			held[0].Token.Submission = before.ID
			return held
		}, `SelectOnly("a", 1, Random)`, func(t *testing.T, b *box, held []queue.Reservation) {
			if _, err := b.shard.Submissions.Cancel(ctx, held[0].Token.Submission); err != nil {
				t.Error(err)
			}
		}},
		{"the second of two alternatives", relaxed(), nil, `OrElse(SelectOnly("a", 1, Random), SelectOnly("a", 2, Random))`,
			func(t *testing.T, b *box, _ []queue.Reservation) { mustInsert(t, b, prefixed(1, number("a", 2))) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, test.settings, func(t *testing.T, b *box) {
				var held []queue.Reservation
				if test.prepare != nil {
					held = test.prepare(t, b)
				}
				w := await(t, b, test.text, 5)
				if w.done.Load() {
					t.Fatalf("before there is anything: %v", w)
				}
				test.serve(t, b, held)
				synctest.Wait()
				if !w.served(1) {
					t.Errorf("got %v, want one chunk", w)
				}
				w.cancel()
			})
		})
	}
}

func tickAfter(b *box, d time.Duration) {
	b.clock.pass(d)
	b.shard.Worker.Tick()
	synctest.Wait()
}

// Work serves the waiters in the order of their coming, each with as much as it asked for, and no one is woken for nothing.
func TestOnlyThoseAreServedWhoCanBe(t *testing.T) {
	inBubble(t, relaxed(), func(t *testing.T, b *box) {
		var waiters []*waiter
		for range 5 {
			waiters = append(waiters, await(t, b, "Random", 2))
		}
		other := await(t, b, `SelectOnly("a", 7, Random)`, 1)
		if n := b.shard.Stats().ConsumersWaiting; n != 6 {
			t.Errorf("%d consumers are said to wait, want 6", n)
		}
		mustInsert(t, b, prefixed(5))
		synctest.Wait()
		for i, want := range []int{2, 2, 1} {
			if !waiters[i].served(want) {
				t.Errorf("waiter %d: got %v, want %d chunks", i, waiters[i], want)
			}
		}
		for i, w := range append(waiters[3:], other) {
			if w.done.Load() {
				t.Errorf("waiter %d was woken: %v; there is nothing for it", i+3, w)
			}
		}
		if n := b.shard.Stats().ConsumersWaiting; n != 3 {
			t.Errorf("%d consumers are said to wait, want 3", n)
		}
		mustInsert(t, b, prefixed(1, number("a", 7)))
		synctest.Wait()
		if first, second := waiters[3].served(1), other.served(1); first == second {
			t.Errorf("one chunk, and two who may have it: %v and %v", waiters[3], other)
		}
		for _, w := range append(waiters, other) {
			w.cancel()
		}
	})
}

// A wait ends after its time, with the reason, and holds nothing.
//
//quern:overlapping
func TestWaitEnds(t *testing.T) {
	inBubble(t, relaxed(), func(t *testing.T, b *box) {
		n := prefixed(1)
		n.RunAt = b.clock.now() + 3_600_000
		mustInsert(t, b, n)
		w := await(t, b, "Random", 1)
		time.Sleep(61 * time.Second) // of the bubble's time
		synctest.Wait()
		if !w.done.Load() || w.err != nil || w.got.Reason != queue.NotYetDue || w.got.RetryAfter != time.Hour {
			t.Errorf("after its time: %v, retry after %s, want not_yet_due and 1h", w, w.got.RetryAfter)
		}
		tickAfter(b, time.Hour)
		if stats := b.shard.Stats(); stats.Ready != 1 || stats.Reserved != 0 {
			t.Errorf("after a wait without success: %+v, want the chunk ready", stats)
		}
	})
}

// A consumer that goes away while it waits takes nothing with it; a chunk that it was handed at the last moment goes to the next consumer.
//
//quern:overlapping
func TestWaiterGoesAway(t *testing.T) {
	inBubble(t, relaxed(), func(t *testing.T, b *box) {
		gone, next := await(t, b, "Random", 1), await(t, b, "Random", 1)
		gone.cancel()
		synctest.Wait()
		if !errors.Is(gone.err, context.Canceled) {
			t.Errorf("a cancelled wait: got %v, want %v", gone, context.Canceled)
		}
		mustInsert(t, b, prefixed(1))
		synctest.Wait()
		if !next.served(1) {
			t.Errorf("the one behind it: got %v, want one chunk", next)
		}
	})
}

// The same when both happen at once: the chunk is with a caller that knows it, or ready.
//
//quern:overlapping
func TestWaiterGoesAwayWhileServed(t *testing.T) {
	t.Parallel()
	for round := range 50 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			inBubble(t, relaxed(), func(t *testing.T, b *box) {
				first, second := await(t, b, "Random", 1), await(t, b, "OldestFirst", 1)
				go first.cancel()
				go b.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1}})
				synctest.Wait()
				if !first.done.Load() {
					t.Fatalf("a cancelled wait: %v", first)
				}
				if first.served(1) == second.served(1) {
					t.Errorf("one chunk: the cancelled one got %v, the other %v", first, second)
				}
				if stats := b.shard.Stats(); stats.Reserved != 1 || stats.Ready != 0 {
					t.Errorf("%+v, want one chunk reserved", stats)
				}
				second.cancel()
			})
		})
	}
}

// Closing answers everybody who waits.
//
//quern:overlapping
func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, relaxed())
		b.open()
		w := await(t, b, "Random", 1)
		b.close()
		synctest.Wait()
		if !w.done.Load() || queue.CodeOf(w.err) != queue.CodeUnavailable {
			t.Errorf("after the close: %v, want %s", w, queue.CodeUnavailable)
		}
	})
}

// A consumer that waits for work goes on waiting through a reload after a failed commit, and gets a chunk that the journal turns out to
// have.
//
//quern:overlapping
func TestReloadKeepsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(faults)
		b := newBox(t, relaxed())
		b.wrap = f.wrap
		b.open()
		w := await(t, b, "Random", 1)
		f.arm(unknownWritten, 0)
		if _, _, err := b.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1}}); queue.CodeOf(err) != queue.CodeCommitFailed {
			t.Errorf("insert: got %v, want %s", err, queue.CodeCommitFailed)
		}
		synctest.Wait()
		if !w.served(1) {
			t.Errorf("after the reload: %v, want the chunk", w)
		}
		b.close()
	})
}

// A watch over several submissions is over when as many of them ended as it waits for; a submission that has ended already, or never
// existed, counts at once.
func TestWatchCountsEnds(t *testing.T) {
	inBubble(t, relaxed(), func(t *testing.T, b *box) {
		face := b.shard.Submissions
		var ids []queue.SubmissionID
		for range 3 {
			ids = append(ids, mustInsert(t, b, prefixed(1)).ID)
		}
		one, two := submissions.NewWatch(1), submissions.NewWatch(2)
		face.Watch(one, ids...)
		face.Watch(two, ids...)
		over := func(w *submissions.Watch) bool { // no time passes: a watch that is not over cannot return without an error
			left, leave := context.WithCancel(ctx)
			leave()
			for range 64 { // a select takes any ready case
				if w.Wait(left, time.Hour) == nil {
					return true
				}
			}
			return false
		}
		for n, want := range []struct{ one, two bool }{{false, false}, {true, false}, {true, true}} {
			if n > 0 {
				if _, err := face.Cancel(ctx, ids[n]); err != nil {
					t.Fatal(err)
				}
			}
			if over(one) != want.one || over(two) != want.two {
				t.Errorf("%d ended: a watch for one is over: %t, one for two: %t; want %+v", n, over(one), over(two), want)
			}
		}
		face.Unwatch(one, ids...)
		face.Unwatch(two, ids...)
		late := submissions.NewWatch(3)
		face.Watch(late, ids[1], ids[2], 7)
		if !over(late) {
			t.Error("two that ended and one that never was do not count at once")
		}
	})
}
