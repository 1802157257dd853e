package web

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// declared is a manifest for the columns that wasmtest.Scorer reads.
func declared(name, version string, columns ...string) string {
	return fmt.Sprintf(`{"name":%q,"version":%q,"abi":1,"columns":[%s],"window":{"max":1024}}`, name, version, `"`+strings.Join(columns, `","`)+`"`)
}

// upload sends a module as application/wasm with its manifest in it.
func (f *fixture) upload(module []byte, text string, status int) answer {
	f.Helper()
	packed, err := manifest.Pack(module, []byte(text))
	if err != nil {
		f.Fatal(err)
	}
	got := f.send(call{method: "POST", path: "/v1/plugins", body: string(packed), header: map[string]string{"Content-Type": contentWasm}})
	if got.status != status {
		f.Fatalf("upload: got %d %s, want %d", got.status, got.body, status)
	}
	return got
}

// A plugin is uploaded to a running server, activated, and decides the order in which chunks are handed out. A second
// version takes over and is rolled back.
func TestPluginDecidesTheOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 6 {
		f.insert(fmt.Sprintf(`{"chunks":{"count":1,"template":"t%d"},"priority":%d}`, i, []int{3, 1, 4, 1, 5, 9}[i]))
	}
	first := f.upload(wasmtest.Scorer(), declared("order", "1.0.0", "priority", "age_ms"), 201)
	var v api.PluginVersion
	first.decode(t, &v)
	if v.State != api.PluginReady || !(v.Report.FuelPerCandidate > 0) || first.header.Get("Location") != "/v1/plugins/order/versions/"+v.SHA256 {
		t.Errorf("got %+v at %q, want it ready with a report", v, first.header.Get("Location"))
	}
	var again api.PluginVersion
	f.upload(wasmtest.Scorer(), declared("order", "1.0.0", "priority", "age_ms"), 200).decode(t, &again)
	if again.SHA256 != v.SHA256 || again.CreatedAt != v.CreatedAt {
		t.Errorf("the same bytes: got %+v, want %+v", again, v)
	}
	take := func(strategy string) string {
		t.Helper()
		var texts []string
		got := f.reserve(`{"max":1,"strategy":` + strconv.Quote(strategy) + `}`)
		for _, r := range got.Reservations {
			text := string(r.Content.Bytes)
			texts = append(texts, text)
		}
		return strings.Join(texts, " ")
	}
	const strategy = `OrElse(Plugin("order", NewestFirst), OldestFirst)`
	if got := take(strategy); got != "t0" {
		t.Errorf("inactive: got %q, want t0 by the fallback", got)
	}
	var p api.Plugin
	f.do("POST", "/v1/plugins/order/activate", `{"version":"1.0.0"}`, 200, &p)
	if got := take(strategy); got != "t5" {
		t.Errorf("version 1: got %q, want t5, whose priority is highest", got)
	}
	// The second version reads the priority the other way around: the lowest goes first.
	negative := `{"name":"order","version":"2.0.0","abi":1,"columns":["limit:none","priority"],"window":{"max":1024}}`
	f.upload(wasmtest.Scorer(), negative, 201)
	got := f.send(call{method: "POST", path: "/v1/plugins/order/activate", body: `{"version":"2.0.0"}`, header: map[string]string{"If-Match": `"r7"`}})
	if got.status != 412 {
		t.Errorf("a wrong If-Match: got %d, want 412", got.status)
	}
	got = f.send(call{method: "POST", path: "/v1/plugins/order/activate", body: `{"version":"2.0.0"}`, header: map[string]string{"If-Match": p.ETag}})
	if got.status != 200 || got.header.Get("ETag") != `"r2"` {
		t.Errorf("the right If-Match: got %d with %q, want 200 at revision 2", got.status, got.header.Get("ETag"))
	}
	if got := take(strategy); got != "t3" {
		t.Errorf("version 2: got %q, want t3, the newest of the lowest priority", got)
	}
	f.do("POST", "/v1/plugins/order/rollback", ``, 200, &p)
	if p.Active.Version != "1.0.0" || p.Previous.Version != "2.0.0" {
		t.Errorf("rolled back: got %+v", p)
	}
	if got := take(strategy); got != "t4" {
		t.Errorf("version 1 again: got %q, want t4", got)
	}
	if got := take(`OrElse(Plugin("order@2.0.0", OldestFirst), OldestFirst)`); got != "t1" {
		t.Errorf("pinned to version 2: got %q, want t1", got)
	}
	if got := take(`Score(priority, OldestFirst)`); got != "t2" {
		t.Errorf("a formula: got %q, want t2", got)
	}
	module := f.send(call{method: "GET", path: "/v1/plugins/order/versions/" + v.SHA256[:8] + "/wasm"})
	if text, err := manifest.Extract(module.body); err != nil || module.header.Get("ETag") != `"`+v.SHA256+`"` || string(text) != declared("order", "1.0.0", "priority", "age_ms") {
		t.Errorf("downloaded: %v, %s", err, text)
	}
	problem := f.send(call{method: "DELETE", path: "/v1/plugins/order"}).problem(t)
	if problem.Code != "conflict" {
		t.Errorf("deleting an active plugin: got %+v", problem)
	}
	f.do("GET", "/v1/plugins", "", 200, nil)
	f.do("GET", "/v1/plugins/order/versions", "", 200, nil)
	f.do("POST", "/v1/plugins/order/versions/2.0.0/dry-run", `{}`, 200, nil)
	var stats api.PluginStats
	f.do("GET", "/v1/plugins/order/stats", "", 200, &stats)
	if stats.Batches != 4 || stats.Fallbacks != 1 || len(stats.Faults) != 0 {
		t.Errorf("got %+v, want four batches and one fallback", stats)
	}
}

