package client_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// The list of reservations shows a handler's progress while it works, within the bounds of the server whatever the handler says.
// A chunk whose handler says nothing has none.
func TestProgressOnServer(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sub, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 2, Template: "{index}"}})
	if err != nil {
		t.Fatal(err)
	}
	next, end := make(chan struct{}), make(chan struct{})
	worked := make(chan error, 1)
	go func() {
		worked <- c.Work(ctx, client.WorkOptions{Concurrency: 2}, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
			if chunk.Index == 0 {
				chunk.Progress(0.4, "page 3")
				<-next
				chunk.Progress(math.Inf(1), "")
				chunk.Progress(math.NaN(), "page \xff")
				<-next
			}
			<-end
			return nil, nil
		})
	}()
	for _, want := range []struct {
		progress float64
		note     string
	}{{0.4, "page 3"}, {0, "page \ufffd"}} {
		seen := func() bool {
			for h, err := range c.Reservations(ctx, "default", api.HeldFilter{Submission: sub.ID}) {
				if err != nil {
					t.Fatal(err)
				}
				if h.Index == 1 && (h.Progress != nil || h.Note != "") {
					t.Fatalf("a chunk whose handler says nothing has %v, %q", h.Progress, h.Note)
				}
				if h.Index == 0 && h.Progress != nil && *h.Progress == want.progress && h.Note == want.note {
					return true
				}
			}
			return false
		}
		for !seen() {
			time.Sleep(10 * time.Millisecond)
		}
		next <- struct{}{}
	}
	close(end)
	if _, err := c.Wait(ctx, sub.ID); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-worked; err != nil {
		t.Errorf("Work: %v", err)
	}
	(&client.Chunk{}).Progress(0.5, "a chunk that a test made")
}
