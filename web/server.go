package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/web/certificate"
	"github.com/quern-queue/quern/web/trace"
)

// patience is how long the face waits for each phase of a request. A request that
// waits (long poll) or streams moves its own deadlines; all others live within
// these.
//
// Without an end to each phase, a client could hold a connection, a buffer or a place for as long
// as it likes by sending a byte now and then. OPERATIONS.md lists the limits for operators ("Slow
// clients").
type patience struct {
	header time.Duration // request line and headers
	read   time.Duration // headers and an ordinary body
	upload time.Duration // the body of an insert, or a module
	pause  time.Duration // within such a body
	write  time.Duration // the answer, counted from the end of the headers or of the wait
	idle   time.Duration // a kept-alive connection without a request
	stop   time.Duration // requests still running at shutdown
}

func defaultPatience() patience {
	return patience{
		header: 10 * time.Second, read: 30 * time.Second, pause: 10 * time.Second, write: 60 * time.Second,
		idle: 2 * time.Minute, stop: 10 * time.Second,
		upload: 5 * time.Minute, // 64 MiB at 2 Mbit/s
	}
}

// Size limits of the face.
const (
	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 1 << 20
	maxInsertBytes = queue.MaxInlineBytes

	// maxHeldUploads bounds the memory of all modules that are being uploaded, apart
	// from other bodies: uploads must not keep inserts out, nor the reverse.
	maxHeldUploads = 8 * maxUploadBytes

	// maxHeldBytes bounds the memory of all bodies over maxBodyBytes that are being read or
	// decoded. Eight of the largest fit; the next one is refused, and may come back.
	maxHeldBytes = 8 * maxInsertBytes
)

// Options has the parts of a Server. All fields up to Gatherer are required, but for Plugins and Wall.
type Options struct {
	Engine      *engine.Engine
	Plugins     *plugins.Catalogue // nil: operations on plugins answer 503
	Now         func() time.Time
	Wall        func() time.Time // the operating system's clock, by which deadlines of connections are set; nil: Now
	Seed        func() uint64    // chance: makes request ids of two runs differ
	Logger      *slog.Logger
	Registerer  prometheus.Registerer // gets the metrics of the face
	Gatherer    prometheus.Gatherer   // what /metrics shows
	Tracer      *trace.Tracer         // makes spans of the calls of producers and consumers; nil: none
	Certificate *certificate.Source   // what Serve shows over TLS; nil: it serves plain HTTP
	Limits      access.Limits         // of each access token
	Connections int                   // most that may be open, of all listeners; 0: any number
	Hosts       []string              // names beside the loopback ones that the Host header may carry, without port
	Version     api.Version           // what /version says
	Config      []api.ServerOption    // what /v1/config says: nothing in it may be secret

	Node  api.Node               // this server, without its queues
	Moved func(by time.Duration) // moves the clock of Now forward, for tests; nil: it cannot be moved

	// the nodes of the cluster, with their queues; nil: the server is alone
	Nodes func(context.Context) ([]api.Node, error)
}

// clock is the source of time of the face, with its patience.
type clock struct {
	now      func() time.Time
	wall     func() time.Time
	began    time.Time // paces count from then
	patience patience
}

// elapsed is the time since the server began.
func (c *clock) elapsed() time.Duration { return c.now().Sub(c.began) }

// Server is the HTTP API: the steps around every request, and the parts that resources share. No
// resource has the Server: each gets only the parts that it uses. Make one with New.
type Server struct {
	engine      *engine.Engine
	log         *slog.Logger
	hosts       hosts
	certificate *certificate.Source // nil: plain HTTP
	crossOrigin *http.CrossOriginProtection
	metrics     *metrics
	connections *connections
	echo        *echo.Echo
	gzip        func(http.Handler) http.HandlerFunc

	operations map[string]map[string]*operation // by echo path, then by method
	document   func() ([]byte, error)           // the OpenAPI document, made once

	// Resources get these as they need them.
	clock   *clock
	waits   *waits
	auth    *auth
	bodies  *bodies
	answers *answers
	streams *streams
	tracing *tracing

	forwarding *forwarding
}

