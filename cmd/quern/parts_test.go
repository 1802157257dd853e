package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/web"
)

// loopFunc is a part that runs along.
type loopFunc func(ctx context.Context) error

func (f loopFunc) Run(ctx context.Context) error { return f(ctx) }

// turnSpans report the first turn of a bulk operation, and hold it up until goOn is closed.
type turnSpans struct {
	begun chan struct{}
	goOn  <-chan struct{}
	ended func()
}

func (turnSpans) Emit(string, string) engine.Span { return nil }

func (s turnSpans) Bulk(*queue.Bulk) engine.Span {
	close(s.begun)
	<-s.goOn
	return s
}

func (turnSpans) Context() string { return "" }

func (s turnSpans) End(int, error) { s.ended() }

// A turn that ends after the server began to stop still has its span sent: the tracer stops when the engine has ended.
func TestTracerStopsLast(t *testing.T) {
	t.Parallel()
	var tracing, along context.Context
	started := make(chan struct{}, 2)
	follow := func(to *context.Context) loop {
		return loopFunc(func(ctx context.Context) error {
			*to = ctx
			started <- struct{}{}
			<-ctx.Done()
			return nil
		})
	}
	stopping := make(chan struct{}) // the parts that run along are stopping
	spans := turnSpans{begun: make(chan struct{}), goOn: stopping, ended: func() {
		if along.Err() == nil || tracing.Err() != nil {
			t.Errorf("at the end of a turn the parts have stopped for %v, and the tracer for %v; want the parts only", along.Err(), tracing.Err())
		}
	}}
	logger, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	config, err := load(t, "", nil, []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	held, err := newPlugins(config, registry, logger)
	if err != nil {
		t.Fatal(err)
	}
	core, err := engine.Open(t.Context(), engine.Options{
		Dir: config.Data, Now: time.Now, Seed: rand.Uint64, Registerer: registry, Logger: logger, BallastBytes: -1, Spans: spans,
	})
	if err != nil {
		t.Fatal(err)
	}
	face, err := web.New(web.Options{Engine: core, Plugins: held, Now: time.Now, Seed: rand.Uint64, Logger: logger, Registerer: registry, Gatherer: registry})
	if err != nil {
		t.Fatal(err)
	}
	listeners, err := listen(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	parts := []loop{follow(&along), loopFunc(func(ctx context.Context) error { <-ctx.Done(); close(stopping); return nil })}
	go func() { ended <- runParts(ctx, core, held, parts, follow(&tracing), face, listeners, func() {}) }()
	<-started
	<-started
	q, err := core.Queue(engine.DefaultQueue)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Bulks.Start(t.Context(), queue.BulkRequest{Action: queue.BulkCancel}); err != nil {
		t.Fatal(err)
	}
	<-spans.begun
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
