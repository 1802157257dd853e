package plugins_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// Three faults within a minute open the breaker; after five seconds one batch is tried, which closes it when it goes well.
func TestBreaker(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.activate(w.send(wasmtest.Moody(wasmtest.NegativeSeed(), wasmtest.Endless()), declare("moody", "1.0.0", two, "")))
	block := &strategy.Scored{Plugin: "moody"}
	fault := func() {
		t.Helper()
		s := w.scorer(block)
		err := s.Score(t.Context(), window(bad, []int64{1}, []int64{1}), make([]float64, 1))
		var f *host.Fault
		if !errors.As(err, &f) || f.Kind != host.Fuel {
			t.Fatalf("got %v, want a fault for fuel", err)
		}
	}
	fault()
	fault()
	w.clock.forward(61 * time.Second) // the two are forgotten
	fault()
	fault()
	if score(t, w.scorer(block), window(1, []int64{1}, []int64{1}))[0] != 5 {
		t.Error("it does not score between its faults")
	}
	before := w.scorer(block)
	fault()
	if _, ok := w.Scorer(block); ok {
		t.Fatal("the third fault within a minute did not open the breaker")
	}
	if err := before.Score(t.Context(), window(1, []int64{1}, []int64{1}), make([]float64, 1)); err == nil {
		t.Error("a scorer that was given out before scores through an open breaker")
	}
	p, err := w.Plugins.Get("moody")
	if err != nil || p.State != "open" || !strings.Contains(p.Breaker.Reason, "fuel") || p.Breaker.Until != api.At(w.clock.Now().Add(5*time.Second)) {
		t.Errorf("got %+v %v, want it open for five seconds because of fuel", p, err)
	}
	w.clock.forward(5 * time.Second)
	if got := score(t, w.scorer(block), window(1, []int64{1}, []int64{1})); got[0] != 5 {
		t.Errorf("the trial scores %v, want 5", got)
	}
	if p, _ := w.Plugins.Get("moody"); p.State != "active" {
		t.Errorf("after a good trial: got %s, want active", p.State)
	}
	stats, err := w.Observations.Stats("moody")
	if err != nil || stats.Faults["fuel"] != 5 || stats.Fallbacks != 7 || stats.Batches != 2 {
		t.Errorf("got %+v %v, want 5 faults, 2 batches, 7 fallbacks", stats, err)
	}
}

// Each opening is twice as long as the one before; the fifth within an hour quarantines, over a restart too, until another version is
// activated or this one by force.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	other := w.send(wasmtest.Scorer(), declare("moody", "2.0.0", two, ""))
	v := w.send(wasmtest.Moody(wasmtest.NotDry(), wasmtest.Endless()), declare("moody", "1.0.0", two, ""))
	w.activate(v)
	block := &strategy.Scored{Plugin: "moody"}
	fault := func() {
		s, ok := w.Scorer(block)
		if !ok {
			t.Fatal("it is not asked")
		}
		if err := s.Score(t.Context(), window(1, []int64{1}, []int64{1}), make([]float64, 1)); err == nil {
			t.Fatal("a loop without end ended")
		}
	}
	fault()
	fault()
	for _, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		fault()
		p, _ := w.Plugins.Get("moody")
		if until := api.At(w.clock.Now().Add(wait)); p.Breaker.Until != until {
			t.Errorf("open until %v, want %v from now", p.Breaker.Until, wait)
		}
		w.clock.forward(wait - time.Millisecond)
		if _, ok := w.Scorer(block); ok {
			t.Errorf("asked before %v were over", wait)
		}
		w.clock.forward(time.Millisecond)
	}
	fault()
	check := func(when string) {
		t.Helper()
		if p, _ := w.Plugins.Get("moody"); p.State != "quarantined" {
			t.Errorf("%s: got %+v, want it quarantined", when, p)
		}
		if got, _ := w.Versions.Get("moody", v.SHA256); got.State != api.PluginQuarantined || got.Reason == "" {
			t.Errorf("%s: got %+v, want the version quarantined with a reason", when, got)
		}
		if _, err := w.Rollout.Activate(t.Context(), "moody", api.PluginSelection{Version: "1.0.0"}, plugins.Change{}); queue.CodeOf(err) != queue.CodeConflict {
			t.Errorf("%s: activating it again: got %v, want a conflict", when, err)
		}
	}
	w.clock.forward(time.Hour)
	if _, ok := w.Scorer(block); ok {
		t.Error("it is asked although it is quarantined")
	}
	check("after the fifth opening")
	w.end()
	w.start()
	check("after a restart")
	w.activate(other)
	if got := score(t, w.scorer(block), window(1, []int64{1}, []int64{1})); got[0] != 5 {
		t.Errorf("another version scores %v, want 5", got)
	}
	check2, err := w.Rollout.Activate(t.Context(), "moody", api.PluginSelection{Version: v.SHA256[:8], Force: true}, plugins.Change{})
	if err != nil || check2.State != "active" || check2.Previous.SHA256 != other.SHA256 {
		t.Errorf("by force: got %+v %v, want it active", check2, err)
	}
}

