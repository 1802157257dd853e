//quern:overlapping
package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const waitPath = "/v1/submissions:wait"

// waitBody asks for the end of one of the submissions, or of all.
func waitBody(all bool, ids ...string) string {
	return fmt.Sprintf(`{"ids":["%s"],"wait_ms":60000,"all":%t}`, strings.Join(ids, `","`), all)
}

// awaited checks an answer to a wait: the ids of those that ended, how many are open, and the unknown ones.
func awaited(t *testing.T, got answer, ended []string, open int, unknown ...string) {
	t.Helper()
	var out api.WaitResponse
	if got.status != http.StatusOK {
		t.Fatalf("got %d %s, want 200", got.status, got.body)
	}
	got.decode(t, &out)
	var ids []string
	for _, sub := range out.Ended {
		ids = append(ids, sub.ID)
		if sub.State != api.StateCancelled {
			t.Errorf("%s is %s, want cancelled", sub.ID, sub.State)
		}
	}
	if !slices.Equal(ids, ended) || out.Open != open || !slices.Equal(out.Unknown, unknown) {
		t.Errorf("got %s, want ended %v, %d open, unknown %v", got.body, ended, open, unknown)
	}
}

// watched waits until so many waits for the ends of submissions are under way.
func (f *fixture) watched(n int) {
	f.Helper()
	f.eventually(fmt.Sprintf("%d waits", n), func() bool {
		f.server.waits.mu.Lock()
		defer f.server.waits.mu.Unlock()
		return len(f.server.waits.set) == n
	})
}

// One call waits for many submissions, also of several queues: for the first of them to end, or for all.
func TestWaitForMany(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/other", "{}", http.StatusCreated, nil)
	var other api.Submission
	f.do("POST", "/v1/queues/other/submissions", `{"chunks":{"count":1,"prefix":"a/"}}`, http.StatusCreated, &other)
	a, b, c := f.insert(`{"chunks":{"count":1,"prefix":"a/"}}`).ID, f.insert(`{"chunks":{"count":1,"prefix":"b/"}}`).ID, other.ID
	cancel := func(id string) { f.do("POST", "/v1/submissions/"+id+"/cancel", "", http.StatusOK, nil) }
	begin := func(all bool) <-chan answer {
		return f.begin(t.Context(), call{method: "POST", path: waitPath, body: waitBody(all, a, b, c, b)})
	}

	awaited(t, f.send(call{method: "POST", path: waitPath, body: `{"ids":["` + a + `","` + c + `"]}`}), nil, 2)
	one, all := begin(false), begin(true)
	f.watched(2)
	cancel(c)
	awaited(t, <-one, []string{c}, 2)
	awaited(t, <-begin(false), []string{c}, 2) // has ended already
	cancel(b)
	f.watched(1) // the wait for all goes on
	cancel(a)
	awaited(t, <-all, []string{a, b, c}, 0)
	// An id that is unknown does not end: it is answered at once, and does not keep the others.
	awaited(t, f.send(call{method: "POST", path: waitPath, body: waitBody(true, "7", a, c)}), []string{a, c}, 0, "7")
	open := f.insert(`{"chunks":{"count":1,"prefix":"d/"}}`).ID
	awaited(t, f.send(call{method: "POST", path: waitPath, body: waitBody(false, open, "7")}), nil, 1, "7")
}

// A client that leaves, and a server that stops, end a wait. The stopping server answers with the present state.
func TestWaitForManyEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.insert(`{"chunks":{"count":1,"prefix":"a/"}}`).ID, f.insert(`{"chunks":{"count":1,"prefix":"b/"}}`).ID
	ctx, leave := context.WithCancel(t.Context())
	left := f.begin(ctx, call{method: "POST", path: waitPath, body: waitBody(false, a, b)})
	f.watched(1)
	leave()
	<-left
	f.watched(0)
	f.do("POST", "/v1/submissions/"+a+"/cancel", "", http.StatusOK, nil)
	stays := f.begin(t.Context(), call{method: "POST", path: waitPath, body: waitBody(true, a, b)})
	f.watched(1)
	f.server.Stop()
	awaited(t, <-stays, []string{a}, 1)
	awaited(t, f.send(call{method: "POST", path: waitPath, body: waitBody(true, a, b)}), []string{a}, 1)
}

