package simtest

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// If all ready chunks are under a rule, an empty answer says so, although a limit of another key is reached there too: no end of a chunk
// would help. If other chunks are behind a limit, it says that and names the limit's value, not the rule, nor a limit that would give way.
func TestEmptyTellsRulesFromLimits(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	limits := []string{
		`PreferDistinct("c", 3, OldestFirst)`, `PreferDistinct("c", 3, Random)`, `MaxSimultaneous("c", 3, OldestFirst)`,
		`MaxSimultaneous("c", 3, MaxSimultaneous("d", 1, Random))`, `Fair("c", MaxSimultaneous("c", 3, OldestFirst))`,
	}
	for _, text := range limits {
		mustReserve(t, b, text, 1) // its views stand before anything is inserted
	}
	mustInsert(t, b, prefixed(6, number("c", 2)))
	if held := mustReserve(t, b, "OldestFirst", 6); len(held) != 6 {
		t.Fatalf("reserved %d, want 6", len(held))
	}
	rule, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: number("z", 1)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustInsert(t, b, prefixed(1, number("c", 2), number("d", 1), number("z", 1)))
	ask := func(when, text string, want queue.EmptyReason, named int) {
		t.Helper()
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, text), Max: 1, Limited: queue.MaxLimited}, nil)
		if err != nil || len(got.Reservations) != 0 || got.Reason != want || len(got.Limited) != named {
			t.Errorf("%s: %s gives %d chunks, the reason %s and %v, %v; want %s and %d values", when, text, len(got.Reservations), got.Reason, got.Limited, err, want, named)
		}
	}
	for _, text := range limits {
		ask("all that is ready is paused", text, queue.Paused, 0)
	}
	mustInsert(t, b, prefixed(2, number("e", 1)))
	if held := mustReserve(t, b, "OldestFirst", 1); len(held) != 1 {
		t.Fatalf("reserved %d of what no rule covers, want 1", len(held))
	}
	ask("something else is behind a limit", `MaxSimultaneous("e", 1, MaxSimultaneous("c", 3, OldestFirst))`, queue.AllLimited, 1)
	ask("something else is behind a limit", `MaxSimultaneous("e", 1, OldestFirst)`, queue.AllLimited, 1)
	if _, _, err := b.shard.Rules.Lift(rule.ID, ""); err != nil {
		t.Fatal(err)
	}
	ask("the rule is lifted", `MaxSimultaneous("e", 1, MaxSimultaneous("c", 3, OldestFirst))`, queue.AllLimited, 2)
	b.setValue(number("d", 1), queue.ValueSettings{Limit: 0})
	ask("a limit that the fallback does without", `MaxSimultaneous("e", 1, PreferDistinct("c", 3, OldestFirst))`, queue.AllLimited, 2)
	if err := b.shard.Audit(); err != nil {
		t.Error(err)
	}
}

// A chunk that waits for a retry is due at the time of its last failure's backoff. An empty answer never gives an earlier time that the
// chunk had before, also if it was offered at once meanwhile or the failure came after its deadline.
func TestEmptyTellsTheTimeOfTheLastFailure(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.ExpiryBackoff = queue.Backoff{Base: time.Minute, Factor: 1, Cap: time.Minute}
	anHour := func(f *queue.FailItem) { f.HasRetry, f.RetryAfter = true, 3_600_000 }
	for name, prepare := range map[string]func(b *box){
		"offered at once by an operation": func(b *box) {
			b.mustFail(mustReserve(t, b, "OldestFirst", 1), func(f *queue.FailItem) { f.HasRetry, f.RetryAfter = true, 60_000 })
			b.finishBulk(t, b.startBulk(t, queue.BulkRequest{Action: queue.BulkRetry}), 10)
			b.mustFail(mustReserve(t, b, "OldestFirst", 1), anHour)
		},
		"failed after its deadline": func(b *box) {
			held := mustReserve(t, b, "OldestFirst", 1)
			b.clock.pass(2 * time.Hour)
			b.shard.Worker.Tick()
			b.mustFail(held, anHour)
		},
	} {
		b := openBox(t, settings)
		mustInsert(t, b, prefixed(1))
		prepare(b)
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "OldestFirst"), Max: 1}, nil)
		if err != nil || len(got.Reservations) != 0 || got.Reason != queue.NotYetDue || got.RetryAfter != time.Hour {
			t.Errorf("%s: got %d chunks, the reason %s after %s, %v; want %s after 1h", name, len(got.Reservations), got.Reason, got.RetryAfter, err, queue.NotYetDue)
		}
	}
}
