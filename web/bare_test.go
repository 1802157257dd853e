package web

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// bareServer is a server whose engine is not open: enough for what answers before any use case is called.
func bareServer(t testing.TB) *Server {
	t.Helper()
	registry := prometheus.NewRegistry()
	s, err := New(Options{
		Engine: new(engine.Engine), Now: time.Now, Seed: func() uint64 { return 7 },
		Logger:     slog.New(slog.NewTextHandler(io.Discard, nil)),
		Registerer: registry, Gatherer: registry, Hosts: []string{"quern.example"},
		Version: api.Version{Version: "0.0.0-test", Go: "go"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
