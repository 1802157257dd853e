package objects_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/prometheus/client_golang/prometheus"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/web"
)

// startServer starts a real server on a loopback address.
func startServer(dir string) (address string, end func() error, err error) {
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

func connect(t *testing.T) *client.Client {
	t.Helper()
	c, _ := connectTo(t)
	return c
}

func connectTo(t *testing.T) (c *client.Client, address string) {
	t.Helper()
	address, end, err := startServer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("ending the server: %v", err)
		}
	})
	c, err = client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, address
}

// buckets are the addresses of a bucket of files, and of one on a server that speaks S3, of which the AWS SDK knows nothing more
// than of any other.
func buckets(t *testing.T) map[string]string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	stored := s3mem.New()
	if err := stored.CreateBucket("work"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(stored).Server())
	t.Cleanup(server.Close)
	return map[string]string{
		"files": "file://" + t.TempDir() + "?no_tmp_dir=true",
		"S3":    fmt.Sprintf("s3://work?region=us-east-1&use_path_style=true&prefix=below/&endpoint=%s", url.QueryEscape(server.URL)),
	}
}

func open(t *testing.T, address string) *blob.Bucket {
	t.Helper()
	bucket, err := blob.OpenBucket(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	return bucket
}

// exampleServer is a server whose data is thrown away.
func exampleServer() (address string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "quern")
	if err != nil {
		return "", nil, err
	}
	address, end, err := startServer(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return address, func() {
		if err := errors.Join(end(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}, nil
}
