package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/web"
	"github.com/quern-queue/quern/web/certificate"
	"github.com/quern-queue/quern/web/trace"
)

// serveCommand runs a server until it is stopped.
func serveCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: "Run a server on one data directory until SIGTERM, SIGINT or SIGHUP. It then accepts no new calls, answers " +
			"the waiting ones,\n" +
			"commits their changes, saves the reservations, and exits. Another signal ends it at once, unless it comes within " +
			"a second,\n" +
			"and loses only the reservations. Once ready, it prints one line with its address.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := a.loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			return runServer(cmd.Context(), a, config, nil, func(url string) {
				where := "data in " + config.Data
				if config.Cluster.URL != "" {
					where = "data in the cluster of " + withoutPassword(config.Cluster.URL)
				}
				say(a.out, "quern: serving %s with %s\n", url, where)
			})
		},
	}
	a.configFlags(c)
	return c
}

// runServer builds the server's parts in order, runs them until ctx ends and takes them down in the reverse order. ready is
// called once with the server's address, when it answers. clock is nil but for tests of other programs.
func runServer(ctx context.Context, a *app, config Config, clock *testClock, ready func(url string)) error {
	// 1. The log.
	logger := newLogger(a, config)
	limitMemory(config.MemoryLimit)

	// 2. The addresses, first of all that can fail: a port in use must not touch the data.
	listeners, err := listen(ctx, config)
	if err != nil {
		return err
	}
	defer listeners.close() // web closes them when it gets that far; twice does no harm

	// 3. The metrics.
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	// 4. The place in the cluster, if there is one.
	on := founded{logger, listeners, registry, clock, nil, nil}
	if config.Cluster.URL == "" {
		return runEngine(ctx, a, config, on, ready)
	}
	place, err := join(ctx, &config, listeners, registry, logger)
	switch {
	case err != nil && ctx.Err() != nil: // the signal to end came before it had a place
		return nil
	case err != nil:
		return err
	}
	on.place, on.cluster = place, &engine.Cluster{Backend: place.backend, Node: place.Member}
	return errors.Join(runEngine(ctx, a, config, on, ready), place.leave())
}

// founded is the foundation of a server's parts.
type founded struct {
	logger    *slog.Logger
	listeners listeners
	registry  *prometheus.Registry
	clock     *testClock      // nil: the machine's
	cluster   *engine.Cluster // nil: the server is alone
	place     *joined         // in the cluster
}

// runEngine is runServer from the plugins on.
func runEngine(ctx context.Context, a *app, config Config, on founded, ready func(url string)) error {
	logger, listeners, registry := on.logger, on.listeners, on.registry

	// 5. The plugins: nothing of them is read before the engine has the data directory.
	catalogue, err := newPlugins(config, registry, logger)
	if err != nil {
		return err
	}

	// 6. The tracer; nil unless a collector is configured.
	tracer, err := newTracer(config, listeners.serving[0], registry, logger)
	if err != nil {
		return errors.Join(err, catalogue.Close())
	}

	// 7. The engine: opens the data directory, refuses one that is in use, and recovers.
	opened := time.Now()
	options := config.engine()
	options.Now, options.Seed, options.Registerer, options.Logger = on.clock.now, rand.Uint64, registry, logger
	options.Cluster, options.Changed = on.cluster, catalogue.Reload
	options.Fatal, options.Scorers, options.Spans = func(err error) { endAtOnce(logger, err) }, catalogue, web.OwnSpans(tracer)
	core, err := engine.Open(ctx, options)
	if err != nil {
		return errors.Join(err, catalogue.Close())
	}
	if on.cluster != nil {
		registry.MustRegister(places(core.Nodes().Placed))
	}
	logger.Info("data is open", "dir", config.Data, "took", time.Since(opened).Round(time.Millisecond))

	// 8. Load the plugin catalogue from the engine. Versions in use open while the server serves.
	if err := catalogue.Open(core.PluginStore(), core); err != nil {
		return errors.Join(err, catalogue.Close(), core.Close())
	}

	// 9. The backups that are made beside what serves; nil unless there is a folder for them.
	backups, err := newBackups(config, core, registry, logger)
	if err != nil {
		return errors.Join(err, catalogue.Close(), core.Close())
	}

	// 10. The certificate: below the data directory, if the server makes its own.
	cert, err := openCertificate(config, certificate.Options{Now: wallClock, Logger: logger, Registerer: registry})
	if err != nil {
		return errors.Join(err, catalogue.Close(), core.Close())
	}

	// 11. The HTTP server.
	server, err := web.New(web.Options{
		Engine: core, Plugins: catalogue, Now: on.clock.now, Moved: on.clock.mover(core), Wall: time.Now, Seed: rand.Uint64, Logger: logger,
		Registerer: registry, Gatherer: registry,
		Node: config.self(listeners), Nodes: on.place.nodes(core), Tracer: tracer, Certificate: cert, Limits: config.tokenLimits(),
		Connections: mostConnections(fileLimit()), Hosts: config.hosts(), Version: webVersion(), Config: config.shown(),
	})
	if err != nil {
		return errors.Join(err, catalogue.Close(), core.Close())
	}
	core.Nodes().Speak(server)
	whenReady := func() { tellReady(a, config, listeners, cert, ready) }
	return runParts(ctx, core, catalogue, []loop{catalogue, backups}, tracer, server, listeners, whenReady)
}

