package web

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// The Go client makes every call about plugins against a real server.
func TestPluginsThroughTheClient(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c, err := client.New("http://" + f.address)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	one, err := c.UploadPlugin(ctx, client.PluginUpload{Module: wasmtest.Scorer(), Manifest: []byte(declared("p", "1.0.0", "priority", "age_ms")), Config: []byte("{}")})
	ok(err)
	two, err := c.UploadPlugin(ctx, client.PluginUpload{Module: wasmtest.Moody(wasmtest.NotDry(), wasmtest.Endless()), Manifest: []byte(declared("p", "2.0.0", "priority", "age_ms"))})
	ok(err)
	module, err := c.PluginModule(ctx, "p", "1.0.0")
	ok(err)
	if again, err := c.UploadPlugin(ctx, client.PluginUpload{Module: module}); err != nil || again.SHA256 != one.SHA256 {
		t.Errorf("uploading what was downloaded: got %+v %v, want version 1", again, err)
	}
	p, err := c.ActivatePlugin(ctx, "p", api.PluginSelection{Version: "1.0.0", Config: json.RawMessage("{}")}, client.Condition{})
	ok(err)
	_, err = c.ShadowPlugin(ctx, "p", api.PluginSelection{Version: two.SHA256}, client.Condition{ETag: `"r9"`})
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != api.CodePrecondition {
		t.Errorf("a revision that is not there: got %v", err)
	}
	p, err = c.ShadowPlugin(ctx, "p", api.PluginSelection{Version: two.SHA256}, client.Condition{ETag: p.ETag})
	ok(err)
	p, err = c.CanaryPlugin(ctx, "p", api.PluginSelection{Version: two.SHA256, Percent: 10}, client.Condition{ETag: p.ETag})
	ok(err)
	if p.Shadow.Version != "2.0.0" || p.Canary.SHA256 != two.SHA256 || p.CanaryPercent != 10 || p.Revision != 3 {
		t.Errorf("got %+v, want version 2 as shadow and canary", p)
	}
	p, err = c.CanaryPlugin(ctx, "p", api.PluginSelection{}, client.Condition{})
	ok(err)
	p, err = c.PutPluginSettings(ctx, "p", api.PluginSettings{RecordEvery: 1, CPUShare: 4}, client.Condition{ETag: p.ETag})
	ok(err)
	if p.Canary != nil || p.Settings.RecordEvery != 1 {
		t.Errorf("got %+v", p)
	}
	f.insert(`{"chunks":{"count":3,"template":"x"}}`)
	f.reserve(`{"max":1,"strategy":"Plugin(\"p\", OldestFirst)"}`)
	stats, err := c.PluginStats(ctx, "p", "")
	ok(err)
	if stats.Batches != 1 || stats.Shadow == nil {
		t.Errorf("got %+v, want one batch and a shadow", stats)
	}
	recordings := 0
	for r, err := range c.PluginRecordings(ctx, "p") {
		ok(err)
		file, err := c.PluginRecording(ctx, "p", r.ID)
		ok(err)
		if record, err := abi.ReadRecord(file); err != nil || len(file) != r.Size || int(record.Batch.Rows) != r.Rows {
			t.Errorf("recording %d: %v, %d bytes, want %d", r.ID, err, len(file), r.Size)
		}
		if r.Fault == "" {
			tried, err := c.DryRunPlugin(ctx, "p", "1.0.0", api.PluginDryRun{Recording: r.ID})
			ok(err)
			if tried.Replay == nil || !tried.Replay.Identical {
				t.Errorf("replayed: got %+v, want the same bits", tried.Replay)
			}
			recordings++
		}
	}
	if recordings != 1 {
		t.Errorf("got %d recorded samples, want 1", recordings)
	}
	tried, err := c.DryRunPlugin(ctx, "p", "1.0.0", api.PluginDryRun{Queue: "default"})
	ok(err)
	if tried.Live == nil || tried.Live.Rows != 1 || len(tried.Live.Picks) != 1 {
		t.Errorf("live candidates: got %+v, want the one that there is", tried.Live)
	}
	logs, err := c.PluginLogs(ctx, "p", "", "")
	ok(err)
	if len(logs.Lines) != 0 {
		t.Errorf("got the lines %+v", logs.Lines)
	}
	_, err = c.ActivatePlugin(ctx, "p", api.PluginSelection{Version: "2.0.0"}, client.Condition{})
	ok(err)
	p, err = c.RollbackPlugin(ctx, "p", client.Condition{})
	ok(err)
	if p.Active.Version != "1.0.0" {
		t.Errorf("rolled back: got %+v", p)
	}
	_, err = c.ResetPlugin(ctx, "p", client.Condition{})
	ok(err)
	versions := 0
	for _, err := range c.PluginVersions(ctx, "p") {
		ok(err)
		versions++
	}
	if v, err := c.PluginVersion(ctx, "p", one.SHA256[:8]); err != nil || versions != 2 || v.Version != "1.0.0" {
		t.Errorf("got %d versions, %+v, %v", versions, v, err)
	}
	ok(c.DeletePluginVersion(ctx, "p", "2.0.0", false, client.Condition{}))
	_, err = c.DeactivatePlugin(ctx, "p", client.Condition{})
	ok(err)
	ok(c.DeletePlugin(ctx, "p", false, client.Condition{}))
	if _, err := c.Plugin(ctx, "p"); !errors.As(err, &refused) || refused.Code != api.CodeUnknownPlugin {
		t.Errorf("a deleted plugin: got %v", err)
	}
	for p, err := range c.Plugins(ctx) {
		t.Errorf("still there: %+v %v", p, err)
	}
}
