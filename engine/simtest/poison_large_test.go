package simtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// A rule that covers too many submissions to end in one step is parked too when the journal refuses its end; a small one ends
// meanwhile, and the large one when its cause is fixed and it is tried again.
func TestPoisonousLargeRuleIsParked(t *testing.T) {
	t.Parallel()
	p := new(poisons)
	b := newBox(t, relaxed())
	b.wrap = func(inner journal.Journal) journal.Journal { return &poisonLog{inner, p} }
	b.open()
	for range 2001 { // more than one hold of the mutex counts
		n := prefixed(1)
		n.Meta = queue.Meta{number("large", 1)}
		mustInsert(t, b, n)
	}
	until := b.clock.now().Add(time.Hour)
	large, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: number("large", 1)}, Until: until}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: number("small", 1)}, Until: until}, nil); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(time.Hour)
	for pass := 0; len(b.shard.Work().Parked) == 0; pass++ {
		if pass == 60 {
			t.Fatalf("after %d passes: %+v", pass, b.shard.Work())
		}
		p.set(liftOp(large.ID, b.clock.now(), b.clock.now().Add(b.settings.ReservationTimeout)))
		b.tickAfter(0)
		b.clock.pass(6 * time.Second)
	}
	if got := b.shard.Work().Parked[0]; got.Kind != machine.KindRule.String() || got.Rule != fmt.Sprint(large.ID) || got.Error == "" {
		t.Errorf("parked: got %+v, want the end of rule %d with its error", got, large.ID)
	}
	if left := b.shard.Rules.List(); len(left) != 1 || left[0].ID != large.ID || b.shard.Work().Degraded {
		t.Errorf("rules: got %+v, degraded %v; want the large one only", left, b.shard.Work().Degraded)
	}
	p.set()
	if n := b.shard.Worker.Retry(); n != 1 {
		t.Errorf("RetryParked() = %d, want 1", n)
	}
	b.tickAfter(6 * time.Second)
	if left, w := b.shard.Rules.List(), b.shard.Work(); len(left) != 0 || len(w.Parked) != 0 {
		t.Errorf("fixed: got rules %+v and parked %+v, want none", left, w.Parked)
	}
}
