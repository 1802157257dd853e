package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// consumerIs waits until the server says of a consumer what the test wants.
func consumerIs(t *testing.T, c *client.Client, name, what string, is func(*api.ConsumerDetail) bool) *api.ConsumerDetail {
	t.Helper()
	for {
		got, err := c.Consumer(t.Context(), "default", name, "", 0)
		if err == nil && is(got) {
			return got
		}
		if t.Context().Err() != nil {
			t.Fatalf("consumer %s is not %s: %+v, %v", name, what, got, err)
		}
	}
}

// A worker is attached while it works, obeys revoked and drain, and leaves in order: nothing that it held is missed or counted.
func TestWorkAttachesAndObeys(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	insert := func(chunks uint32) *api.Submission {
		s, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: chunks, Template: "{index}"}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := insert(1)
	begun, release := make(chan *client.Chunk, 10), make(chan struct{})
	ended := make(chan error, 10) // causes
	worked := make(chan error, 1)
	var drained atomic.Bool
	go func() {
		worked <- c.Work(ctx, client.WorkOptions{
			Consumer: "host 1/ä", Concurrency: 1, Prefetch: 2, Timeout: time.Hour,
			OnError: func(err error) {
				var lost *client.ChunkError
				switch {
				case errors.Is(err, client.ErrDrained):
					drained.Store(true)
				case !errors.As(err, &lost):
					t.Errorf("OnError: %v", err)
				}
			},
		}, func(ctx context.Context, chunk *client.Chunk) ([]byte, error) {
			begun <- chunk
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
				return nil, ctx.Err()
			case <-release:
				return []byte("done"), nil
			}
		})
	}()
	<-begun
	consumerIs(t, c, "host 1/ä", "attached with a chunk", func(d *api.ConsumerDetail) bool {
		return d.State == api.ConsumerAttached && len(d.Items) == 1 && d.Items[0].Submission == first.ID
	})
	if _, err := c.Cancel(ctx, first.ID); err != nil { // the reservation is for an hour: only the stream can tell so soon
		t.Fatal(err)
	}
	if cause := <-ended; !errors.Is(cause, client.ErrLost) {
		t.Errorf("cause after the cancel: got %v, want ErrLost", cause)
	}
	second := insert(3)
	<-begun
	if n, err := c.ReleaseConsumer(ctx, "default", "host 1/ä", "bo", "it hangs"); err != nil || n == 0 {
		t.Fatalf("release: got %d, %v; want some", n, err)
	}
	if cause := <-ended; !errors.Is(cause, client.ErrLost) {
		t.Errorf("cause after the release: got %v, want ErrLost", cause)
	}
	<-begun
	if got, err := c.DrainConsumer(ctx, "default", "host 1/ä"); err != nil || !got.Draining {
		t.Fatalf("drain: got %+v, %v", got, err)
	}
	// Chunks that it had reserved ahead go back. It may finish the chunk that it works on.
	consumerIs(t, c, "host 1/ä", "draining with one chunk", func(d *api.ConsumerDetail) bool { return len(d.Items) == 1 })
	close(release)
	if err := <-worked; err != nil || !drained.Load() {
		t.Errorf("Work ended with %v, ErrDrained reported: %v; want nil and true", err, drained.Load())
	}
	if got, err := c.Consumer(ctx, "default", "host 1/ä", "", 0); client.CodeOf(err) != api.CodeUnknownConsumer {
		t.Errorf("after it left: got %+v, %v; want %s", got, err, api.CodeUnknownConsumer)
	}
	s, err := c.Get(ctx, second.ID)
	if err != nil || s.Done != 1 || s.Ready != 2 || s.Reserved != 0 {
		t.Errorf("submission: got %+v, %v; want 1 done and 2 ready", s, err)
	}
	held, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: 10})
	if err != nil || len(held.Reservations) != 2 {
		t.Fatalf("reserve: got %+v, %v; want 2", held, err)
	}
	for _, r := range held.Reservations {
		if r.Attempt != 1 {
			t.Errorf("chunk %d: attempt %d, want 1: what was revoked or given back counts nothing", r.Index, r.Attempt)
		}
	}
}

// The calls about consumers one by one.
func TestConsumerCalls(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	if _, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 5, Template: "{index}"}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "a"} {
		if held, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: 2, Consumer: name}); err != nil || len(held.Reservations) != 2 {
			t.Fatalf("reserve: got %+v, %v", held, err)
		}
	}
	var names string
	for x, err := range c.Consumers(ctx, "default") {
		if err != nil || x.Reserved != 2 || x.State != api.ConsumerDetached {
			t.Errorf("consumers: got %+v, %v; want 2 reserved by a detached one", x, err)
		}
		names += x.Consumer
	}
	if names != "ab" {
		t.Errorf("consumers: got %q, want ab", names)
	}
	page, err := c.Consumer(ctx, "default", "a", "", 1)
	if err != nil || len(page.Items) != 1 || page.Next == "" {
		t.Fatalf("consumer: got %+v, %v; want one chunk and a cursor", page, err)
	}
	next, err := c.Consumer(ctx, "default", "a", page.Next, 1)
	if err != nil || len(next.Items) != 1 || next.Next != "" || next.Items[0].Index == page.Items[0].Index {
		t.Errorf("its next page: got %+v, %v; want the other chunk", next, err)
	}
	if got, err := c.QuietConsumer(ctx, "default", "a"); err != nil || !got.Quiet {
		t.Errorf("quiet: got %+v, %v", got, err)
	}
	if held, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: 2, Consumer: "a"}); err != nil || held.Reason == nil || *held.Reason != api.ReasonQuiet {
		t.Errorf("reserve of a quiet one: got %+v, %v; want the reason %s", held, err, api.ReasonQuiet)
	}
	if got, err := c.ResumeConsumer(ctx, "default", "a"); err != nil || got.Quiet {
		t.Errorf("resume: got %+v, %v", got, err)
	}
	if n, err := c.Detach(ctx, "default", "a"); err != nil || n != 2 {
		t.Errorf("detach: got %d, %v; want 2", n, err)
	}
	if _, err := c.DrainConsumer(ctx, "default", "a"); client.CodeOf(err) != api.CodeUnknownConsumer {
		t.Errorf("drain of one that left: got %v, want %s", err, api.CodeUnknownConsumer)
	}
}
