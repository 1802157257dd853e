package engine

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

func pauseOf(customer int) queue.Rule {
	return queue.Rule{Action: queue.Pause, Actor: "eve", Reason: "a bad import",
		Match: queue.RuleMatch{Entry: queue.MetaEntry{Key: "customer", Value: queue.IntValue(int64(customer))}}}
}

// A node of a cluster gives a new queue the rules that another node has set just before. That includes a rule that comes into the catalogue
// after the queue has taken its rules and before the queue is in the catalogue.
func TestInitialRulesOfACluster(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 1, "a", "b")
	a, b := nodes["a"], nodes["b"]
	set := func(customer int) {
		if _, created, err := InitialRulesOf(b.Engine).Set(t.Context(), pauseOf(customer)); err != nil || !created {
			t.Errorf("the rule about %d was set as %t, %v", customer, created, err)
		}
	}
	set(1)
	write, late := a.catalogue.Around, false
	a.catalogue.Around = func(change func() error) error {
		if !late {
			late = true
			set(2)
		}
		return write(change)
	}
	if _, _, err := a.PutQueue(t.Context(), "later", queue.DefaultSettings()); err != nil || !late {
		t.Fatal(late, err)
	}
	held := queueAt(a.Engine, "later").Rules.Held()
	if len(held) != 2 || held[0].Rule.Match != pauseOf(1).Match || held[1].Rule.Match != pauseOf(2).Match || held[1].Rule.Actor != "eve" {
		t.Errorf("the queue begins with %+v, want both rules", held)
	}
	for name, node := range nodes {
		page, err := node.Audit(AuditFilter{Action: "initial_rule.set"}, "", 10)
		if err != nil || len(page.Items) != 2 || page.Items[0].Target != "initial rule 2" || page.Items[1].Target != "initial rule 1" {
			t.Errorf("the log of %s says %+v, %v", name, page.Items, err)
		}
	}
}

// A rule whose time is over is in no new queue, and no longer counts. A rule that is set again keeps its id.
//
//quern:sequential
func TestInitialRulesEnd(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	e, err := Open(t.Context(), Options{Dir: t.TempDir(), Seed: rand.Uint64, BallastBytes: -1,
		Now: func() time.Time { return time.UnixMilli(1_800_000_000_000 + later.Load()) }})
	fatal(t, err)
	t.Cleanup(func() { e.Close() })
	rules := InitialRulesOf(e)
	short := pauseOf(1)
	short.Until = queue.At(e.options.Now().Add(time.Minute))
	for _, r := range []queue.Rule{short, pauseOf(2), {Action: queue.Pause, Insert: true, Revoke: true}} {
		_, _, err := rules.Set(t.Context(), r)
		fatal(t, err)
	}
	_, _, err = e.PutQueue(t.Context(), "early", queue.DefaultSettings())
	fatal(t, err)
	if held := queueAt(e, "early").Rules.Held(); len(held) != 3 || held[0].Rule.Until != short.Until || !held[2].Rule.Insert {
		t.Errorf("a queue begins with %+v, want the three rules", held)
	}
	later.Store(time.Hour.Milliseconds())
	again := pauseOf(2)
	again.Reason = "another one"
	if set, created, err := rules.Set(t.Context(), again); err != nil || created || set.ID != 2 || set.Reason != again.Reason {
		t.Errorf("set again: %+v, %t, %v; want the rule 2 changed", set, created, err)
	}
	list, err := rules.List()
	if err != nil || len(list) != 2 || list[0].ID != 2 || list[1].ID != 3 || !list[1].Match.Whole() || !list[1].Revoke {
		t.Errorf("after its time: %+v, %v; want the rules 2 and 3", list, err)
	}
	if _, err := rules.Get(1); queue.CodeOf(err) != queue.CodeUnknownRule {
		t.Errorf("the rule that is over: %v", err)
	}
	_, _, err = e.PutQueue(t.Context(), "late", queue.DefaultSettings())
	fatal(t, err)
	if held := queueAt(e, "late").Rules.Held(); len(held) != 2 {
		t.Errorf("a later queue begins with %+v, want two rules", held)
	}
	for i := range queue.MaxInitialRules + 1 {
		_, _, err = rules.Set(t.Context(), pauseOf(10+i))
		if (err != nil) != (i >= queue.MaxInitialRules-2) {
			t.Fatalf("rule %d of new queues: %v", i+2, err)
		}
	}
}
