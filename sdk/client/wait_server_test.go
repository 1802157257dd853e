package client_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// Many submissions, more than one call waits for, come as they end, each once; an unknown id comes with its error and keeps no other.
func TestWaitManyOnServer(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	one := api.BatchSubmission{NewSubmission: api.NewSubmission{Chunks: api.Chunks{Count: 1, Prefix: "a/"}}}
	var ids []string
	for len(ids) < 1003 { // many in one call take less time
		made, err := c.InsertMany(ctx, "default", slices.Repeat([]api.BatchSubmission{one}, min(1000, 1003-len(ids))), true)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made {
			ids = append(ids, m.Submission.ID)
		}
	}
	var cancels sync.WaitGroup
	cancel := func(list ...string) {
		for _, id := range list {
			if _, err := c.Cancel(ctx, id); err != nil {
				t.Error(err)
			}
		}
	}
	first, second := ids[7], ids[1]
	cancel(first)
	asked := slices.Concat([]string{"7", "00" + first}, ids)
	var ended, unknown []string
	for s, err := range c.WaitMany(ctx, asked) {
		switch {
		case client.CodeOf(err) == api.CodeUnknownSubmission:
			unknown = append(unknown, s.ID)
			continue
		case err != nil || s.State != api.StateCancelled:
			t.Fatalf("got %+v, %v; want one that is cancelled", s, err)
		}
		ended = append(ended, s.ID)
		switch len(ended) {
		case 1:
			cancels.Go(func() { cancel(second) }) // while the next call waits, or before
		case 2:
			others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == first || id == second })
			cancels.Go(func() { cancel(others...) })
		}
	}
	cancels.Wait() // the wait may report the last end before its cancel is answered
	if !slices.Equal(unknown, []string{"7"}) || ended[0] != first || ended[1] != second {
		t.Errorf("unknown %v, and the first to end %v; want 7, and %s %s", unknown, ended[:2], first, second)
	}
	slices.Sort(ended)
	if slices.Sort(ids); !slices.Equal(ended, ids) {
		t.Errorf("%d ended, want each of %d once", len(ended), len(ids))
	}
	for _, err := range c.WaitMany(ctx, []string{"x"}) {
		if client.CodeOf(err) != api.CodeInvalid {
			t.Errorf("no id: got %v, want %s", err, api.CodeInvalid)
		}
	}
}

// A queue that is deleted while its submissions are waited for ends the wait for them, as cancelled or as unknown, and keeps no other.
func TestWaitManyOfADeletedQueue(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	if _, err := c.PutQueue(ctx, "gone", api.QueueSettingsInput{}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, name := range []string{"gone", "gone", "default"} {
		s, err := c.Insert(ctx, name, &api.NewSubmission{Chunks: api.Chunks{Count: 1, Prefix: "a/"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	gone, other, stays := ids[0], ids[1], ids[2]
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, id := range []string{gone, other} {
			if _, err := c.Cancel(ctx, id); err != nil {
				t.Error(err)
			}
		}
		if err := c.DeleteQueue(ctx, "gone"); err != nil {
			t.Error(err)
		}
		if _, err := c.Cancel(ctx, stays); err != nil {
			t.Error(err)
		}
	}()
	var got []string
	for s, err := range c.WaitMany(ctx, ids) {
		if err != nil && (client.CodeOf(err) != api.CodeUnknownSubmission || s.ID == stays) {
			t.Fatalf("%s: %v", s.ID, err)
		}
		got = append(got, s.ID)
	}
	<-done
	slices.Sort(got)
	if slices.Sort(ids); !slices.Equal(got, ids) {
		t.Errorf("the wait told of %v, want each of %v once", got, ids)
	}
	for s, err := range c.WaitMany(ctx, []string{gone}) {
		if client.CodeOf(err) != api.CodeUnknownSubmission {
			t.Errorf("afterwards: %+v, %v", s, err)
		}
	}
}
