//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
)

// While the database is away for less than a lease lasts, calls wait for it: each is done, and the owner stays the owner and keeps all
// reservations. When it is away for longer, calls get 503 moving. The first node that reaches it again goes on. Nothing is lost, no attempt
// is counted, and the consumer that held a chunk completes it.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	h, database := newHistory(t, rand.New(rand.NewPCG(1, 1))), pgtest.Begin(t)
	way := database.Front(t)
	t.Cleanup(func() { _ = way.Close() })
	owner := launch(t, t.TempDir(), quernCopy(t), "serve", "--cluster", way.URL(), "--accept-async", "--listen", "127.0.0.1:0", "--node", "a")
	url := owner.url()
	waitForQueue(t, url)
	id := submitted(t, url, 3)
	queue := url + "/v1/queues/default"
	const one = `{"max":1,"timeout_ms":3600000,"strategy":"OldestFirst"}`
	var held, second api.ReserveResponse
	if h.ask(t.Context(), "POST", queue+"/reservations", "", one, &held) != isDone || len(held.Reservations) != 1 {
		t.Fatalf("reserve: %+v", held)
	}
	epoch := func() uint32 {
		return nodesAt(t, url, func(list []api.Node) bool { return len(list) == 1 && len(list[0].Queues) == 1 })[0].Queues[0].Epoch
	}
	inserted := uint64(3)
	for tries := 1; ; tries++ {
		before := epoch()
		release := way.Hold()
		var calls sync.WaitGroup
		var done atomic.Int32
		insert := func(i int) reported {
			var s api.Submission
			body := fmt.Sprintf(`{"meta":{"of":"away"},"chunks":{"count":1,"prefix":"x%d/"}}`, i)
			return h.ask(t.Context(), "POST", queue+"/submissions", fmt.Sprint("away ", tries, i), body, &s)
		}
		for i := range 4 {
			calls.Go(func() {
				if insert(i) == isDone {
					done.Add(1)
				}
			})
		}
		<-time.After(2500 * time.Millisecond) // less than member.Patience, and more than that of a disk
		release()
		calls.Wait()
		inserted += 4
		if done.Load() == 4 && epoch() == before {
			break
		}
		if tries == 5 { // once or twice this machine may have stood still, so that the lease did end
			t.Fatalf("of 4 inserts while the database was away for a moment %d were done; epoch %d, was %d", done.Load(), epoch(), before)
		}
		for i := range 4 {
			for insert(i) != isDone {
				waitForQueue(t, url)
			}
		}
	}
	if h.ask(t.Context(), "POST", queue+"/reservations", "", one, &second) != isDone || len(second.Reservations) != 1 {
		t.Fatalf("reserve: %+v", second)
	}

	release := way.Hold()
	for moving := false; !moving; { // until the lease has ended
		status, code, _, text := answer(t, "POST", queue+"/reservations", `{"max":1}`)
		if moving = status == 503 && code == "moving"; !moving && status != 200 {
			t.Fatalf("reserve while the database is away: %d %s", status, text)
		}
	}
	release()
	waitForQueue(t, url)
	for _, r := range append(held.Reservations, second.Reservations...) {
		var got api.ResultsResponse
		if h.ask(t.Context(), "POST", queue+"/reservations/complete", "", fmt.Sprintf(`{"items":[{"token":%q}]}`, r.Token), &got) != isDone ||
			got.Results[0].Status != api.StatusOK {
			t.Errorf("completing what was held while the database was away: %+v", got)
		}
	}
	var s api.Submission
	if h.ask(t.Context(), "GET", url+"/v1/submissions/"+id, "", "", &s) != isDone || s.Done != 2 {
		t.Errorf("the submission is %+v, want 2 chunks done", s)
	}
	var stats api.Stats
	if h.ask(t.Context(), "GET", queue+"/stats", "", "", &stats) != isDone || stats.Ready+stats.Reserved+stats.Done != inserted || stats.ExpiredTotal != 0 || stats.FailedTotal != 0 {
		t.Errorf("the numbers are %+v, want %d chunks, and no try counted", stats, inserted)
	}
}
