package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// Rows whose score is not written are skipped and counted. A batch without any score is a fault, and the fallback answers.
func TestPluginBehaviour17UnwrittenScores(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	for i := range 6 {
		s.put(fmt.Sprint(i), 1, 0, nil)
	}
	s.use(hostile(t, "scores_half_written"), "half", "priority")
	s.wantTexts(`Plugin("half", explore=0, OldestFirst)`, 100, "0", "2", "4")
	stats := s.pluginStats("half")
	if stats.Unwritten < 3 || stats.Skipped != 0 || len(stats.Faults) != 0 {
		t.Errorf("got %+v, want at least three rows without a score, none skipped, no faults", stats)
	}
	s.metric(fmt.Sprintf(`quern_plugin_unwritten_total{plugin="half"} %d`, stats.Unwritten))
	s.use(wasmtest.Moody(wasmtest.NotDry(), wasmtest.ReturnAtOnce()), "none", "priority", "limit:none")
	s.wantTexts(orElse("none"), 1, "1")
	if stats := s.pluginStats("none"); stats.Faults["unwritten"] != 1 || stats.Fallbacks != 1 {
		t.Errorf("got %+v, want one fault for unwritten and one fallback", stats)
	}
	if wrong := strings.Join(s.refusal(hostile(t, "scores_not_written"), declared("never", "1.0.0", "priority")), "\n"); !strings.Contains(wrong, "dry_run_unwritten") {
		t.Errorf("one that never writes: got %q, want dry_run_unwritten", wrong)
	}
}

// Of 10,000 lines that a plugin logs in a batch 32 are kept and the others are counted; the batch is scored all the same.
func TestPluginBehaviour25LoggingIsBounded(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	s.put("x", 100, 0, nil)
	s.use(hostile(t, "log_10000"), "loud", "priority")
	logs := func() (got api.PluginLogs) {
		s.do("GET", "/v1/plugins/loud/logs", nil, 200, &got)
		return got
	}
	before := logs() // the dry run's lines do not count
	if len(before.Lines) != 0 {
		t.Fatalf("before the first batch: %d lines", len(before.Lines))
	}
	s.wantTexts(`Plugin("loud", OldestFirst)`, 1, "x")
	batches := s.pluginStats("loud").Batches
	got := logs()
	if batches != 1 || len(got.Lines) != 32 || got.Dropped != 10_000-32 || got.Lines[31].Number != 32 || got.Lines[0].Text != "the same line again" {
		t.Errorf("got %d lines, %d dropped after %d batches, want 32 and 9,968 after one", len(got.Lines), got.Dropped, batches)
	}
	s.metric(`quern_plugin_logs_dropped_total{plugin="loud"} 9968`)
	if stats := s.pluginStats("loud"); stats.LogsDropped != got.Dropped || len(stats.Faults) != 0 || stats.Fallbacks != 0 {
		t.Errorf("got %+v, want no faults", stats)
	}
}

// A configuration that the manifest's schema refuses is answered with every field that is wrong, and the running
// version keeps its configuration.
func TestPluginBehaviour27ConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	s.put("low", 10, 1, nil)
	s.put("high", 10, 2, nil)
	text := declared("conf", "1.0.0", "priority", "limit:none")
	text = strings.TrimSuffix(text, "}") + `,"config_schema":{"type":"object","properties":{"boost":{"type":"integer","minimum":0,"default":3}},"additionalProperties":false}}`
	s.upload(wasmtest.Scorer(), text)
	before := s.activate("conf", "1.0.0")
	if string(before.Active.Config) != `{"boost":3}` {
		t.Errorf("got the configuration %s, want the defaults", before.Active.Config)
	}
	wrong := json.RawMessage(`{"boost":-1,"colour":2}`)
	for _, verb := range []string{"activate", "shadow", "canary"} {
		p := s.refused("POST", "/v1/plugins/conf/"+verb, api.PluginSelection{Version: "1.0.0", Config: wrong, Percent: 10}, 422)
		var pointers []string
		for _, e := range p.Errors {
			pointers = append(pointers, e.Pointer)
		}
		if got := strings.Join(pointers, " "); got != "/config/boost /config/colour" && got != "/config/colour /config/boost" {
			t.Errorf("%s: got problems at %q, want /config/boost and /config/colour", verb, got)
		}
	}
	if after := s.plugin("conf"); after.Revision != before.Revision || string(after.Active.Config) != `{"boost":3}` || after.Shadow != nil || after.Canary != nil {
		t.Errorf("got %+v, want it unchanged: %+v", after, before)
	}
	p := s.refused("POST", queuePath("", "/reservations"), request(`Plugin("conf", {"boost": "x"}, OldestFirst)`, 1), 422)
	if len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Pointer, "/config/boost") {
		t.Errorf("in a strategy: got %+v, want a problem at /config/boost", p)
	}
	s.wantTexts(`Plugin("conf", explore=0, OldestFirst)`, 1, "high")
	s.wantTexts(`Plugin("conf", {"boost": 7}, explore=0, OldestFirst)`, 1, "high")
}
