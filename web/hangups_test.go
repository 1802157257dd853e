//quern:overlapping
package web

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Clients hang up at any moment of calls that several nodes answer together. A part of such a call may go on for a moment. It must not use what
// belongs to the next call by then, which the race detector sees.
func TestHangUpsOverNodes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f := newFixtureOn(t, newCrew(t, seed), seed)
	f.do("PUT", "/v1/queues/orders", `{"settings":{"shards":3}}`, http.StatusCreated, nil)
	f.do("PUT", "/v1/queues/mails", `{}`, http.StatusCreated, nil)
	f.do("POST", "/v1/queues/mails/move", fmt.Sprintf(`{"node":%q}`, f.crew.list[1].place.Name), http.StatusOK, nil)
	insert := `{"submissions":[{"group":"a","chunks":{"count":2,"prefix":"p"}},{"group":"b","chunks":{"count":2,"prefix":"p"}},` +
		`{"group":"c","chunks":{"count":2,"prefix":"p"}}]}`
	calls := []call{
		{method: "POST", path: "/v1/queues/orders/submissions:batch", body: insert},
		{method: "POST", path: "/v1/queues/orders/reservations", body: `{"max":3,"strategy":"Random","consumer":"w","wait_ms":50}`},
		{method: "POST", path: "/v1/queues/orders/reservations/exchange", body: `{"reserve":{"max":3,"strategy":"OldestFirst","consumer":"w"}}`},
		{method: "GET", path: "/v1/events?queue=orders&queue=mails"},
		{method: "GET", path: "/v1/queues/orders/consumers/w/attach"},
		{method: "GET", path: "/v1/queues/orders/ends"},
		{method: "GET", path: "/v1/queues/orders/submissions?limit=5"},
		{method: "GET", path: "/v1/queues/orders/groups"},
		{method: "GET", path: "/v1/queues/orders/diagnosis"},
		{method: "GET", path: "/v1/audit?limit=5"},
		{method: "GET", path: "/v1/queues"},
		{method: "GET", path: "/metrics"},
	}
	var all sync.WaitGroup
	for worker := range uint64(16) {
		draws := rand.New(rand.NewPCG(seed, worker))
		all.Go(func() {
			for range 30 {
				f.hangUp(calls[draws.IntN(len(calls))], f.crew.list[draws.IntN(len(f.crew.list))].url, time.Duration(draws.IntN(12))*time.Millisecond)
			}
		})
	}
	all.Wait()
	for node := range f.crew.list {
		if got := f.at(node, call{method: "GET", path: "/v1/queues/orders/shards"}); got.status != http.StatusOK {
			t.Errorf("node %d answers %d %s", node, got.status, got.body)
		}
	}
}

// hangUp makes a call and goes away after some time, however far the answer is by then.
func (f *fixture) hangUp(c call, at string, after time.Duration) {
	ctx, goAway := context.WithTimeout(f.Context(), after)
	defer goAway()
	r, err := http.NewRequestWithContext(ctx, c.method, at+c.path, strings.NewReader(c.body))
	if err != nil {
		f.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := f.crew.next.RoundTrip(r)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
}
