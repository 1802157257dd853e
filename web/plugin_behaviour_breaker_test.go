package web

import (
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// moodyScene has a plugin in use that never ends while the oldest submission has a priority below zero, and otherwise puts the highest
// priority first. Such a submission, of so many chunks with the text "bad", is the oldest.
func moodyScene(t *testing.T, chunks uint32) (s *pluginScene, bad api.Submission) {
	t.Helper()
	s = newPluginScene(t, nil)
	bad = s.put("bad", chunks, -1, nil)
	s.put("low", 10, 1, nil)
	s.put("high", 10, 2, nil)
	s.use(wasmtest.Moody(wasmtest.Both(wasmtest.NotDry(), wasmtest.FirstBelowZero()), wasmtest.Endless()), "moody", "priority", "limit:none")
	return s, bad
}

// fault makes the plugin fail once; the fallback answers the same reserve.
func (s *pluginScene) fault() {
	s.Helper()
	before := s.pluginStats("moody").Faults["fuel"]
	s.wantTexts(orElse("moody"), 1, "bad")
	s.settle() // all nodes learn of a quarantine
	if got := s.pluginStats("moody").Faults["fuel"]; got != before+1 {
		s.Fatalf("the plugin has failed %d times, want %d", got, before+1)
	}
}

// Three faults within a minute open the breaker, and not before: the next reserve does not call the plugin, and explain gives the
// reason and until when.
func TestPluginBehaviour12ThreeFaultsOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s, _ := moodyScene(t, 100)
	s.fault()
	s.fault()
	s.advance(61 * time.Second) // those two are forgotten
	s.fault()
	s.fault()
	if p := s.plugin("moody"); p.State != "active" || p.Breaker.State != "closed" || p.Breaker.Reason != "" {
		t.Errorf("after two faults within a minute: got %+v, want it active", p)
	}
	s.fault()
	p := s.plugin("moody")
	if p.State != "open" || !strings.Contains(p.Breaker.Reason, "fuel") || !p.Breaker.Until.Equal(s.now().Add(5*time.Second)) {
		t.Errorf("after the third: got %+v, want it open for five seconds because of fuel", p)
	}
	s.metric(`quern_plugin_breaker_state{plugin="moody",state="open"} 1`)
	before := s.pluginStats("moody")
	s.wantTexts(orElse("moody"), 1, "bad")
	after := s.pluginStats("moody")
	if after.Faults["fuel"] != before.Faults["fuel"] || after.Batches != before.Batches || after.Fallbacks != before.Fallbacks+1 {
		t.Errorf("got %+v after %+v, want one more fallback and no call", after, before)
	}
	if !strings.Contains(s.log.String(), "breaker opened") {
		t.Error("the log does not say so")
	}
}

// After five seconds one batch is tried. The plugin works again: it is in use as before.
func TestPluginBehaviour13OneTrialClosesIt(t *testing.T) {
	t.Parallel()
	s, bad := moodyScene(t, 100)
	for range 3 {
		s.fault()
	}
	s.cancel(bad.ID) // from now on the plugin would work
	s.advance(5*time.Second - time.Millisecond)
	s.wantTexts(orElse("moody"), 1, "low") // by the fallback: the oldest
	if p := s.plugin("moody"); p.State != "open" {
		t.Errorf("a millisecond too early: got %+v, want it open", p)
	}
	s.advance(time.Millisecond)
	if p := s.plugin("moody"); p.State != "half_open" {
		t.Errorf("after five seconds: got %+v, want it half open", p)
	}
	before := s.pluginStats("moody")
	s.wantTexts(orElse("moody"), 1, "high") // by the plugin: the highest priority
	if p := s.plugin("moody"); p.State != "active" || p.Breaker.Reason != "" {
		t.Errorf("after the trial: got %+v, want it active", p)
	}
	if after := s.pluginStats("moody"); after.Fallbacks != before.Fallbacks {
		t.Errorf("got %d fallbacks, want %d", after.Fallbacks, before.Fallbacks)
	}
	s.wantTexts(orElse("moody"), 3, "high", "high", "high")
}

// A trial that fails opens the breaker for twice as long. The fifth opening within an hour quarantines the version,
// also over a restart, until another one is activated, or this one by force.
func TestPluginBehaviour14RepeatedOpeningsQuarantine(t *testing.T) {
	t.Parallel()
	s, _ := moodyScene(t, 100)
	other := s.upload(wasmtest.Scorer(), declared("moody", "2.0.0", "priority", "limit:none"))
	s.fault()
	s.fault()
	for _, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		s.fault()
		if p := s.plugin("moody"); p.State != "open" || !p.Breaker.Until.Equal(s.now().Add(wait)) {
			t.Errorf("got %+v, want it open for %v", p, wait)
		}
		s.advance(wait)
	}
	s.fault()
	quarantined := func(when string) {
		t.Helper()
		if p := s.plugin("moody"); p.State != "quarantined" || !strings.Contains(p.Breaker.Reason, "fuel") {
			t.Errorf("%s: got %+v, want it quarantined because of fuel", when, p)
		}
		s.wantTexts(orElse("moody"), 1, "bad")
		var v api.PluginVersion
		s.do("GET", "/v1/plugins/moody/versions/1.0.0", nil, 200, &v)
		if v.State != api.PluginQuarantined || v.Reason == "" {
			t.Errorf("%s: got %+v, want the version quarantined with a reason", when, v)
		}
		if p := s.refused("POST", "/v1/plugins/moody/activate", api.PluginSelection{Version: "1.0.0"}, 409); !strings.Contains(p.Detail, "force") {
			t.Errorf("%s: activating it again: got %+v, want that force is needed", when, p)
		}
	}
	quarantined("after the fifth opening")
	s.advance(2 * time.Hour)
	quarantined("two hours later")
	s.reopen(time.Minute)
	quarantined("after a restart")

	if p := s.activate("moody", "2.0.0"); p.State != "active" || p.Active.SHA256 != other.SHA256 {
		t.Errorf("another version: got %+v, want it active", p)
	}
	s.wantTexts(orElse("moody"), 1, "high")
	var p api.Plugin
	s.do("POST", "/v1/plugins/moody/activate", api.PluginSelection{Version: "1.0.0", Force: true}, 200, &p)
	if p.State != "active" || p.Active.Version != "1.0.0" {
		t.Errorf("by force: got %+v, want it active", p)
	}
	s.fault() // it is called again
}
