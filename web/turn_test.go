//quern:overlapping
package web

import (
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// While the most reads of a token are running, its other reads wait, and the hundred-and-first is refused. Its own
// consumers and the reads of another token go on.
func TestReadsOfATokenTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{})
	proof, ok := access.ProofOf(r.greedy)
	now := queue.At(time.Now())
	token, found := r.engine.Tokens().At(now).Find(&proof, now)
	if !ok || !found {
		t.Fatal("the token is not known")
	}
	still := func() time.Duration { return 0 }
	var leave []func()
	for range 2 {
		done, ok, err := token.Reads.Take(t.Context(), still)
		if !ok || err != nil {
			t.Fatalf("got %t %v, want a place", ok, err)
		}
		leave = append(leave, done)
	}
	id := r.insertedBy(r.greedy)
	reads := []call{
		{method: "GET", path: insertPath + "?limit=1"},
		{method: "GET", path: "/v1/submissions/" + id},
		{method: "GET", path: "/v1/queues/default/dead-letters"},
		{method: "POST", path: waitPath, body: `{"ids":["` + id + `"]}`},
	}
	var waiting []<-chan answer
	for i := range 100 {
		c := reads[i%len(reads)]
		c.header = map[string]string{"Authorization": "Bearer " + r.greedy}
		waiting = append(waiting, r.begin(t.Context(), c))
	}
	for token.Reads.Waiting() < 100 {
		select {
		case <-t.Context().Done():
			t.Fatal("the reads do not wait")
		default:
		}
	}
	if got := r.as(r.greedy, reads[0]); got.status != 429 || got.header.Get("Retry-After") == "" || !strings.Contains(got.problem(t).Detail, "turn") {
		t.Errorf("one more: got %d %s, want 429 that speaks of turns", got.status, got.body)
	}
	r.works("its reserve", r.greedy, call{method: "POST", path: reservePath, body: `{"max":1}`})
	r.works("its insert", r.greedy, insertOf(""))
	for _, c := range reads {
		r.works("another token's "+c.path, r.modest, c)
	}
	for _, done := range leave {
		done()
	}
	for _, ch := range waiting {
		if got := <-ch; got.status != 200 {
			t.Errorf("a read that waited for its turn: got %d %s", got.status, got.body)
		}
	}
}

func (r *rivals) insertedBy(token string) string {
	r.Helper()
	var out struct{ ID string }
	r.works("insert", token, insertOf("")).decode(r, &out)
	return out.ID
}
