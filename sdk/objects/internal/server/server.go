// Package server is a real Quern server within the process, for the tests of this module.
package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/web"
)

// Start starts a server on a loopback address; end ends it.
func Start(dir string) (address string, end func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	registry, silent := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	core, err := engine.Open(ctx, engine.Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, Registerer: registry, Logger: silent, BallastBytes: -1})
	if err != nil {
		cancel()
		return "", nil, err
	}
	face, err := web.New(web.Options{Engine: core, Now: time.Now, Seed: rand.Uint64, Logger: silent, Registerer: registry,
		Gatherer: registry, Version: api.Version{Version: "0.0.0-test", Go: "go"}})
	var listener net.Listener
	if err == nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
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
		err := <-served
		cancel()
		if run := <-ran; !errors.Is(run, context.Canceled) {
			err = errors.Join(err, run)
		}
		return errors.Join(err, core.Close())
	}, nil
}