// tellReady prints the address of the server, and the fingerprint of a certificate that no one vouches for.
func tellReady(a *app, config Config, at listeners, cert *certificate.Source, ready func(url string)) {
	ready(config.url(at)) // the kernel takes connections from here on, and Serve answers them
	if config.Listen != "" && config.Socket != "" {
		say(a.out, "quern: also at %s%s\n", socketScheme, config.Socket)
	}
	if at.probes != nil {
		say(a.out, "quern: probes and metrics at http://%s\n", at.probes.Addr())
	}
	if config.TLSSelfSigned {
		say(a.out, "quern: self-signed certificate, SHA-256 fingerprint %s; clients trust it by "+
			"--server-fingerprint, or by --server-ca with a copy of %s\n",
			cert.Fingerprint(), filepath.Join(config.Data, tlsFolder, "self-signed.crt"))
	}
}

// listeners are the open addresses of a server.
type listeners struct {
	serving []net.Listener // the address, then the Unix socket, where there are
	probes  net.Listener   // nil: none of its own
}

func listen(ctx context.Context, config Config) (out listeners, err error) {
	open := func(address string, listen func() (net.Listener, error)) (to net.Listener) {
		if err == nil && address != "" {
			if to, err = listen(); err != nil {
				err = fmt.Errorf("cannot listen on %s: %w", address, err)
				if errors.Is(err, syscall.EADDRINUSE) {
					err = fmt.Errorf("%w: another program, perhaps another Quern, has it. Stop that one, or choose another address "+
						"with --listen; port 0 picks a free one", err)
				}
			}
		}
		return to
	}
	tcp := func(address string) net.Listener {
		return open(address, func() (net.Listener, error) { return new(net.ListenConfig).Listen(ctx, "tcp", address) })
	}
	for _, one := range []net.Listener{
		tcp(config.Listen),
		open(config.Socket, func() (net.Listener, error) { return listenSocket(ctx, config.Socket) }),
	} {
		if one != nil {
			out.serving = append(out.serving, one)
		}
	}
	out.probes = tcp(config.MetricsListen)
	if err != nil {
		out.close()
	}
	return out, err
}

func (l listeners) close() {
	for _, one := range append([]net.Listener{l.probes}, l.serving...) {
		if one != nil {
			one.Close()
		}
	}
}

// engine are the engine's options as far as the configuration says them.
func (c *Config) engine() engine.Options {
	return engine.Options{
		Dir:             c.Data,
		Auth:            c.guarded(),
		BallastBytes:    c.BallastBytes,
		CheckpointBytes: c.FoldBytes,
		SnapshotDir:     c.SnapshotDir,
		SnapshotBytes:   c.SnapshotBytes,
		RecountEvery:    c.RecountEvery,
		AuditKeep:       c.AuditKeep,
		ViewMemory:      c.ViewMemory,
		MaxLive:         c.MaxLive,
		MaxMemory:       c.MemoryLimit,
		Memory:          measured(c.MemoryLimit),
		MetricKeys:      c.MetricKeys,
	}
}

// wallClock and bootClock are the clocks of this machine. Tests give processes clocks that are off.
var wallClock, bootClock = time.Now, sinceBoot

