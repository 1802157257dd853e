package simtest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// liftOp is the op in the journal for a rule that ends by itself.
func liftOp(id queue.RuleID, now, grace queue.Time) []byte {
	var e journal.Encoder
	e.Reset(1, 0)
	before := len(e.Bytes())
	e.Rule(journal.Rule{Lift: true, Rule: queue.Rule{ID: id}, Grace: grace, At: now, End: queue.RuleOver})
	return bytes.Clone(e.Bytes()[before:])
}

// A rule whose end the journal refuses is found and parked, and the others end. An operator has it tried again, or gives it another
// time, which takes it out of the parked ones.
func TestPoisonousRuleIsParked(t *testing.T) {
	t.Parallel()
	for _, retried := range []bool{true, false} {
		p := new(poisons)
		b := newBox(t, relaxed())
		b.wrap = func(inner journal.Journal) journal.Journal { return &poisonLog{inner, p} }
		b.open()
		const n, bad = 20, 8 // ids begin at 1
		var rules []queue.Rule
		for i := range n {
			r, _, err := b.shard.Rules.Set(queue.Rule{
				Action: queue.Pause, Match: queue.RuleMatch{Entry: number("n", i)}, Until: b.clock.now().Add(time.Hour),
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, r)
		}
		later := queue.Rule{Action: queue.Block, Match: queue.RuleMatch{Entry: number("n", n)}, Until: b.clock.now().Add(2 * time.Hour)}
		if _, _, err := b.shard.Rules.Set(later, nil); err != nil {
			t.Fatal(err)
		}
		b.clock.pass(time.Hour)
		poison := func() { p.set(liftOp(bad, b.clock.now(), b.clock.now().Add(b.settings.ReservationTimeout))) }
		for pass := 0; len(b.shard.Work().Parked) == 0; pass++ {
			if pass == 60 {
				t.Fatalf("after %d passes: %+v", pass, b.shard.Work())
			}
			poison()
			b.shard.Worker.Tick()
			b.clock.pass(6 * time.Second)
		}
		if got := b.shard.Work().Parked[0]; got.Kind != machine.KindRule.String() || got.Rule != fmt.Sprint(bad) || got.Error == "" {
			t.Errorf("parked: got %+v, want the end of rule %d with its error", got, bad)
		}
		for range 20 {
			poison()
			b.tickAfter(6 * time.Second)
		}
		hits := p.refused()
		if left := b.shard.Rules.List(); len(left) != 2 || left[0] != rules[bad-1] {
			t.Fatalf("rules: got %+v, want the poisonous one and the later one", left)
		}
		if w := b.shard.Work(); w.Kinds[machine.KindRule].Done != n-1 || w.Kinds[machine.KindRule].Parked != 1 || w.Degraded {
			t.Errorf("the kind: got %+v, degraded %v; want %d done and one parked", w.Kinds[machine.KindRule], w.Degraded, n-1)
		}
		b.clock.pass(time.Hour)
		poison()
		b.shard.Worker.Tick()
		if left := b.shard.Rules.List(); len(left) != 1 || p.refused() != hits {
			t.Errorf("a rule that ends when another one is parked: got %+v and %d more refusals, want the parked one and none", left, p.refused()-hits)
		}
		p.set()
		if retried {
			if n := b.shard.Worker.Retry(); n != 1 {
				t.Errorf("RetryParked() = %d, want 1", n)
			}
		} else {
			again := rules[bad-1]
			again.Until = b.clock.now().Add(time.Minute)
			if _, _, err := b.shard.Rules.Set(again, nil); err != nil {
				t.Fatal(err)
			}
			b.clock.pass(time.Minute)
		}
		b.shard.Worker.Tick()
		if left, w := b.shard.Rules.List(), b.shard.Work(); len(left) != 0 || len(w.Parked) != 0 {
			t.Errorf("fixed, by a retry %v: got rules %+v and parked %+v, want none", retried, left, w.Parked)
		}
	}
}

// A schedule whose ticks the journal refuses is found and parked. The others emit meanwhile, each tick once, and callers' commits
// are not in its batches once it is under suspicion. It is tried again when an operator says so, or changes it.
func TestPoisonousScheduleIsParked(t *testing.T) {
	t.Parallel()
	for _, retried := range []bool{true, false} {
		p := new(poisons)
		b := newBox(t, relaxed())
		b.wrap = func(inner journal.Journal) journal.Journal { return &poisonLog{inner, p} }
		b.open()
		def := queue.Schedule{
			Spec: "@every 6s", Enabled: true, Missed: queue.MissedAll, CatchUp: 1000, CatchUpWindow: time.Hour,
			Template: queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}},
		}
		const n = 8
		bad := "schedule-3" // others come before and after it
		for i := range n {
			if _, _, err := b.shard.Schedules.Put(fmt.Sprint("schedule-", i), def, nil); err != nil {
				t.Fatal(err)
			}
		}
		p.set([]byte(bad))
		begun := b.clock.now()
		b.clock.pass(6 * time.Second)
		b.passes(20, nil, oneParked)
		if got := b.shard.Work().Parked[0]; got.Kind != machine.KindSchedule.String() || got.Schedule != bad || got.Error == "" {
			t.Errorf("parked: got %+v, want the ticks of %s with their error", got, bad)
		}
		hits := p.refused()
		for range 5 {
			b.tickAfter(6 * time.Second)
		}
		ticks := uint64(b.clock.now().Sub(begun) / (6 * time.Second))
		for _, info := range b.shard.Schedules.List() {
			want := ticks
			if info.Name == bad {
				want = 0
			}
			if info.Emitted != want || info.Late+info.Missed != 0 {
				t.Errorf("%s: got %+v after %d ticks, want %d emitted", info.Name, info.ScheduleCounts, ticks, want)
			}
		}
		if k := b.shard.Work().Kinds[machine.KindSchedule]; k.Parked != 1 || k.Failed < 3 || k.Failures != 0 || k.Done == 0 || p.refused() != hits {
			t.Errorf("the kind: got %+v and %d more refusals, want one parked, and no failure since", k, p.refused()-hits)
		}
		p.set()
		if retried {
			if n := b.shard.Worker.Retry(); n != 1 {
				t.Errorf("RetryParked() = %d, want 1", n)
			}
		} else {
			changed := def
			changed.Template.Priority = 1
			if _, _, err := b.shard.Schedules.Put(bad, changed, nil); err != nil {
				t.Fatal(err)
			}
		}
		b.shard.Worker.Tick()
		info, err := b.shard.Schedules.Get(bad)
		if w := b.shard.Work(); err != nil || info.Emitted != ticks || len(w.Parked) != 0 {
			t.Errorf("fixed, by a retry %v: got %+v %v and parked %+v; want all %d ticks emitted and none parked", retried, info.ScheduleCounts, err, w.Parked, ticks)
		}
	}
}
