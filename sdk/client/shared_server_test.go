package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// countingCalls counts the inserts of many that pass.
type countingCalls struct{ n atomic.Int64 }

func (c *countingCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, ":batch") {
		c.n.Add(1)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Many goroutines insert into a real server through one client: each gets the submission that it
// inserted, and one key inserts once.
func TestSharedInsertsOnServer(t *testing.T) {
	t.Parallel()
	const producers, each = 32, 25
	var calls countingCalls
	c, err := client.New(serve(t), client.WithHTTPClient(&http.Client{Transport: &calls}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var group sync.WaitGroup
	var ids sync.Map
	for p := range producers {
		group.Go(func() {
			for k := range each {
				group := fmt.Sprint("p", p, "-", k)
				s, err := c.Insert(t.Context(), "default", &api.NewSubmission{Group: group, Chunks: api.Chunks{Count: 1, Template: "x"}})
				if err != nil || s.Group != group {
					t.Errorf("insert %s: %+v, %v", group, s, err)
					return
				}
				if _, twice := ids.LoadOrStore(s.ID, group); twice {
					t.Errorf("the submission %s was answered twice", s.ID)
				}
			}
		})
	}
	group.Wait()
	if calls.n.Load() == 0 {
		t.Error("no inserts shared a call")
	}
	keyed := func(count uint32) (*api.Submission, error) {
		return c.Insert(t.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Count: count, Template: "x"}}, client.WithKey("k"))
	}
	first, err := keyed(1)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := keyed(1); err != nil || again.ID != first.ID {
		t.Errorf("again with its key: %+v, %v; want submission %s", again, err, first.ID)
	}
	if _, err := keyed(2); client.CodeOf(err) != api.CodeIdempotencyReuse {
		t.Errorf("another with its key: %v, want %s", err, api.CodeIdempotencyReuse)
	}
	if s, err := c.Stats(t.Context(), "default"); err != nil || s.SubmissionsOpen != producers*each+1 {
		t.Errorf("%+v submissions are open (%v), want %d", s, err, producers*each+1)
	}
}
