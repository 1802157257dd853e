package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
)

// shop is a server as a stranger sees it: a real engine on disk behind real HTTP, which can be restarted on its data, and whose
// clock can be put forward. Unlike fixture it does not check answers against the document, which takes longer than making them.
type shop struct {
	testing.TB
	dir     string
	address string
	client  *http.Client
	engine  *engine.Engine
	base    time.Time    // where the clock stands still; zero: it runs
	ahead   atomic.Int64 // by how much the clock is put forward
	draws   atomic.Uint64
	stop    func()
	staged  func(*shop, *prometheus.Registry) *plugins.Catalogue // makes the plugins of each server; nil: it has none
	crew    *crew                                                // the nodes that stand for the server; nil: it is alone
}

// now is the time of the server's clock.
func (s *shop) now() time.Time {
	at := s.base
	if at.IsZero() {
		at = time.Now()
	}
	return at.Add(time.Duration(s.ahead.Load()))
}

func newShop(t testing.TB) *shop { return newShopAt(t, time.Time{}) }

// newShopAt has a clock that stands at a time and moves when the test says so, unless the time is zero.
func newShopAt(t testing.TB, base time.Time) *shop { return newShopWith(t, base, nil) }

// newShopWith is newShopAt with plugins.
func newShopWith(t testing.TB, base time.Time, staged func(*shop, *prometheus.Registry) *plugins.Catalogue) *shop {
	t.Helper()
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	// The server closes connections that were opened and not used for a while. A request that is just being sent on such a one fails.
	transport := &http.Transport{MaxIdleConnsPerHost: 2000, IdleConnTimeout: defaultPatience().header / 2}
	t.Cleanup(transport.CloseIdleConnections)
	s := &shop{TB: t, dir: t.TempDir(), client: &http.Client{Transport: transport}, base: base, staged: staged}
	s.draws.Store(seed)
	if *nodeCount > 0 {
		s.crew = newCrew(t, seed)
		s.client.Transport = s.crew
	}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *shop) start() {
	s.Helper()
	s.stop = func() {} // nothing runs, should the start fail
	if s.crew != nil {
		s.engine, s.address = s.crew.start(s.serverOn), "127.0.0.1" // the crew's transport finds a node
		s.stop = func() { s.crew.stop() }
		return
	}
	listener := listenHere(s)
	s.engine, s.stop = s.serverOn(s.dir, nil, listener)
	s.address = listener.Addr().String()
}

func listenHere(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// serverOn starts a server on a folder, which is a node of a cluster if that is not nil.
func (s *shop) serverOn(dir string, in *engine.Cluster, listener net.Listener) (*engine.Engine, func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	next := func() uint64 { return s.draws.Add(0x9e3779b97f4a7c15) }
	registry, logger := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	engineOptions := engine.Options{Dir: dir, Now: s.now, Seed: next, Registerer: registry, BallastBytes: -1, Cluster: in}
	options := Options{
		Now: s.now, Wall: time.Now, Seed: next, Logger: logger, Registerer: registry, Gatherer: registry, Version: api.Version{Version: "0.0.0-test", Go: "go"},
	}
	var held *plugins.Catalogue
	if s.staged != nil {
		held = s.staged(s, registry)
		engineOptions.Scorers, options.Plugins, engineOptions.Changed = held, held, held.Reload
	}
	e, err := engine.Open(ctx, engineOptions)
	if err != nil {
		cancel()
		s.Fatal(err)
	}
	closePlugins := func() {}
	if held != nil {
		closePlugins = openPlugins(s, held, e)
	}
	options.Engine = e
	server, err := New(options)
	if err != nil {
		cancel()
		s.Fatal(err)
	}
	e.Nodes().Speak(server)
	ended := make(chan error, 2)
	go func() { ended <- e.Run(ctx) }()
	go func() { ended <- server.Serve(ctx, listener) }()
	return e, func() {
		s.Helper()
		cancel()
		for range 2 {
			if err := <-ended; err != nil && !s.crew.dying() {
				s.Errorf("stop: %v", err)
			}
		}
		closePlugins()
		if err := e.Close(); err != nil && !s.crew.dying() {
			s.Errorf("close: %v", err)
		}
	}
}

// engines are those of all nodes.
func (s *shop) engines() []*engine.Engine {
	if s.crew == nil {
		return []*engine.Engine{s.engine}
	}
	return s.crew.engines()
}

// alone skips a test that looks into the files of a server, or puts its hands on the parts of it.
func (s *shop) alone() {
	s.Helper()
	if s.crew != nil {
		s.Skip("it is about the files or the parts of one server")
	}
}

// restart ends the server and starts another one on the same data: ledgers are gone, and reservations stay.
func (s *shop) restart() {
	s.Helper()
	s.stop()
	s.client.CloseIdleConnections()
	s.start()
}

// kill starts another server on the present files, as they would be after kill -9: reservations are gone too. Nothing
// may be on its way to the disk.
func (s *shop) kill() {
	s.Helper()
	if s.crew != nil {
		s.crew.kill()
		s.start()
		return
	}
	left := s.TempDir()
	if err := os.CopyFS(left, os.DirFS(s.dir)); err != nil {
		s.Fatal(err)
	}
	s.stop()
	s.client.CloseIdleConnections()
	s.dir = left
	s.start()
}

// ask sends a request and decodes its answer. It fails the test, but does not end it: other goroutines may call it too.
func (s *shop) ask(ctx context.Context, method, path string, body, into any) error {
	var out bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&out).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, &out)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", contentJSON)
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