// A queue that is deleted ends the waits for its submissions: those of other queues go on, and its submissions are
// unknown from then on.
func TestWaitForManyOfADeletedQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.alone()
	f.do("PUT", "/v1/queues/other", "{}", http.StatusCreated, nil)
	var gone [2]api.Submission
	for i := range gone {
		f.do("POST", "/v1/queues/other/submissions", `{"chunks":{"count":1,"prefix":"a/"}}`, http.StatusCreated, &gone[i])
	}
	stays := f.insert(`{"chunks":{"count":1,"prefix":"b/"}}`).ID
	begin := func(ids ...string) <-chan answer {
		return f.begin(t.Context(), call{method: "POST", path: waitPath, body: waitBody(true, ids...)})
	}
	both, mixed := begin(gone[0].ID, gone[1].ID), begin(gone[0].ID, stays)
	f.watched(2)
	f.do("POST", "/v1/submissions/"+gone[0].ID+"/cancel", "", http.StatusOK, nil)
	if got := f.send(call{method: "DELETE", path: "/v1/queues/other"}); got.status != http.StatusConflict {
		t.Fatalf("deleting a queue with an open submission, which is waited for: got %d %s, want 409", got.status, got.body)
	}
	f.watched(2)
	f.do("POST", "/v1/submissions/"+gone[1].ID+"/cancel", "", http.StatusOK, nil)
	awaited(t, <-both, []string{gone[0].ID, gone[1].ID}, 0)
	f.do("DELETE", "/v1/queues/other", "", http.StatusNoContent, nil)
	f.watched(1) // the wait that is for the other queue, too
	f.do("POST", "/v1/submissions/"+stays+"/cancel", "", http.StatusOK, nil)
	awaited(t, <-mixed, []string{stays}, 0, gone[0].ID)
	awaited(t, <-begin(gone[0].ID, gone[1].ID), nil, 0, gone[0].ID, gone[1].ID)
}

// A client that leaves while it waits for as many as one call may name ends its wait, and takes nothing from another that waits for the
// same submissions.
func TestWaitForManyIsLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lines := strings.Repeat(`{"chunks":{"count":1,"prefix":"a/"}}`+"\n", queue.MaxWaitIDs)
	made := f.send(call{method: "POST", path: "/v1/queues/default/submissions:batch", body: lines,
		header: map[string]string{"Content-Type": "application/x-ndjson"}})
	var out api.InsertManyResponse
	made.decode(t, &out)
	ids := make([]string, len(out.Results))
	for i := range out.Results {
		ids[i] = out.Results[i].Submission.ID
	}
	ctx, leave := context.WithCancel(t.Context())
	wait := call{method: "POST", path: waitPath, body: waitBody(false, ids...)}
	leaves, stays := f.begin(ctx, wait), f.begin(t.Context(), wait)
	f.watched(2)
	leave()
	<-leaves
	f.watched(1)
	f.do("POST", "/v1/submissions/"+ids[500]+"/cancel", "", http.StatusOK, nil)
	awaited(t, <-stays, []string{ids[500]}, queue.MaxWaitIDs-1)
	f.watched(0)
}

// The refusal of a wait names the place of the error.
func TestWaitForManyRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tooMany := strings.TrimSuffix(strings.Repeat(`"1",`, 1001), ",")
	for body, pointer := range map[string]string{
		`{}`:                              "/ids",
		`{"ids":[]}`:                      "/ids",
		`{"ids":[` + tooMany + `]}`:       "/ids",
		`{"ids":["1","x"]}`:               "/ids/1",
		`{"ids":["1"],"wait_ms":-1}`:      "/wait_ms",
		`{"ids":["1"],"wait_ms":60001}`:   "/wait_ms",
		`{"ids":["1"],"any":true}`:        "/any",
		`{"ids":["9223372036854775808"]}`: "/ids/0",
	} {
		got := f.send(call{method: "POST", path: waitPath, body: body})
		if p := got.problem(t); got.status != 422 && got.status != 400 || len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%.60s: got %d %s, want it refused at %s", body, got.status, got.body, pointer)
		}
	}
}

// For a tenant's token, a submission of another tenant is unknown, in the same place of the answer.
func TestTenantsWaitForTheirOwn(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	got := n.as(n.mine, call{method: "POST", path: waitPath, body: waitBody(false, "1", n.other, n.own, "2")})
	awaited(t, got, nil, 1, "1", n.other, "2")
	if got := n.as(n.mine, call{method: "POST", path: "/v1/submissions/" + n.own + "/cancel"}); got.status != http.StatusOK {
		t.Fatalf("cancel: got %d %s", got.status, got.body)
	}
	awaited(t, n.as(n.mine, call{method: "POST", path: waitPath, body: waitBody(true, n.own)}), []string{n.own}, 0)
}
