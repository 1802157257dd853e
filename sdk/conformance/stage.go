package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Options is the only argument of a client under test, as JSON.
type Options struct {
	Scenario    string   `json:"scenario"`
	Role        string   `json:"role"` // work, produce, stream or many
	Addresses   []string `json:"addresses"`
	Direct      bool     `json:"direct,omitempty"`
	Token       string   `json:"token,omitempty"`
	Consumer    string   `json:"consumer,omitempty"`
	Concurrency int      `json:"concurrency,omitempty"`
	Prefetch    int      `json:"prefetch,omitempty"`
	TimeoutMS   int64    `json:"timeout_ms,omitempty"`
	WaitMS      int64    `json:"wait_ms,omitempty"`
	Log         bool     `json:"log,omitempty"`    // the worker has no callback for errors: the client logs them
	Chunks      []string `json:"chunks,omitempty"` // of a producer: the inline contents to insert
}

// Scenario is one history that a client has to get through.
type Scenario struct {
	Name       string
	About      string // a sentence that says how the client has to react
	Sequential bool   // a client of the tier sequential has to pass it, too
	Options    Options
	Chunks     []string // of a worker: the contents that the server has for it
	Before     func(s *server)
	Play       func(s *stage)
}

// Tier says how much a client can do.
type Tier string

// The tiers.
const (
	Full       Tier = "full"
	Sequential Tier = "sequential" // it works on one chunk at a time, of one server, and does not attach
)

// in says whether a client of a tier has to pass a scenario.
func (sc *Scenario) in(tier Tier) bool { return tier == Full || sc.Sequential }

// tier is the smallest tier that has to pass a scenario.
func (sc *Scenario) tier() Tier {
	if sc.Sequential {
		return Sequential
	}
	return Full
}

// patience is how long the suite waits for the next thing that a client has to do, unless -timeout says otherwise. It is
// for a client that hangs: nothing is judged by it otherwise. Clients wait ten seconds for a first hello that does not come.
const patience = 30 * time.Second

// stage is one scenario being played. Its first error stays, and ends what follows.
type stage struct {
	*server
	ctx      context.Context
	tier     Tier
	err      error
	patience time.Duration
	process  *exec.Cmd
	stderr   strings.Builder // guarded by the server's lock, as lines is
	lines    []string        // of the client's standard output
	exited   chan struct{}

	nowhere    string // the address of that name
	handshakes int    // connections that the client made to the untrusted server; guarded as lines is
	nodes      []*passing
}