func (s *shop) must(method, path string, body, into any) {
	s.Helper()
	if err := s.ask(s.Context(), method, path, body, into); err != nil {
		s.Fatal(err)
	}
}

// submit inserts a submission of a tenant: of the key "t".
func (s *shop) submit(tenant string, chunks uint32) (got api.Submission) {
	s.Helper()
	s.must("POST", insertPath, submission(chunks, "t", tenant), &got)
	return got
}

// submission has text values for keys.
func submission(chunks uint32, meta ...string) api.NewSubmission {
	n := api.NewSubmission{Meta: api.Meta{}, Chunks: api.Chunks{Count: chunks, Prefix: "x/"}}
	for i := 0; i < len(meta); i += 2 {
		n.Meta[meta[i]] = api.Text(meta[i+1])
	}
	return n
}

// retryAtOnce makes the queue offer failed or expired chunks again without a pause, and without a quota beside other
// work.
func (s *shop) retryAtOnce() {
	s.Helper()
	at := &api.Backoff{Factor: 1}
	var got api.Queue
	s.must("PUT", "/v1/queues/default", api.PutQueueRequest{Settings: api.QueueSettingsInput{RetryBackoff: at, ExpiryBackoff: at, SuspectShare: new(1.0)}}, &got)
}

// weigh sets the weight of a tenant.
func (s *shop) weigh(tenant string, weight float64) {
	s.Helper()
	var got api.ValueCount
	s.must("PUT", "/v1/queues/default/meta-keys/t/values/"+tenant, map[string]any{"weight": weight}, &got)
}

// request asks for chunks, held for so long that no test outlasts it.
func request(strategy string, most int) api.ReserveRequest {
	text, err := json.Marshal(strategy)
	if err != nil {
		panic(err)
	}
	return api.ReserveRequest{Max: most, Strategy: text, TimeoutMS: (20 * time.Hour).Milliseconds()}
}

// take reserves n chunks, `each` per call, and fails when there are fewer.
func (s *shop) take(strategy string, n, each int) (got []api.Reservation) {
	s.Helper()
	for len(got) < n {
		var answer api.ReserveResponse
		s.must("POST", reservePath, request(strategy, min(each, n-len(got))), &answer)
		if len(answer.Reservations) == 0 {
			s.Fatalf("%s gave %d chunks, want %d; reason %s", strategy, len(got), n, *answer.Reason)
		}
		got = append(got, answer.Reservations...)
	}
	return got
}

// complete finishes chunks; every one must be accepted.
func (s *shop) complete(list ...api.Reservation) {
	s.Helper()
	for i, status := range s.finish(list...) {
		if status != api.StatusOK {
			s.Fatalf("completing chunk %s/%d: %s", list[i].Submission, list[i].Index, status)
		}
	}
}

func (s *shop) finish(list ...api.Reservation) (statuses []string) {
	s.Helper()
	body := api.CompleteRequest{}
	for i := range list {
		body.Items = append(body.Items, api.CompleteItem{Token: list[i].Token})
	}
	var got api.ResultsResponse
	s.must("POST", reservePath+"/complete", body, &got)
	for i := range got.Results {
		statuses = append(statuses, got.Results[i].Status)
	}
	return statuses
}

// fail ends a try of each chunk.
func (s *shop) fail(fatal bool, list ...api.Reservation) {
	s.Helper()
	body := api.FailRequest{}
	for i := range list {
		body.Items = append(body.Items, api.FailItem{Token: list[i].Token, Error: "on purpose", Fatal: fatal})
	}
	var got api.ResultsResponse
	s.must("POST", reservePath+"/fail", body, &got)
	for i := range got.Results {
		if got.Results[i].Status != api.StatusOK {
			s.Fatalf("failing chunk %s/%d: %+v", list[i].Submission, list[i].Index, got.Results[i])
		}
	}
}

func (s *shop) stats() (got api.Stats) {
	s.Helper()
	s.must("GET", "/v1/queues/default/stats", nil, &got)
	return got
}

// tenant is whose chunk it is.
func tenant(r *api.Reservation) string { return r.Meta["t"].Text() }

// chunk is which one it is.
func chunk(r *api.Reservation) string { return fmt.Sprintf("%s/%d", r.Submission, r.Index) }

// counts are how many chunks each tenant has of a list.
func counts(list []api.Reservation) map[string]int {
	n := map[string]int{}
	for i := range list {
		n[tenant(&list[i])]++
	}
	return n
}
