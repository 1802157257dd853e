package web

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// pluginScene is a scene whose server has plugins. Their clock is the scene's, so that a breaker's seconds pass when the test says so.
type pluginScene struct {
	*scene
	log    *lockedBuffer
	change func(*plugins.Options) // of the catalogue that the next start makes; nil: as it is
}

func newPluginScene(t testing.TB, change func(*plugins.Options)) *pluginScene {
	t.Helper()
	s := &pluginScene{log: new(lockedBuffer), change: change}
	staged := func(shop *shop, registry *prometheus.Registry) *plugins.Catalogue {
		o := plugins.Options{
			Dir: filepath.Join(shop.dir, "plugins"), Child: wasmtest.Child("plugin-compile"), Now: shop.now, Limits: plugins.DefaultLimits(),
			Logger: slog.New(slog.NewTextHandler(s.log, nil)), Registerer: registry,
		}
		o.Limits.Host.StartWait = 0 // a batch waits for its sandbox, however slow this machine is
		if raceDetector {
			o.Limits.CompileMemory, o.Limits.CompileCPU = 0, slowCompile
		}
		if s.change != nil {
			s.change(&o)
		}
		c, err := plugins.New(o)
		if err != nil {
			shop.Fatal(err)
		}
		return c
	}
	s.scene = &scene{newShopWith(t, time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC), staged)}
	return s
}

// post uploads a module. A manifest that is not "" is packed into it.
func (s *pluginScene) post(module []byte, text string) answer {
	s.Helper()
	if text != "" {
		packed, err := manifest.Pack(module, []byte(text))
		if err != nil {
			s.Fatal(err)
		}
		module = packed
	}
	return send(s, s.client, s.address, call{method: "POST", path: "/v1/plugins", body: string(module), header: map[string]string{"Content-Type": contentWasm}})
}

// upload uploads a module that must be ready afterwards.
func (s *pluginScene) upload(module []byte, text string) (v api.PluginVersion) {
	s.Helper()
	got := s.post(module, text)
	if got.status != 201 {
		s.Fatalf("upload: got %d %s, want 201", got.status, got.body)
	}
	got.decode(s, &v)
	return v
}

// refusal uploads a module that must be refused as it is, and lists the errors: "pointer detail".
func (s *pluginScene) refusal(module []byte, text string) (wrong []string) {
	s.Helper()
	got := s.post(module, text)
	if got.status != 422 {
		s.Fatalf("upload: got %d %s, want 422", got.status, got.body)
	}
	for _, e := range got.problem(s).Errors {
		wrong = append(wrong, e.Pointer+" "+e.Detail)
	}
	return wrong
}

// use uploads a module for these columns and activates it.
func (s *pluginScene) use(module []byte, name string, columns ...string) api.PluginVersion {
	s.Helper()
	v := s.upload(module, declared(name, "1.0.0", columns...))
	s.activate(name, "1.0.0")
	return v
}

func (s *pluginScene) activate(name, version string) (p api.Plugin) {
	s.Helper()
	s.do("POST", "/v1/plugins/"+name+"/activate", api.PluginSelection{Version: version}, 200, &p)
	return p
}

func (s *pluginScene) plugin(name string) (p api.Plugin) {
	s.Helper()
	s.do("GET", "/v1/plugins/"+name, nil, 200, &p)
	return p
}

// reopen starts the server again, and waits until the plugins in use are open: they open while the server serves
// already.
func (s *pluginScene) reopen(after time.Duration) {
	s.Helper()
	s.scene.reopen(after)
	for starting := true; starting; {
		var all api.Page[api.Plugin]
		s.call("GET", "/v1/plugins", nil).decode(s, &all)
		starting = slices.ContainsFunc(all.Items, func(p api.Plugin) bool { return p.State == "starting" })
	}
}

func (s *pluginScene) pluginStats(name string) (stats api.PluginStats) {
	s.Helper()
	s.do("GET", "/v1/plugins/"+name+"/stats", nil, 200, &stats)
	return stats
}

// put inserts a submission into the default queue whose chunks all carry this text.
func (s *pluginScene) put(text string, chunks uint32, priority int64, meta api.Meta) api.Submission {
	s.Helper()
	return s.insert("", api.NewSubmission{Priority: priority, Meta: meta, Chunks: api.Chunks{Count: chunks, Template: text}})
}

// texts reserves up to so many chunks of the default queue and gives their texts, in the order in which they came.
func (s *pluginScene) texts(strategy string, most int) (texts []string) {
	s.Helper()
	for _, r := range s.reserve("", request(strategy, most)).Reservations {
		texts = append(texts, string(r.Content.Bytes))
	}
	return texts
}

// wantTexts fails unless a reserve gives exactly these.
func (s *pluginScene) wantTexts(strategy string, most int, want ...string) {
	s.Helper()
	if got := s.texts(strategy, most); !slices.Equal(got, want) {
		s.Errorf("%s, at most %d: got %q, want %q", strategy, most, got, want)
	}
}

// metric fails unless /metrics has this line.
func (s *pluginScene) metric(line string) {
	s.Helper()
	if got := s.call("GET", "/metrics", nil); !strings.Contains(string(got.body), line+"\n") {
		s.Errorf("/metrics has no line %s", line)
	}
}

// hostile is a module of the corpus.
func hostile(t testing.TB, name string) []byte {
	t.Helper()
	for _, h := range wasmtest.Corpus() {
		if h.Name == name {
			return h.Build()
		}
	}
	t.Fatalf("the corpus has no %s", name)
	return nil
}

// orElse is a strategy that goes on without the plugin.
func orElse(name string) string {
	return fmt.Sprintf(`OrElse(Plugin(%q, explore=0, OldestFirst), OldestFirst)`, name)
}