// play runs a client through a scenario and says what it did wrong.
func play(ctx context.Context, sc *Scenario, tier Tier, patience time.Duration, command []string) error {
	dir, err := os.MkdirTemp("", "quern-conformance-*")
	if err != nil {
		return fmt.Errorf("conformance: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := sc.Options
	o.fill(sc.Name, tier)
	s := &stage{server: newServer(dir, o), tier: tier, ctx: ctx, patience: patience, exited: make(chan struct{})}
	for _, content := range sc.Chunks {
		s.chunks = append(s.chunks, &chunk{content: content})
	}
	if sc.Before != nil {
		sc.Before(s.server)
	}
	if err := s.listen(); err != nil {
		return err
	}
	defer func() { s.shut() }()
	go s.sweep()
	defer close(s.quit)
	defer s.addresses(&o)()
	if err := s.start(command, &o); err != nil {
		return err
	}
	sc.Play(s)
	return s.verdict()
}

func (o *Options) fill(name string, tier Tier) {
	o.Scenario = name
	o.Role = cmp.Or(o.Role, "work")
	if o.Role != "work" {
		return
	}
	o.Consumer = "under-test"
	o.Concurrency = max(o.Concurrency, 1)
	o.Prefetch = max(o.Prefetch, 1)
	if tier == Sequential {
		o.Concurrency, o.Prefetch = 1, 0
	}
	// beyond the length of a scenario: a routine extension hides nothing that was to come at once
	o.TimeoutMS = cmp.Or(o.TimeoutMS, 600_000)
	o.WaitMS = cmp.Or(o.WaitMS, 20_000)
}

// The names that stand for addresses in a scenario.
const (
	here      = "here"      // the played server
	elsewhere = "elsewhere" // a server that answers every call with 503 moved
	stale     = "stale"     // a node that answers every call with 421 and the played server as the owner
	another   = "another"   // a node that passes every call on to the played server, and names it as the owner
	third     = "third"     // one more such node
	nowhere   = "nowhere"   // an address where no one listens
	untrusted = "untrusted" // a server whose certificate no one vouches for
)

// addresses puts real addresses in the place of those of the scenario.
func (s *stage) addresses(o *Options) (stop func()) {
	if len(o.Addresses) == 0 {
		o.Addresses = []string{here}
	}
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, value := problem(http.StatusServiceUnavailable, "moved", "Another server has this queue.")
		write(w, http.StatusServiceUnavailable, value)
	}))
	hereURL := "http://" + s.address
	outdated := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, value := problem(http.StatusMisdirectedRequest, api.CodeMoved, "Another node has this queue.")
		w.Header().Set("Quern-Owner", hereURL)
		write(w, http.StatusMisdirectedRequest, value)
	}))
	for range 2 {
		s.nodes = append(s.nodes, s.passOn(hereURL))
	}
	strange := s.strange()
	s.nowhere = "127.0.0.1:2" // below the ports that the kernel gives to other servers; fetch refuses to call port 1
	real := map[string]string{here: hereURL, elsewhere: moved.URL, nowhere: "http://" + s.nowhere, untrusted: strange.URL,
		stale: outdated.URL, another: s.nodes[0].URL, third: s.nodes[1].URL}
	o.Addresses = slices.Clone(o.Addresses)
	for i, name := range o.Addresses {
		o.Addresses[i] = real[name]
	}
	return func() {
		for _, server := range []*httptest.Server{moved, strange, outdated, s.nodes[0].Server, s.nodes[1].Server} {
			kill(server)
		}
	}
}

// kill ends a server as a crash does.
func kill(server *httptest.Server) {
	server.Listener.Close()
	server.CloseClientConnections()
	server.Close()
}

// passing is a node that passes calls on to the played server.
type passing struct {
	*httptest.Server
	calls int          // guarded by the stage's lock
	gate  sync.RWMutex // held: calls wait
}

func (s *stage) passOn(owner string) *passing {
	p := new(passing)
	p.Server = httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1, // streams go through as they come
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			p.gate.RLock()
			defer p.gate.RUnlock()
			s.mu.Lock()
			p.calls++
			s.mu.Unlock()
			r.Out.URL.Scheme, r.Out.URL.Host = "http", s.address
		},
		ModifyResponse: func(answer *http.Response) error {
			answer.Header.Set("Quern-Owner", owner)
			return nil
		},
	})
	return p
}

// start starts the client and reads its output.
func (s *stage) start(command []string, o *Options) error {
	argument, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("conformance: %w", err)
	}
	s.process = exec.CommandContext(s.ctx, command[0], append(slices.Clone(command[1:]), string(argument))...)
	s.process.Stderr = errorsOf{s}
	s.process.WaitDelay = time.Second
	out, err := s.process.StdoutPipe()
	if err != nil {
		return fmt.Errorf("conformance: %w", err)
	}
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("conformance: start the client: %w", err)
	}
	go func() {
		defer close(s.exited)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			s.mu.Lock()
			s.lines = append(s.lines, lines.Text())
			s.change()
			s.mu.Unlock()
		}
		io.Copy(io.Discard, out)
		s.process.Wait() // its status is in ProcessState
	}()
	return nil
}

// errorsOf takes a client's standard error.
type errorsOf struct{ *stage }

func (s errorsOf) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change()
	return s.stderr.Write(p)
}