// New builds the routes and the document. It fails on an allowed host that is not a bare name,
// on a metric that is already registered, and on an operation that cannot be documented.
func New(o Options) (*Server, error) {
	if o.Engine == nil || o.Now == nil || o.Seed == nil || o.Logger == nil || o.Registerer == nil || o.Gatherer == nil {
		return nil, errors.New("web: options: Engine, Now, Seed, Logger, Registerer and Gatherer are all required")
	}
	allowed, err := newHosts(o.Hosts)
	if err != nil {
		return nil, err
	}
	compress, err := newCompressor()
	if err != nil {
		return nil, fmt.Errorf("web: compression: %w", err)
	}
	if o.Wall == nil {
		o.Wall = o.Now
	}
	s := &Server{
		engine: o.Engine, log: o.Logger, hosts: allowed, certificate: o.Certificate,
		crossOrigin: http.NewCrossOriginProtection(),
		gzip:        compress, echo: echo.New(), tracing: &tracing{o.Tracer, o.Engine},
		clock: &clock{now: o.Now, wall: o.Wall, began: o.Now(), patience: defaultPatience()},
	}
	free := new(buffers)
	s.waits = &waits{clock: s.clock}
	s.auth = &auth{engine: o.Engine, clock: s.clock, waits: s.waits, limits: o.Limits,
		answers: access.Answers{Most: maxAnswers}}
	s.forwarding = newForwarding(o.Engine.Nodes(), s.auth, o.Logger)
	s.auth.far = &farSessions{nodes: o.Engine.Nodes(), through: s.forwarding, clock: s.clock}
	s.auth.hops = newHops(o.Engine.Nodes())
	s.bodies = &bodies{auth: s.auth, clock: s.clock, buffers: free}
	s.answers = &answers{constant: newConstant(), buffers: free, waits: s.waits,
		ids: requestIDs{prefix: strconv.FormatUint(o.Seed(), 36) + "-"}}
	s.streams = &streams{auth: s.auth, clock: s.clock, waits: s.waits, answers: s.answers,
		reading: make(chan struct{}, endsReaders)}
	if s.metrics, err = newMetrics(o.Registerer, o.Version, s.streams.count, &s.auth.answers); err != nil {
		return nil, err
	}
	if s.connections, err = newConnections(o.Registerer, o.Connections, o.Wall); err != nil {
		return nil, err
	}
	s.echo.Use(s.observe)
	s.forwarding.self = s.echo
	if s.forwarding.nodes != nil {
		lettersRoutes(s.echo, o.Engine, s.auth.hops)
		pluginUsersRoute(s.echo, o.Engine, s.auth.hops)
		pluginBreakersRoute(s.echo, o.Plugins, s.auth.hops)
		freshActsRoute(s.echo, o.Engine, s.auth.hops)
		farSessionsRoute(s.echo, s.auth)
		questionsRoute(s.echo, o.Engine, s.auth, s.bodies)
	}
	if o.Moved != nil {
		testClockRoute(s.echo, s.clock, o.Moved)
	}
	if err := s.routes(&o); err != nil {
		return nil, err
	}
	return s, nil
}

// Handler is the face as a plain handler, for embedding. Deadlines are those of the http.Server around it.
func (s *Server) Handler() http.Handler { return s.echo }

// Document is the OpenAPI 3.1 document as served at /openapi.json. The caller must not change it.
func (s *Server) Document() ([]byte, error) { return s.document() }

// Serve answers requests on listeners until ctx ends or one of them fails; then waiting calls answer
// at once, the others get some time to finish, and Serve returns. It returns nil when ctx has ended.
// If there is a certificate, it speaks TLS, except on Unix sockets. It owns the listeners.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.tidy(ctx) })
	ended := make(chan error, len(listeners))
	for _, listener := range listeners {
		server := s.listening(multiplexed(s.echo))
		if s.certificate != nil && listener.Addr().Network() != "unix" {
			server.TLSConfig = s.certificate.Config()
		}
		beside.Go(func() { ended <- s.serve(ctx, server, listener, s.Stop) })
	}
	var all error
	for range listeners {
		all = errors.Join(all, <-ended)
		done()
	}
	return all
}

// listening is a server of net/http with the face's limits.
func (s *Server) listening(handler http.Handler) *http.Server {
	return &http.Server{
		DisableGeneralOptionsHandler: true, // OPTIONS * is checked like every request
		Handler:                      handler,
		ReadHeaderTimeout:            s.clock.patience.header,
		ReadTimeout:                  s.clock.patience.read,
		WriteTimeout:                 s.clock.patience.write,
		IdleTimeout:                  s.clock.patience.idle,
		MaxHeaderBytes:               maxHeaderBytes,
		ConnContext:                  s.connections.enter,
		ConnState:                    s.connections.changed,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// serve runs server on listener until ctx ends, calls stop, and lets running requests finish.
func (s *Server) serve(ctx context.Context, server *http.Server, listener net.Listener, stop func()) error {
	served := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			served <- server.ServeTLS(listener, "", "") // the certificate is in the configuration
		} else {
			served <- server.Serve(listener)
		}
	}()
	select {
	case err := <-served:
		return fmt.Errorf("web: serve: %w", err)
	case <-ctx.Done():
	}
	stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.clock.patience.stop)
	defer cancel()
	err := server.Shutdown(grace)
	if err != nil {
		// A request that is still busy after the grace time is cut off: commits that were
		// acknowledged are safe.
		err = server.Close()
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		return fmt.Errorf("web: serve: %w", served)
	}
	if err != nil {
		return fmt.Errorf("web: shutdown: %w", err)
	}
	return nil
}

// Stop lets all calls that wait (long polls) answer now, and every later one at once.
// Serve calls it; those who use Handler call it themselves before they shut their server
// down. It may be called more than once.
func (s *Server) Stop() { s.waits.stop() }

// probes are the paths that ServeProbes answers, for a supervisor and Prometheus. None
// takes a body or changes anything.
var probes = []string{"/livez", "/readyz", "/metrics"}

// probing is where the context of a request says that it came in by the listener for
// probes, which asks for no token.
type probing struct{}

// isProbe says whether a request came in by that listener.
func isProbe(r *http.Request) bool { return r.Context().Value(probing{}) != nil }

// ServeProbes answers the probes, and nothing else, on a listener of their own until ctx ends; it
// returns nil then. It serves plain HTTP and asks for no token, so that a supervisor and Prometheus
// need no secret: anyone who can reach the address can read the metrics. It owns the listener.
func (s *Server) ServeProbes(ctx context.Context, listener net.Listener) error {
	only := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(probes, r.URL.Path) {
			http.Error(w, "This address serves "+strings.Join(probes, ", ")+" only.", http.StatusNotFound)
			return
		}
		s.echo.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), probing{}, true)))
	})
	return s.serve(ctx, s.listening(only), listener, func() {})
}
