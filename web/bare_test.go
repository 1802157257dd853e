package web

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// bareServer is a server whose engine is not open: enough for answers that need no use case.
func bareServer(t testing.TB) *Server {
	t.Helper()
	return serverOf(t, new(engine.Engine))
}

// openServer is a server with the queue default, which is empty.
func openServer(t testing.TB) *Server {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Now: time.Now, Seed: rand.Uint64, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return serverOf(t, e)
}

func serverOf(t testing.TB, e *engine.Engine) *Server {
	t.Helper()
	registry := prometheus.NewRegistry()
	s, err := New(Options{
		Engine: e, Now: time.Now, Seed: func() uint64 { return 7 },
		Logger:     slog.New(slog.NewTextHandler(io.Discard, nil)),
		Registerer: registry, Gatherer: registry, Hosts: []string{"quern.example"},
		Version: api.Version{Version: "0.0.0-test", Go: "go"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
