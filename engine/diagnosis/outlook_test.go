package diagnosis

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/forecast"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/rules"
	"github.com/quern-queue/quern/sdk/api"
)

// Each rule is a part: its chunks go on when it ends, and a chunk under two rules when the later one ends. Chunks of a value whose pace is
// known go at that pace. Rules without an end do not change the end of the rest.
func TestEachRuleIsAPart(t *testing.T) {
	t.Parallel()
	const now = queue.Time(1_000_000)
	slow, quick := queue.MetaEntry{Key: "company", Value: queue.StringValue("slow")}, queue.MetaEntry{Key: "company", Value: queue.StringValue("quick")}
	o := Outlook{free: 100, of: map[queue.MetaEntry]*paced{slow: {limit: 2}}}
	o.rest.Note(100, 1, 10)        // 10 a second
	o.of[slow].paces.Note(1, 2, 5) // 0.2 a second, in two places
	rule := func(entry queue.MetaEntry, chunks uint64, ends time.Duration) rules.Held {
		held := rules.Held{Rule: queue.Rule{Match: queue.RuleMatch{Entry: entry}}, Chunks: chunks}
		if ends > 0 {
			held.Until = now.Add(ends)
		}
		return held
	}
	for _, c := range []struct {
		name   string
		chunks uint64
		held   []rules.Held
		p50    time.Duration
		moving bool
	}{
		{"no rule", 0, nil, 10 * time.Second, true},
		{"one that ends soon, and whose chunks wait behind the rest", 50, []rules.Held{rule(quick, 50, time.Second)}, 15 * time.Second, true},
		{"one that ends late", 50, []rules.Held{rule(quick, 50, time.Hour)}, time.Hour + 5*time.Second, true},
		{"the one with few chunks ends last", 1050,
			[]rules.Held{rule(quick, 50, time.Hour), rule(queue.MetaEntry{}, 1050, time.Minute)}, time.Hour + 5*time.Second, true},
		{"many go on early and one late", 36_050,
			[]rules.Held{rule(quick, 50, time.Hour), rule(queue.MetaEntry{}, 36_050, time.Minute)}, time.Minute + 3605*time.Second, true},
		{"a value with a pace of its own", 20, []rules.Held{rule(slow, 20, time.Minute)}, time.Minute + 100*time.Second, true},
		{"without an end", 50, []rules.Held{rule(quick, 50, 0)}, 10 * time.Second, false},
		{"without an end, and another with one", 60, []rules.Held{rule(quick, 50, 0), rule(queue.MetaEntry{}, 60, time.Hour)},
			time.Hour + time.Second, false},
	} {
		o.held = alone(c.held, c.chunks)
		f, moves := forecast.Of(o.ruled(now))
		if f.P50 != c.p50 || f.Moving != c.moving || !moves {
			t.Errorf("%s: ends after %v, moving %t; want %v, %t", c.name, f.P50, f.Moving, c.p50, c.moving)
		}
	}
	many := make([]queue.Rule, maxRuled+5)
	for i := range many {
		many[i].Until = now.Add(time.Duration(i) * time.Minute)
	}
	many[3].Until = 0
	last := LastRules(many)
	if len(last) != maxRuled || last[0].Until != 0 || last[1].Until != many[maxRuled+4].Until {
		t.Fatalf("of %d rules got %d, the first until %d and %d", len(many), len(last), last[0].Until, last[1].Until)
	}
	held := make([]rules.Held, len(last))
	for i := range last {
		held[i] = rules.Held{Rule: last[i], Chunks: 1}
	}
	var sum uint64
	o.held = alone(held, maxRuled+50)
	parts := o.ruled(now)
	for _, p := range parts[:1] {
		sum += p.Chunks
	}
	if sum += parts[len(parts)-1].Chunks - o.free; sum != maxRuled+50 {
		t.Errorf("parts of %d chunks, want all %d that rules hold", sum, maxRuled+50)
	}
}

// A limit of 0 lets nothing move, whatever the rest does.
func TestLimitOfZeroIsStuck(t *testing.T) {
	t.Parallel()
	o := Outlook{}
	o.rest.Note(100, 1, 10)
	o.Begin(nil)
	o.Look("company", []backlog.ValueCount{{Value: queue.StringValue("a"), Available: 900}},
		func(queue.MetaEntry) uint32 { return 0 }, 1000)
	f := o.Tell(&api.Stats{Ready: 1000}, nil, 1000)
	if f == nil || f.Moving || f.P50.Sub(queue.Time(1000).Std()) != 10*time.Second {
		t.Errorf("100 of 1000 chunks move, 10 a second: %+v", f)
	}
}

// Of more values at their limits than have a pace, those beyond are counted.
func TestPacedValuesAreBounded(t *testing.T) {
	t.Parallel()
	o := Outlook{}
	seen := make([]backlog.ValueCount, maxPaced+7)
	for i := range seen {
		seen[i] = backlog.ValueCount{Value: queue.IntValue(int64(i)), InFlight: 1, Available: 5}
	}
	o.Begin(map[queue.MetaKey]uint32{"company": 1})
	o.Look("company", seen, nil, 1000)
	if with, without := o.Paced(); with != maxPaced || without != 7 {
		t.Errorf("%d values have a pace and %d have none, want %d and 7", with, without, maxPaced)
	}
}
