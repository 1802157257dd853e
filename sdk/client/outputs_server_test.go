package client_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// The outputs of many submissions come with the id of their submission, over pages, and those of a batch alone if that is asked for.
func TestOutputsOfOnServer(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var want, even []string
	var all []string
	for i := range 6 {
		s, err := c.Insert(ctx, "default", &api.NewSubmission{Meta: api.Meta{"batch": api.Int(int64(i % 2))}, Chunks: api.Chunks{Count: 3, Template: "{index}"}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.ID)
		lines := []string{s.ID + "/0/out 0", s.ID + "/1/out 1", s.ID + "/2/out 2"}
		if want = append(lines, want...); i%2 == 0 {
			even = append(slices.Clone(lines), even...)
		}
	}
	worked := make(chan error, 1)
	go func() {
		worked <- c.Work(ctx, client.WorkOptions{Concurrency: 4}, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
			return append([]byte("out "), chunk.Content...), nil
		})
	}()
	for _, id := range all {
		if _, err := c.Wait(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-worked; err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		options client.ListOptions
		want    []string
	}{
		{client.ListOptions{}, want}, {client.ListOptions{Limit: 2}, want}, {client.ListOptions{States: []string{api.StateOpen}}, nil},
		{client.ListOptions{Meta: api.Meta{"batch": api.Int(0)}, States: []string{api.StateCompleted}, Limit: 4}, even},
	} {
		var got []string
		for o, err := range c.OutputsOf(t.Context(), "default", test.options) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s/%d/%s", o.Submission, o.Index, o.Output))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: %v, want %v", test.options, got, test.want)
		}
	}
	for _, err := range c.OutputsOf(t.Context(), "nowhere", client.ListOptions{}) {
		if client.CodeOf(err) != api.CodeUnknownQueue {
			t.Errorf("a queue that is not there: %v", err)
		}
	}
}
