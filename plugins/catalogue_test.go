package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// The test binary is its own compiling child: the real thing under real limits.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "plugin-compile" {
		os.Exit(compile.Child(os.Args[2:], os.Stdin, os.Stderr))
	}
	os.Exit(m.Run())
}

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a catalogue over a real store in a directory.
type world struct {
	testing.TB
	*plugins.Catalogue
	clock    *clock
	dir      string
	store    *store.Catalogue
	registry *prometheus.Registry
	log      *lockedText
	change   func(*plugins.Options)
	stop     func()
	idle     bool // Run is not started

	over      func(*store.Catalogue) plugins.Store // stands before the store; nil: nothing does
	unstarted bool                                 // nothing is opened but by Run, or by the test

	queues plugins.Queues
}

type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func open(t testing.TB, change func(*plugins.Options)) *world {
	t.Helper()
	w := &world{TB: t, clock: &clock{now: time.UnixMilli(1_800_000_000_000)}, dir: t.TempDir(), log: &lockedText{}, change: change}
	w.start()
	t.Cleanup(func() { w.end() })
	return w
}

func (w *world) start() {
	w.Helper()
	var err error
	if w.store, err = store.OpenCatalogue(context.Background(), filepath.Join(w.dir, "quern.db")); err != nil {
		w.Fatal(err)
	}
	w.registry = prometheus.NewRegistry()
	o := plugins.Options{
		Dir: filepath.Join(w.dir, "compiled"), Child: wasmtest.Child("plugin-compile"), Now: w.clock.Now, Limits: plugins.DefaultLimits(),
		Logger: slog.New(slog.NewTextHandler(w.log, nil)), Registerer: w.registry,
	}
	o.Limits.CompileMemory, o.Limits.CompileCPU = childMemory, childCPU
	o.Limits.Host.StartWait = 0 // tests do not depend on how fast this machine is
	if w.change != nil {
		w.change(&o)
	}
	if w.Catalogue, err = plugins.New(o); err != nil {
		w.Fatal(err)
	}
	var kept plugins.Store = w.store
	if w.over != nil {
		kept = w.over(w.store)
	}
	if err := w.Catalogue.Open(kept, w.queues); err != nil {
		w.Fatal(err)
	}
	if !w.unstarted {
		w.Catalogue.Start(context.Background())
	}
	if w.idle {
		w.stop = func() {}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ran; err != nil {
			w.Errorf("run: %v", err)
		}
	}
}

func (w *world) end() {
	w.Helper()
	if w.stop == nil {
		return
	}
	w.stop()
	w.stop = nil
	if err := errors.Join(w.Catalogue.Close(), w.store.Close()); err != nil {
		w.Errorf("close: %v", err)
	}
}

// declare is a manifest.
func declare(name, version string, columns []string, more string) []byte {
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = fmt.Sprintf("%q", c)
	}
	return fmt.Appendf(nil, `{"name":%q,"version":%q,"abi":1,"columns":[%s],"window":{"max":1024}%s}`, name, version, strings.Join(quoted, ","), more)
}

// send uploads a module that must pass.
func (w *world) send(module, manifest []byte) api.PluginVersion {
	w.Helper()
	v, _, err := w.Versions.Upload(w.Context(), plugins.Upload{Module: module, Manifest: manifest, By: queue.Who{Actor: "test"}})
	if err != nil {
		w.Fatalf("upload: %v", err)
	}
	return v
}

// activate activates a version that must work.
func (w *world) activate(v api.PluginVersion) api.Plugin {
	w.Helper()
	p, err := w.Rollout.Activate(w.Context(), v.Name, api.PluginSelection{Version: v.SHA256}, plugins.Change{By: queue.Who{Actor: "test"}})
	if err != nil {
		w.Fatalf("activate: %v", err)
	}
	return p
}

// scorer asks for the scorer of a plugin as the engine does.
func (w *world) scorer(b *strategy.Scored) strategy.Scorer {
	w.Helper()
	if _, err := w.Check(w.Context(), b); err != nil {
		w.Fatalf("check: %v", err)
	}
	s, ok := w.Scorer(b)
	if !ok {
		w.Fatalf("nothing scores for %+v; log %s", b, w.log.String())
	}
	return s
}

