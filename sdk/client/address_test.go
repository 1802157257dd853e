package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/web"
)

// address returns the address of a real server on empty data, and the function that ends it and deletes the data. The
// examples call it; a program has the address of its server instead.
func address() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "quern-client-*")
	if err != nil {
		log.Fatal(err)
	}
	url, end, err := startServer(dir)
	if err != nil {
		log.Fatal(err)
	}
	return url, func() {
		if err := errors.Join(end(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}

// serve is address for tests.
func serve(t *testing.T) string {
	t.Helper()
	url, end, err := startServer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("ending the server: %v", err)
		}
	})
	return url
}

func startServer(dir string) (url string, end func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	registry := prometheus.NewRegistry()
	silent := slog.New(slog.DiscardHandler)
	core, err := engine.Open(ctx, engine.Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, Registerer: registry, Logger: silent, BallastBytes: -1})
	if err != nil {
		cancel()
		return "", nil, err
	}
	face, err := web.New(web.Options{Engine: core, Now: time.Now, Seed: rand.Uint64, Logger: silent, Registerer: registry, Gatherer: registry, Version: api.Version{Version: "0.0.0-test", Go: "go"}})
	if err != nil {
		cancel()
		return "", nil, errors.Join(err, core.Close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		return "", nil, errors.Join(err, core.Close())
	}
	faceCtx, stopFace := context.WithCancel(ctx)
	served, ran := make(chan error, 1), make(chan error, 1)
	go func() { ran <- core.Run(ctx) }()
	go func() { served <- face.Serve(faceCtx, listener) }()
	return "http://" + listener.Addr().String(), func() error {
		stopFace()
		errServed := <-served
		cancel()
		errRan := <-ran
		if errors.Is(errRan, context.Canceled) {
			errRan = nil
		}
		if err := errors.Join(errServed, errRan, core.Close()); err != nil {
			return fmt.Errorf("server: %w", err)
		}
		return nil
	}, nil
}
