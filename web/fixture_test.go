package web

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// fixture is a server on the real engine, on real disk, over real HTTP; every answer is checked against the document.
type fixture struct {
	testing.TB
	server  *Server
	dir     string // of the engine
	engine  *engine.Engine
	plugins *plugins.Catalogue
	address string
	client  *http.Client
	log     *lockedBuffer
	draws   atomic.Uint64
	crew    *crew // the nodes that stand for the server; nil: it is alone
}

// newFixture opens the engine in a fresh directory. The seed of its draws is printed when the test fails.
func newFixture(t testing.TB) *fixture { return newFixtureSeeded(t, rand.Uint64()) }

// newFixtureSeeded takes changes to make to the server before it serves.
func newFixtureSeeded(t testing.TB, seed uint64, change ...func(*Server)) *fixture {
	t.Helper()
	var crew *crew
	if *nodeCount > 0 {
		crew = newCrew(t, seed)
	}
	return newFixtureOn(t, crew, seed, change...)
}

// newFixtureOn is newFixtureSeeded with the nodes that stand for the server; nil: it is alone.
func newFixtureOn(t testing.TB, crew *crew, seed uint64, change ...func(*Server)) *fixture {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	f := &fixture{TB: t, dir: t.TempDir(), log: new(lockedBuffer)}
	f.draws.Store(seed)
	if crew != nil {
		f.crew = crew
		f.engine, f.address = crew.start(func(dir string, in *engine.Cluster, at net.Listener) (*engine.Engine, func()) {
			return f.serverOn(dir, in, at, change...)
		}), "127.0.0.1" // the crew's transport finds a node
		t.Cleanup(crew.stop)
		check := newValidating(t, f.server)
		check.next = crew
		f.client = &http.Client{Transport: check}
		return f
	}
	listener := listenHere(t)
	f.address = listener.Addr().String()
	_, stop := f.serverOn(f.dir, nil, listener, change...)
	t.Cleanup(stop)
	f.client = &http.Client{Transport: newValidating(t, f.server)}
	return f
}

// alone skips a test that looks into the files of a server, or into the server itself.
func (f *fixture) alone() {
	f.Helper()
	if f.crew != nil {
		f.Skip("it is about the files or the parts of one server")
	}
}

// serverOn starts a server on a folder, which is a node of a cluster if that is not nil.
func (f *fixture) serverOn(dir string, in *engine.Cluster, listener net.Listener, change ...func(*Server)) (*engine.Engine, func()) {
	f.Helper()
	next := func() uint64 { return f.draws.Add(0x9e3779b97f4a7c15) }
	logger := slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	held := newPlugins(f, registry, logger)
	e, err := engine.Open(ctx, engine.Options{Scorers: held, Dir: dir, Now: time.Now, Seed: next, Registerer: registry, Logger: logger,
		BallastBytes: -1, Cluster: in, Changed: held.Reload})
	if err != nil {
		cancel()
		f.Fatal(err)
	}
	closePlugins := openPlugins(f, held, e)
	s, err := New(Options{
		Engine: e, Plugins: held, Now: time.Now, Seed: next, Logger: logger, Registerer: registry, Gatherer: registry,
		Version: api.Version{Version: "0.0.0-test", Go: "go"},
		Node:    api.Node{Name: "here", URL: "http://127.0.0.1:7700", Since: api.At(time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC))},
		Config:  []api.ServerOption{{Option: "log_level", Value: "warn", Source: "flag", Default: "info", Limit: "debug, info, warn or error", Help: "the least severe kind of log line that is written"}},
	})
	if err != nil {
		cancel()
		f.Fatal(err)
	}
	for _, c := range change {
		c(s)
	}
	e.Nodes().Speak(s)
	f.server, f.engine, f.plugins = s, e, held
	ran, served := make(chan error, 1), make(chan error, 1)
	serving, stopServing := context.WithCancel(context.Background())
	go func() { ran <- e.Run(ctx) }()
	go func() { served <- s.Serve(serving, listener) }()
	return e, func() {
		stopServing()
		err := <-served
		closePlugins()
		cancel()
		if err := errors.Join(err, <-ran, e.Close()); err != nil {
			f.Errorf("stop: %v", err)
		}
	}
}

func (f *fixture) send(c call) answer {
	f.Helper()
	return send(f, f.client, f.address, c)
}

// do sends a request that must answer with status, and decodes the answer unless into is nil.
func (f *fixture) do(method, path, body string, status int, into any) answer {
	f.Helper()
	got := f.send(call{method: method, path: path, body: body})
	if got.status != status {
		f.Fatalf("%s %s %s: got %d, want %d: %s", method, path, body, got.status, status, got.body)
	}
	if into != nil {
		got.decode(f, into)
	}
	return got
}

const insertPath = "/v1/queues/default/submissions"

// insert makes a submission in the default queue.
func (f *fixture) insert(body string) api.Submission {
	f.Helper()
	var out api.Submission
	f.do("POST", insertPath, body, 201, &out)
	return out
}

// reserve takes chunks of the default queue.
func (f *fixture) reserve(body string) api.ReserveResponse {
	f.Helper()
	var out api.ReserveResponse
	f.do("POST", reservePath, body, 200, &out)
	return out
}

// reserveOne takes exactly one chunk.
func (f *fixture) reserveOne() api.Reservation {
	f.Helper()
	got := f.reserve(`{"max":1}`)
	if len(got.Reservations) != 1 {
		f.Fatalf("reserve: got %+v, want one chunk", got)
	}
	return got.Reservations[0]
}

// results sends items to complete, fail, extend or release.
func (f *fixture) results(verb, items string) []api.Result {
	f.Helper()
	var out api.ResultsResponse
	f.do("POST", reservePath+"/"+verb, `{"items":[`+items+`]}`, 200, &out)
	return out.Results
}

// waiters waits until n reserve calls are parked in the default queue. It yields instead of sleeping.
func (f *fixture) waiters(n uint64) {
	f.Helper()
	for {
		stats := queueAt(f.engine, engine.DefaultQueue).Stats()
		if stats.ConsumersWaiting >= n {
			return
		}
		select {
		case <-f.Context().Done():
			f.Fatal("the test ended before the consumers waited")
		case <-time.After(time.Millisecond):
		}
	}
}

// newPlugins makes a catalogue of plugins; this binary compiles for it.
func newPlugins(t testing.TB, registry *prometheus.Registry, logger *slog.Logger) *plugins.Catalogue {
	t.Helper()
	limits := plugins.DefaultLimits()
	limits.Host.Deadline *= 50 // these tests share their machine with others
	limits.Host.StartWait = 0
	if raceDetector {
		limits.CompileMemory, limits.CompileCPU = 0, slowCompile
	}
	c, err := plugins.New(plugins.Options{
		Dir: t.TempDir(), Child: wasmtest.Child("plugin-compile"), Now: time.Now, Limits: limits, Logger: logger, Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// openPlugins opens it over the engine's store.
func openPlugins(t testing.TB, c *plugins.Catalogue, e *engine.Engine) (end func()) {
	t.Helper()
	if err := c.Open(e.PluginStore(), e); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := errors.Join(<-ran, c.Close()); err != nil {
			t.Errorf("plugins: %v", err)
		}
	}
}

// queueAt is a queue that serves.
func queueAt(e *engine.Engine, name string) *engine.Queue {
	q, err := e.Queue(name)
	if err != nil {
		panic(err)
	}
	return q
}

// slowCompile is the limit of processor time of a compiling child under the race detector, which slows it down many times, and alone
// reserves more address space than any limit.
const slowCompile = 40 * time.Second