// await waits until something is the case.
func (s *stage) await(what string, is func() bool) {
	if s.err != nil {
		return
	}
	ctx, done := context.WithTimeout(s.ctx, s.patience)
	defer done()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !is() {
		select {
		case <-s.exited:
			s.err = fmt.Errorf("the client ended before %s", what)
			return
		case <-ctx.Done():
			s.err = fmt.Errorf("waited too long until %s", what)
			return
		default:
		}
		s.rest(ctx)
	}
}

// stands says whether the client's stream stands, where it has one. The caller holds the lock.
func (s *stage) stands() bool { return s.tier == Sequential || s.attached == 1 }

// said says whether the client has said a line.
func (s *stage) said(line string) bool { return slices.Contains(s.lines, line) }

func (s *stage) awaitLine(line string) {
	s.await(fmt.Sprintf("the client says %q", line), func() bool { return s.said(line) })
}

// awaitDone waits until all chunks are done or dead.
func (s *stage) awaitDone() {
	s.await("all chunks are finished", func() bool {
		return !slices.ContainsFunc(s.chunks, func(c *chunk) bool { return c.state != done && c.state != dead })
	})
}

// pass lets some time go by.
func (s *stage) pass(some time.Duration) {
	until := time.Now().Add(some)
	s.await("a moment passes", func() bool { return time.Now().After(until) })
}

// do changes something under the lock, unless something went wrong before.
func (s *stage) do(change func()) {
	if s.err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.change()
}

// check is a rule that must hold now.
func (s *stage) check(holds bool, format string, values ...any) {
	if !holds {
		s.accuse(format, values...)
	}
}

// open lets chunks go on that wait for the file "go".
func (s *stage) open() {
	if s.err == nil {
		s.err = os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600)
	}
}

// terminate asks the client to drain.
func (s *stage) terminate() {
	if s.err == nil {
		s.err = s.process.Process.Signal(syscall.SIGTERM)
	}
}

// leave ends a worker in an orderly way: it has to end with the status 0, detached, and without anything in its hands.
func (s *stage) leave() {
	s.terminate()
	s.awaitExit(0)
	s.do(func() {
		s.check(s.detached, "it left without detaching")
		s.check(s.heldNow() == 0, "it left with %d chunks in its hands", s.heldNow())
	})
}

// awaitExit waits for the end of the client.
func (s *stage) awaitExit(want int) {
	if s.err != nil {
		return
	}
	select {
	case <-s.exited:
	case <-time.After(s.patience):
		s.err = errors.New("the client did not end")
		return
	}
	if got := s.process.ProcessState.ExitCode(); got != want {
		s.err = fmt.Errorf("the client ended with the status %d, want %d", got, want)
	}
}

// verdict ends what still runs and puts together what was wrong.
func (s *stage) verdict() error {
	if s.err != nil {
		s.process.Process.Kill()
	}
	select {
	case <-s.exited:
	case <-time.After(s.patience):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check(s.mostHeld <= s.capacity, "it held %d chunks at once, want at most %d", s.mostHeld, s.capacity)
	if s.err == nil && len(s.broken) == 0 {
		return nil
	}
	var text strings.Builder
	if s.err != nil {
		fmt.Fprintln(&text, s.err)
	}
	for _, sentence := range s.broken {
		fmt.Fprintln(&text, sentence)
	}
	fmt.Fprintf(&text, "it said: %s\n", strings.Join(s.lines, " | "))
	fmt.Fprintf(&text, "it called: %s\n", s.history())
	if said := s.stderr.String(); said != "" {
		fmt.Fprintf(&text, "its standard error: %s\n", strings.TrimSpace(said[max(0, len(said)-4000):]))
	}
	return errors.New(strings.TrimSpace(text.String()))
}

// history are the calls, with the milliseconds since the first.
func (s *stage) history() string {
	var words []string
	for _, c := range s.calls[:min(len(s.calls), 60)] {
		words = append(words, fmt.Sprintf("%s@%d", c.verb, c.at.Sub(s.calls[0].at).Milliseconds()))
	}
	return strings.Join(words, " ")
}