// Using more than its share of the processor takes a plugin out of use for a while, for longer each time, and never quarantines it.
func TestThrottle(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *plugins.Options) {
		now := o.Now
		var looks atomic.Int64 // each look at the clock is a millisecond later, so that a batch takes some
		o.Now = func() time.Time { return now().Add(time.Duration(looks.Add(1)) * time.Millisecond) }
		o.Limits.CPUShare = 1e-5
		o.Limits.Quarantine = 2
	})
	w.activate(w.send(wasmtest.Scorer(), declare("hungry", "1.0.0", two, "")))
	block := &strategy.Scored{Plugin: "hungry"}
	for _, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		score(t, w.scorer(block), window(1, []int64{1}, []int64{1}))
		p, _ := w.Plugins.Get("hungry")
		if _, ok := w.Scorer(block); ok || p.State != "throttled" || !strings.Contains(p.Breaker.Reason, "of a core") {
			t.Fatalf("got %+v, want it throttled", p)
		}
		w.clock.forward(wait - time.Second)
		if _, ok := w.Scorer(block); ok {
			t.Fatal("it is asked again before the time is over")
		}
		w.clock.forward(2 * time.Second)
	}
	if _, err := w.Rollout.PutSettings("hungry", api.PluginSettings{CPUShare: 1}, plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		score(t, w.scorer(block), window(1, []int64{1}, []int64{1}))
	}
	if p, _ := w.Plugins.Get("hungry"); p.State != "active" {
		t.Errorf("with a larger share: got %+v, want it active", p)
	}
}

// An operator can hold a plugin out of use and in it, over a restart too; changes ask for the revision that they were made for.
func TestHold(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.activate(w.send(wasmtest.Scorer(), declare("hungry", "1.0.0", two, "")))
	block := &strategy.Scored{Plugin: "hungry"}
	p, err := w.Rollout.PutSettings("hungry", api.PluginSettings{Hold: plugins.HoldOpen}, plugins.Change{Revision: 1})
	if err != nil || p.State != "held" || p.Revision != 2 {
		t.Fatalf("got %+v %v, want it held at revision 2", p, err)
	}
	if _, ok := w.Scorer(block); ok {
		t.Error("a plugin that is held open scores")
	}
	if _, err := w.Rollout.PutSettings("hungry", api.PluginSettings{}, plugins.Change{Revision: 1}); queue.CodeOf(err) != queue.CodePrecondition {
		t.Errorf("an old revision: got %v, want %s", err, queue.CodePrecondition)
	}
	w.end()
	w.start()
	if _, ok := w.Scorer(block); ok {
		t.Error("after a restart a plugin that is held open scores")
	}
	if _, err := w.Rollout.PutSettings("hungry", api.PluginSettings{Hold: plugins.HoldClosed}, plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	score(t, w.scorer(block), window(1, []int64{1}, []int64{1}))
	if _, err := w.Rollout.PutSettings("hungry", api.PluginSettings{Hold: "ajar", CPUShare: -1, RecordEvery: -1, LogLevel: 9}, plugins.Change{}); strings.Count(problems(t, err), "\n") != 3 {
		t.Errorf("four wrong settings: got %v", err)
	}
}