// A manifest can stand beside its module, for languages that cannot embed one; unknown parts are refused.
func TestPluginUploadForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	form := func(parts ...string) call {
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		for i := 0; i < len(parts); i += 2 {
			field, err := w.CreateFormFile(parts[i], parts[i])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := field.Write([]byte(parts[i+1])); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return call{method: "POST", path: "/v1/plugins", body: body.String(), header: map[string]string{"Content-Type": w.FormDataContentType()}}
	}
	text := declared("beside", "1.0.0", "priority", "age_ms")
	if got := f.send(form("manifest", text, "module", string(wasmtest.Scorer()), "config", "{}")); got.status != 201 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	f.upload(wasmtest.Scorer(), text, 200) // the same bytes once the manifest is in them
	for want, c := range map[string]call{
		"/colour":         form("colour", "red"),
		"/module":         form("manifest", text),
		"/manifest":       form("manifest", strings.Repeat(" ", 65<<10), "module", "x"),
		"/config/nothing": form("module", string(wasmtest.Scorer()), "manifest", strings.Replace(text, "1.0.0", "1.0.1", 1), "config", `{"nothing":1}`),
	} {
		got := f.send(c)
		if p := got.problem(t); got.status != 422 || len(p.Errors) == 0 || p.Errors[0].Pointer != want {
			t.Errorf("want a problem at %s, got %d %s", want, got.status, got.body)
		}
	}
	large := f.send(call{method: "POST", path: "/v1/plugins", body: string(wasmtest.Header) + strings.Repeat("x", 5<<20), header: map[string]string{"Content-Type": contentWasm}})
	if large.status != 413 {
		t.Errorf("5 MiB: got %d, want 413", large.status)
	}
}

// Every hostile module is refused over HTTP with its errors, while the server hands out chunks. Nothing of it is kept.
//
//quern:overlapping
func TestHostilePluginsOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert(`{"chunks":{"count":100000,"template":"x"}}`)
	var group sync.WaitGroup
	stop := make(chan struct{})
	served := 0
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if len(f.reserve(`{"max":1}`).Reservations) != 1 {
					t.Error("nothing was handed out")
					return
				}
				served++
			}
		}
	})
	for _, hostile := range wasmtest.Corpus() {
		if hostile.Stage == wasmtest.Run {
			continue
		}
		got := f.send(call{method: "POST", path: "/v1/plugins", body: string(hostile.Build()), header: map[string]string{"Content-Type": contentWasm}})
		if got.status != 422 && got.status != 413 && !(got.status == 415 && len(hostile.Build()) == 0) {
			t.Errorf("%s: got %d %s", hostile.Name, got.status, shorten(got.body))
		} else if hostile.Stage == wasmtest.Scan && got.status == 422 && !bytes.Contains(got.body, []byte(hostile.Rule)) {
			t.Errorf("%s: got %s, want %s", hostile.Name, shorten(got.body), hostile.Rule)
		}
	}
	close(stop)
	group.Wait()
	var page api.Page[api.Plugin]
	f.do("GET", "/v1/plugins", "", 200, &page)
	if len(page.Items) != 0 || served == 0 {
		t.Errorf("kept %+v, handed out %d chunks meanwhile", page.Items, served)
	}
}

// A plugin that never ends costs its own branch only: the same call hands out chunks by the fallback, three times, and then it is not
// asked any more.
//
//quern:overlapping
func TestPluginBehaviour10EndlessPluginFallsBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 5 {
		f.insert(fmt.Sprintf(`{"chunks":{"count":1,"template":"t%d"}}`, i))
	}
	f.upload(wasmtest.Moody(wasmtest.NotDry(), wasmtest.Endless()), declared("endless", "1.0.0", "priority", "age_ms"), 201)
	f.do("POST", "/v1/plugins/endless/activate", `{"version":"1.0.0"}`, 200, nil)
	for i := range 4 {
		got := f.reserve(`{"max":1,"strategy":"OrElse(Plugin(\"endless\", NewestFirst), OldestFirst)"}`)
		if len(got.Reservations) != 1 {
			t.Fatalf("call %d: got %+v, want one chunk", i, got)
		}
		if text := string(got.Reservations[0].Content.Bytes); text != fmt.Sprintf("t%d", i) {
			t.Errorf("call %d: got %q, want the oldest", i, text)
		}
	}
	var p api.Plugin
	f.do("GET", "/v1/plugins/endless", "", 200, &p)
	var stats api.PluginStats
	f.do("GET", "/v1/plugins/endless/stats", "", 200, &stats)
	if p.State != "open" || stats.Faults["fuel"] != 3 || stats.Fallbacks != 4 {
		t.Errorf("got %s, %+v; want it open after 3 faults for fuel and 4 fallbacks", p.State, stats)
	}
	metrics := f.send(call{method: "GET", path: "/metrics"})
	if want := `quern_plugin_faults_total{plugin="endless",reason="fuel",version="1.0.0"} 3`; !bytes.Contains(metrics.body, []byte(want)) {
		t.Errorf("/metrics has no %s", want)
	}
	recordings := f.send(call{method: "GET", path: "/v1/plugins/endless/recordings/1"})
	if record, err := abi.ReadRecord(recordings.body); err != nil || record.Scores != nil || record.Batch.Rows == 0 {
		t.Errorf("the recording of the first fault: %v %v", record, err)
	}
	f.do("POST", "/v1/plugins/endless/reset", "", 200, &p)
	if p.State != "active" {
		t.Errorf("after a reset: got %s", p.State)
	}
}
