package client_test

import (
	"context"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

const (
	first  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01;vendor=1, other=2"
	second = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// A submission that is inserted under a trace carries it to the consumer, whose handler inserts under it too. An option or a
// field of the submission overrides it for one insert.
func TestTraceGoesThrough(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	under := client.WithTraceContext(ctx, first)
	chunks := api.Chunks{Count: 1, Template: "x"}
	insert := func(ctx context.Context, n api.NewSubmission, options ...client.InsertOption) *api.Submission {
		t.Helper()
		n.Chunks = chunks
		s, err := c.Insert(ctx, "default", &n, options...)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = c.Get(ctx, s.ID); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, test := range map[string]struct{ got, want string }{
		"without":           {insert(ctx, api.NewSubmission{}).Trace, ""},
		"by the option":     {insert(under, api.NewSubmission{}, client.WithTrace(second)).Trace, second},
		"by the field":      {insert(under, api.NewSubmission{Trace: second}).Trace, second},
		"ended":             {insert(client.WithTraceContext(under, ""), api.NewSubmission{}).Trace, ""},
		"of another":        {insert(client.WithTraceContext(under, second), api.NewSubmission{}).Trace, second},
		"not one":           {insert(client.WithTraceContext(ctx, "nonsense"), api.NewSubmission{}).Trace, ""},
		"in a higher queue": {insert(under, api.NewSubmission{Priority: 9}).Trace, first},
	} {
		if test.got != test.want {
			t.Errorf("%s: the submission carries %q, want %q", name, test.got, test.want)
		}
	}
	streamed, err := c.InsertStream(under, "default", &api.NewSubmission{Priority: 8}, func(yield func([]byte, error) bool) { yield([]byte("x"), nil) })
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.Get(ctx, streamed.ID); err != nil || s.Trace != first {
		t.Errorf("as a stream: the submission carries %q, %v; want %q", s.Trace, err, first)
	}
	if _, err := c.Insert(client.WithTraceContext(ctx, "a\r\nEvil: 1"), "default", &api.NewSubmission{Chunks: chunks}); err == nil {
		t.Error("a trace with a line break is sent")
	}

	working, stop := context.WithCancel(ctx)
	defer stop()
	var follow *api.Submission
	err = c.Work(working, client.WorkOptions{Strategy: "CustomPriority", Prefetch: -1}, func(ctx context.Context, chunk *client.Chunk) ([]byte, error) {
		defer stop()
		if chunk.Trace != first || client.TraceContext(ctx) != first {
			t.Errorf("the handler has %q and the context %q, want %q", chunk.Trace, client.TraceContext(ctx), first)
		}
		s, err := c.Insert(context.WithoutCancel(ctx), "default", &api.NewSubmission{Chunks: chunks})
		follow = s
		return nil, err
	})
	if err != nil || follow == nil {
		t.Fatalf("work: %v, and %+v was inserted", err, follow)
	}
	if s, err := c.Get(ctx, follow.ID); err != nil || s.Trace != first {
		t.Errorf("what the handler inserted carries %q, %v; want %q", s.Trace, err, first)
	}
}