// newPlugins makes the catalogue of plugins. This program compiles for it, in a process of its own.
func newPlugins(config Config, registry *prometheus.Registry, logger *slog.Logger) (*plugins.Catalogue, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find the program that compiles plugins: %w", err)
	}
	limits := plugins.DefaultLimits()
	limits.Memory = config.PluginMemory
	limits.Instances = max(limits.Instances, runtime.GOMAXPROCS(0))
	return plugins.New(plugins.Options{
		Dir: filepath.Join(config.Data, "plugins"), Child: []string{self, compileCommandName}, Now: wallClock, Limits: limits,
		Logger: logger, Registerer: registry,
	})
}

// newTracer makes who sends spans to a collector; nil if none is configured.
func newTracer(config Config, listener net.Listener, registry *prometheus.Registry, logger *slog.Logger) (*trace.Tracer, error) {
	if config.OTLPEndpoint == "" {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost" // it only distinguishes servers
	}
	instance := host
	if _, port, err := net.SplitHostPort(listener.Addr().String()); err == nil { // a Unix socket has no port
		instance = net.JoinHostPort(host, port)
	}
	return trace.New(trace.Options{
		Endpoint: config.OTLPEndpoint, Headers: config.OTLPHeaders, Ratio: config.OTLPRatio, Now: wallClock,
		Seed: rand.Uint64, Logger: logger, Registerer: registry,
		Version: thisVersion().Version, Instance: instance,
	})
}

// handOverMost is how long a node of a cluster still serves after the signal to end, so that other nodes take its queues over.
const handOverMost = 20 * time.Second

// loop is a part that runs along until its context ends.
type loop interface {
	Run(ctx context.Context) error
}

// runParts runs the loops of the engine and of the parts along with it, and the HTTP server, until ctx ends or one of
// them fails. The server stops first: when it is down no request waits for the engine any more, which then commits what is
// left and closes. The tracer goes last: turns and emissions end while the engine closes, and their spans with them.
func runParts(ctx context.Context, core *engine.Engine, catalogue *plugins.Catalogue, along []loop, tracer loop, server *web.Server,
	at listeners, ready func()) error {
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		handing, stop := context.WithTimeout(serverCtx, handOverMost)
		defer stop()
		core.Nodes().HandOver(handing)
		stopServer()
	})
	loopsCtx, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	tracerCtx, stopTracer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	defer stopLoops()
	var traced sync.WaitGroup
	traced.Go(func() { _ = tracer.Run(tracerCtx) }) // it never fails
	defer traced.Wait()
	defer stopTracer()
	loops := make(chan error, 1)
	var probed error // the error of the listener for probes
	go func() {
		var beside sync.WaitGroup // parts that end with their context and never fail
		for _, part := range along {
			beside.Go(func() { _ = part.Run(loopsCtx) })
		}
		if at.probes != nil { // to the end, so that a probe sees the server stop
			beside.Go(func() {
				if probed = server.ServeProbes(loopsCtx, at.probes); probed != nil {
					stopServer()
				}
			})
		}
		err := core.Run(loopsCtx)
		stopServer()
		beside.Wait()
		loops <- err
	}()
	ready()
	served := server.Serve(serverCtx, at.serving...)
	stopLoops()
	ran := <-loops
	if errors.Is(ran, context.Canceled) {
		ran = nil
	}
	return errors.Join(served, probed, ran, catalogue.Close(), core.Close())
}

// newLogger writes to stderr, where the log does not mix with output for scripts.
func newLogger(a *app, config Config) *slog.Logger {
	o := &slog.HandlerOptions{Level: config.LogLevel}
	if config.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.err, o))
	}
	return slog.New(slog.NewTextHandler(a.err, o))
}

// endAtOnce ends the process when the disk did not keep data that it had accepted. Then no one can know which data of the memory is
// on disk, and the next start recovers from the disk.
func endAtOnce(logger *slog.Logger, err error) {
	logger.Error("ending at once: the state on disk is unknown; a restart recovers it", "error", err)
	os.Exit(exitFailure)
}

// filesForData are left for the data: 256 queues have ten files each, and checkpoints, backups and plugins open some for a while.
const filesForData = 4096

// mostConnections is how many connections may be open when this many files may: all but those for the data, but at least half. 0: any
// number.
func mostConnections(files int) int { return max(files-filesForData, files/2) }