// window is a window of i64 columns.
func window(seed uint64, columns ...[]int64) *strategy.Window {
	out := &strategy.Window{Now: 1_800_000_000_000, Seed: seed, Want: 2}
	for _, c := range columns {
		out.Rows = len(c)
		out.Columns = append(out.Columns, strategy.Values{Numbers: c})
	}
	return out
}

// two are the manifest's columns that wasmtest.Scorer reads: both must be of the type i64.
var two = []string{"priority", "submission_id"}

// score scores a window that must work.
func score(t testing.TB, s strategy.Scorer, w *strategy.Window) []float64 {
	t.Helper()
	scores := make([]float64, w.Rows)
	if err := s.Score(t.Context(), w, scores); err != nil {
		t.Fatalf("score: %v", err)
	}
	return scores
}

// problems are the details of an error of CodeInvalid.
func problems(t testing.TB, err error) string {
	t.Helper()
	var known *queue.Error
	if !errors.As(err, &known) || known.Code != queue.CodeInvalid {
		t.Fatalf("got %v, want an error of the code %s", err, queue.CodeInvalid)
	}
	var lines []string
	for _, p := range known.Problems {
		lines = append(lines, p.Pointer+" "+p.Detail)
	}
	return strings.Join(lines, "\n")
}

// From bytes to scores: a module is uploaded, activated, and scores for a strategy; the same bytes again are the same version.
func TestUploadActivateScore(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	module := wasmtest.ScorerWith(abi.ManifestSection, declare("boost", "1.0.0", two, ""))
	v, created, err := w.Versions.Upload(t.Context(), plugins.Upload{Module: module, By: queue.Who{Actor: "me"}})
	if err != nil || !created || v.State != api.PluginReady || v.CreatedBy != "me" || v.Version != "1.0.0" {
		t.Fatalf("got %+v %v %v, want a new ready version", v, created, err)
	}
	if r := v.Report; !(r.FuelPerCandidate > 0) || r.MemoryPages != 1 || r.SkipShare != 0 || !r.Deterministic || r.Rows != 256 || r.FromCache {
		t.Errorf("got the report %+v, want some fuel, one page, nothing skipped, deterministic", r)
	}
	again, created, err := w.Versions.Upload(t.Context(), plugins.Upload{Module: module})
	if err != nil || created || again.SHA256 != v.SHA256 || again.CreatedBy != "me" {
		t.Errorf("the same bytes again: got %+v %v %v, want the first version", again, created, err)
	}
	block := &strategy.Scored{Plugin: "boost"}
	if resting, err := w.Check(w.Context(), block); err != nil || resting == nil || !resting.Inactive {
		t.Errorf("check of an inactive plugin: got %v %v, want that it is inactive, which is no error: its branch yields nothing", resting, err)
	}
	if _, ok := w.Scorer(block); ok {
		t.Error("an inactive plugin scores")
	}
	p := w.activate(v)
	if p.State != "active" || p.Revision != 1 || p.Active == nil || p.Active.SHA256 != v.SHA256 {
		t.Errorf("got %+v, want it active at revision 1", p)
	}
	s := w.scorer(block)
	if got := fmt.Sprint(s.Reads()); got != fmt.Sprint([]strategy.Column{{Property: strategy.Priority}, {Property: strategy.ID}}) {
		t.Errorf("reads %v", got)
	}
	if normal, most := s.Rows(); normal != 256 || most != 1024 || s.Spread() {
		t.Errorf("rows %d %d, spread %v; want 256 1024 false", normal, most, s.Spread())
	}
	if got := score(t, s, window(1, []int64{1, 2, -3}, []int64{0, 1, 2})); fmt.Sprint(got) != "[10 15 -40]" {
		t.Errorf("got %v, want [10 15 -40]", got)
	}
	if _, err := w.Rollout.Deactivate("boost", plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.Scorer(block); ok {
		t.Error("a plugin scores after it was deactivated")
	}
}

// goGuest builds testdata/guest with the plain toolchain, once.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "quern-guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, out := filepath.FromSlash("testdata/guest"), filepath.Join(dir, "guest.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, ".")
	build.Dir, build.Env = source, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the guest: %w: %s", err, said)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	list := exec.Command("go", "run", ".")
	list.Dir = source
	said, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("printing the manifest: %w", err)
	}
	return manifest.Pack(module, said)
})

func nan(v float64) bool { return math.IsNaN(v) }

func abiPack(module, text []byte) ([]byte, error) { return manifest.Pack(module, text) }
