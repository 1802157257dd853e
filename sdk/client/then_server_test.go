package client_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// ofKind is a submission of one chunk of a kind.
func ofKind(kind, content string) *api.NewSubmission {
	return &api.NewSubmission{Meta: api.Meta{"kind": api.Text(kind)}, MaxAttempts: 3, OnExhausted: api.ExhaustedDeadLetter,
		RetryBackoff: &api.Backoff{Kind: api.BackoffFixed, BaseMS: 1},
		Chunks:       api.Chunks{Inline: []api.Bytes{api.Bytes(content)}}}
}

// Submissions that a handler inserts with its result exist when its chunk is done, once, and with the chunk's trace. If the server refuses
// one as wrong, a dead letter says so. If it refuses one for now, the chunk is tried again.
func TestThenOnServer(t *testing.T) {
	t.Parallel()
	const n = 200
	c := connect(t, serve(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	first := &api.NewSubmission{Meta: api.Meta{"kind": api.Text("split")}, Trace: trace, Chunks: api.Chunks{Count: n, Template: "{index}"}}
	split, err := c.Insert(ctx, "default", first)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := c.Insert(ctx, "default", ofKind("wrong", ""))
	if err != nil {
		t.Fatal(err)
	}
	rule, err := c.SetRule(ctx, "default", &api.RuleRequest{Action: api.ActionPause, Effects: api.RuleEffects{Insert: true},
		Match: api.RuleMatch{Meta: api.Meta{"kind": api.Text("held up")}}})
	if err != nil {
		t.Fatal(err)
	}
	refused, err := c.Insert(ctx, "default", ofKind("refused", ""))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	worked := make(chan error, 1)
	go func() {
		worked <- c.Work(ctx, client.WorkOptions{Concurrency: 8, OnError: func(error) {}}, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
			switch kind := chunk.Meta["kind"].Text(); kind {
			case "split":
				chunk.Then(ofKind("part", "a"+string(chunk.Content)))
				chunk.Then(ofKind("part", "b"+string(chunk.Content)))
			case "wrong":
				chunk.Then(&api.NewSubmission{Chunks: api.Chunks{Count: 1}})
			case "refused":
				if chunk.Attempt == 2 {
					if err := c.LiftRule(ctx, "default", rule.ID, ""); err != nil {
						t.Error(err)
					}
				}
				chunk.Then(ofKind("held up", ""))
			case "part":
				mu.Lock()
				seen[string(chunk.Content)]++
				mu.Unlock()
				if !strings.Contains(chunk.Trace, trace[3:35]) {
					t.Errorf("a part has the trace %q, want that of %q", chunk.Trace, trace)
				}
			}
			return nil, nil
		})
	}()
	for _, want := range []struct {
		id    string
		state string
	}{{split.ID, api.StateCompleted}, {wrong.ID, api.StateCompletedWithDead}, {refused.ID, api.StateCompleted}} {
		if s, err := c.Wait(ctx, want.id); err != nil || s.State != want.state {
			t.Errorf("got %+v %v, want it %s", s, err, want.state)
		}
	}
	open := 1
	for open > 0 {
		stats, err := c.Stats(ctx, "default")
		if err != nil {
			t.Fatal(err)
		}
		open = int(stats.SubmissionsOpen)
	}
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	if len(seen) != 2*n {
		t.Errorf("%d different parts were worked on, want %d", len(seen), 2*n)
	}
	stats, err := c.Stats(t.Context(), "default")
	if err != nil || stats.SubmissionsInsertedTotal != 3+2*n+1 {
		t.Errorf("%d submissions were inserted, want %d: %v", stats.SubmissionsInsertedTotal, 3+2*n+1, err)
	}
	const says = "the server refused the insert/0/chunks: it must have exactly one"
	if d, err := c.DeadLetter(t.Context(), "default", wrong.ID, 0); err != nil || len(d.History) != 1 || !strings.HasPrefix(d.History[0].Error, says) {
		t.Errorf("dead letter: got %+v %v, want one try that says %q", d, err, says)
	}
}

// Completions that bring more submissions than one call may are reported in several.
func TestThenOfMoreThanACallTakes(t *testing.T) {
	t.Parallel()
	const n = 220
	c := connect(t, serve(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s, err := c.Insert(ctx, "default", &api.NewSubmission{Meta: api.Meta{"kind": api.Text("split")},
		Chunks: api.Chunks{Count: n, Template: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	var here sync.WaitGroup
	here.Add(n)
	worked := make(chan error, 1)
	go func() {
		defer stop()
		o := client.WorkOptions{Concurrency: n, Strategy: `SelectOnly("kind", "split", Random)`}
		worked <- c.Work(ctx, o, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
			for range 100 {
				chunk.Then(&api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: "x"}})
			}
			here.Done()
			here.Wait()
			return nil, nil
		})
	}()
	if s, err := c.Wait(ctx, s.ID); err != nil || s.State != api.StateCompleted {
		t.Errorf("got %+v %v, want it completed", s, err)
	}
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	stats, err := c.Stats(t.Context(), "default")
	if err != nil || stats.SubmissionsInsertedTotal != 1+100*n {
		t.Errorf("%d submissions were inserted, want %d: %v", stats.SubmissionsInsertedTotal, 1+100*n, err)
	}
}
