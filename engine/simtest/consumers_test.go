package simtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

func (b *box) reserveAs(name string, most int) []queue.Reservation {
	b.t.Helper()
	got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(b.t, "OldestFirst"), Max: most, Consumer: name, Timeout: 20 * time.Hour}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return got.Reservations
}

// An order for a consumer that is not attached is kept while it is heard of, and for an hour after.
func TestOrdersAreForgotten(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	mustInsert(t, b, prefixed(5))
	held := b.reserveAs("w", 1)
	if _, err := b.shard.Consumers.Order("w", queue.Drain); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(50 * time.Minute)
	if _, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: held[0].Token}}, nil); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(59 * time.Minute)
	b.shard.Tidy()
	if got := b.reserveAs("w", 1); len(got) != 0 {
		t.Error("the order is forgotten though its consumer was heard of within the hour")
	}
	b.clock.pass(2 * time.Minute)
	b.shard.Tidy()
	if got := b.reserveAs("w", 1); len(got) != 1 {
		t.Error("the order is kept for a consumer that was not heard of for an hour")
	}
}

// A consumer that holds much is lost in slices: no hold of the mutex ends more than a slice, all of it goes, and the counts fit.
func TestLosingMuch(t *testing.T) {
	t.Parallel()
	s := relaxed()
	s.ConsumerGrace, s.ExpiryBackoff = 0, queue.Backoff{}
	b := openBox(t, s)
	const n = 5000
	sub := mustInsert(t, b, prefixed(2*n))
	a, err := b.shard.Consumers.Attach("much", "")
	if err != nil {
		t.Fatal(err)
	}
	for range n / 1000 {
		b.reserveAs("much", 1000)
		b.reserveAs("other", 1000)
	}
	a.Close(true)
	if err := b.shard.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	b.wantCounts("when it is lost", sub.ID, queue.Submission{Ready: n, Reserved: n})
	if got := b.shard.Stats(); got.LostTotal != n {
		t.Errorf("lost: got %d, want %d", got.LostTotal, n)
	}
	if err := b.shard.Audit(); err != nil {
		t.Error(err)
	}
	again := b.reserveAs("next", 1000)
	for _, res := range again {
		if res.Attempt != 2 {
			t.Fatalf("chunk %d is handed out for the attempt %d, want 2", res.Token.Index, res.Attempt)
		}
	}
}

// A stream that no one reads is ended instead of growing without bound; the next one begins with a hello.
func TestStreamThatFallsBehind(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	mustInsert(t, b, prefixed(1000))
	a, err := b.shard.Consumers.Attach("slow", "")
	if err != nil {
		t.Fatal(err)
	}
	if first := a.Next(); !first.Hello || first.Over {
		t.Fatalf("the first notice: got %+v, want a hello", first)
	}
	revoked := 0
	for round := range 12 {
		b.reserveAs("slow", 1000)
		n, err := b.shard.Consumers.Release("slow")
		if err != nil || n != 1000 {
			t.Fatalf("round %d: released %d, %v; want 1000", round, n, err)
		}
		if round == 0 {
			n := a.Next()
			revoked = len(n.Revoked)
		}
	}
	if revoked != 1000 {
		t.Errorf("told of %d revoked reservations, want 1000", revoked)
	}
	if got := a.Next(); !got.Over {
		t.Errorf("after 11,000 that no one read: got %d revoked, want the end of the stream", len(got.Revoked))
	}
	a.Close(true)
	again, err := b.shard.Consumers.Attach("slow", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Next(); !got.Hello || got.Held != 0 || len(got.Revoked) != 0 {
		t.Errorf("the next stream: got %+v, want a hello", got)
	}
	again.Close(false)
	if got := b.shard.Stats(); got.ConsumersAttached != 0 {
		t.Errorf("attached: got %d, want 0", got.ConsumersAttached)
	}
}

// Many consumers are listed page by page, each once, in the order of their names, without a long hold of the mutex.
func TestManyConsumers(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	const n = 3000
	mustInsert(t, b, prefixed(n))
	for i := range n {
		if i%2 == 0 {
			b.reserveAs(fmt.Sprintf("%05d", i), 1)
		} else if _, err := b.shard.Consumers.Attach(fmt.Sprintf("%05d", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for from, more := "", true; more; more = from != "" {
		page, next, err := b.shard.Consumers.List(ctx, from, 700)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page {
			if want := fmt.Sprintf("%05d", seen); c.Name != want || c.Attached != (seen%2 == 1) || c.Reserved != uint64((seen+1)%2) {
				t.Fatalf("consumer %d: got %+v, want %s", seen, c, want)
			}
			seen++
		}
		from = next
	}
	if seen != n {
		t.Errorf("%d consumers are listed, want %d", seen, n)
	}
	if most := b.shard.Inspect.MostLooks(); most > 2000 {
		t.Errorf("one hold of the mutex looked at %d things for the list", most)
	}
}
