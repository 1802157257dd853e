//go:build unix

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// Over planned restarts no chunk is worked on twice, with clients that hold chunks while the server is away, and with traffic at full speed
// at the signal to end. The handlers are the oracle: they see work, and not what the server believes of it.
func TestPlannedRestartsRepeatNothing(t *testing.T) {
	t.Parallel()
	const clients, each, chunks = 20, 5, 6000
	program, dir := quernProgram(t), t.TempDir()
	start := func(address string) *launched {
		return launch(t, dir, program, "serve", "--data", filepath.Join(dir, "data"), "--listen", address)
	}
	server := start(freeAddress(t))
	url := server.url()
	restart := func() {
		server.tell(syscall.SIGTERM)
		server.ends(exitOK)
		server = start(strings.TrimPrefix(url, "http://"))
		server.url()
	}
	submitted(t, url, chunks)

	var seen sync.Map // index of a chunk -> how often a handler got it
	begun, permits := make(chan struct{}, 2*chunks), make(chan struct{})
	handle := func(ctx context.Context, c *client.Chunk) ([]byte, error) {
		if _, twice := seen.LoadOrStore(c.Index, true); twice {
			t.Errorf("chunk %d is worked on a second time", c.Index)
		}
		begun <- struct{}{}
		select {
		case <-permits:
		case <-ctx.Done():
			t.Errorf("the work on chunk %d is called off: %v", c.Index, context.Cause(ctx))
		}
		return nil, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range clients {
		c, err := client.New(url)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := c.Work(ctx, client.WorkOptions{Consumer: fmt.Sprint("worker-", i), Concurrency: each}, handle); err != nil {
				t.Errorf("worker %d: %v", i, err)
			}
		})
	}
	defer running.Wait()
	defer stop()
	for range clients * each { // all handlers hold a chunk
		<-begun
	}
	restart()
	go func() {
		for {
			select {
			case permits <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	statsUntil(t, program, url, func(s api.Stats) bool { return s.DoneTotal > chunks/5 })
	restart()
	statsUntil(t, program, url, func(s api.Stats) bool { return s.SubmissionsOpen == 0 })
}
