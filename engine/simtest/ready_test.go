package simtest

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// A reservation says since when its chunk waited for this attempt: the insert, its run_at, the end of the back-off, or, without a
// back-off, the end of the attempt before.
//
//quern:overlapping
func TestReservationsSayHowLongTheyWaited(t *testing.T) {
	t.Parallel()
	s := relaxed()
	s.ExpiryBackoff = queue.Backoff{}
	b := openBox(t, s)
	wait := func(what string, want queue.Time) queue.Reservation {
		t.Helper()
		b.clock.pass(time.Minute)
		got := b.reserveAs("w", 1)
		if len(got) != 1 || got[0].Ready != want {
			t.Fatalf("%s: got %+v, want one that is ready since %d", what, got, want)
		}
		return got[0]
	}
	first := mustInsert(t, b, prefixed(1))
	held := wait("after the insert", first.ID.Time())
	if _, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held.Token, HasRetry: true, RetryAfter: 10_000}}, nil); err != nil {
		t.Fatal(err)
	}
	ended := b.clock.now()
	b.clock.pass(20 * time.Second)
	if err := b.shard.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	held = wait("after a back-off", ended.Add(10*time.Second))
	if _, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held.Token, HasRetry: true}}, nil); err != nil {
		t.Fatal(err)
	}
	wait("after an attempt without a back-off", b.clock.now())
}
