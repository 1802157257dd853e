//quern:overlapping
package web

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine"
)

// While the database is away and calls wait for it, everything else is answered at all nodes: probes, metrics, lists,
// reads, and the calls that the owner of a queue answers from memory. They do not wait behind calls that create, change
// and delete queues and tokens.
func TestCrewAnswersWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	if *nodeCount == 0 {
		t.Skip("it needs a cluster: -args -nodes 3")
	}
	seed := rand.Uint64()
	crew := newCrew(t, seed)
	way := database.server.Front(t)
	t.Cleanup(func() { _ = way.Close() }) // behind the nodes
	crew.url = way.URL()
	f := newFixtureOn(t, crew, seed)
	f.do("PUT", "/v1/queues/old", "{}", http.StatusCreated, nil)
	f.insert(`{"chunks":{"count":100,"prefix":"x/"}}`)
	held := f.reserveOne().Token

	release := way.Hold()
	defer release()
	var waiting sync.WaitGroup
	answered := make(chan string, 100)
	for node := range f.crew.list {
		for _, c := range []call{
			{method: "PUT", path: "/v1/queues/new", body: "{}"},
			{method: "POST", path: "/v1/tokens", body: `{"name":"a","scopes":["admin"]}`},
		} {
			waiting.Go(func() {
				f.at(node, c)
				answered <- c.method + " " + c.path
			})
		}
	}
	var others sync.WaitGroup
	for node := range f.crew.list {
		for _, c := range []call{
			{method: "GET", path: "/livez"}, {method: "GET", path: "/readyz"}, {method: "GET", path: "/metrics"},
			{method: "GET", path: "/v1/nodes"}, {method: "GET", path: "/v1/queues/default/stats"}, {method: "GET", path: "/v1/queues"},
			{method: "GET", path: "/v1/queues/old/stats"}, {method: "GET", path: "/v1/audit"}, {method: "GET", path: "/v1/plugins"},
			{method: "GET", path: "/v1/tokens"}, {method: "GET", path: "/v1/queues/none/stats"},
			{method: "POST", path: reservePath, body: `{"max":1}`},
			{method: "POST", path: reservePath + "/extend", body: `{"items":[{"token":"` + held + `","timeout_ms":60000}]}`},
		} {
			others.Go(func() { f.at(node, c) })
		}
	}
	others.Wait()
	// The first ones wait for the database for ten seconds at least, so the others did not wait for them.
	select {
	case what := <-answered:
		t.Errorf("%s, which waits for the database, was answered before the calls that need none", what)
	default:
	}
	release()
	waiting.Wait()
	for _, n := range f.crew.list { // the nodes have their queues again before the test ends
		n.place.Hasten()
	}
	if e := f.engine; e.Nodes() == nil || !e.Nodes().Has(engine.DefaultQueue) {
		t.Error("the nodes forgot the default queue")
	}
}

// While the deletion of a queue waits for the database, other calls do not wait with it. The queue answers none meanwhile, and serves again
// if the deletion fails.
func TestCrewDeletesWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	if *nodeCount == 0 {
		t.Skip("it needs a cluster: -args -nodes 3")
	}
	seed := rand.Uint64()
	crew := newCrew(t, seed)
	way := database.server.Front(t)
	t.Cleanup(func() { _ = way.Close() }) // behind the nodes
	crew.url = way.URL()
	f := newFixtureOn(t, crew, seed)
	f.do("PUT", "/v1/queues/old", "{}", http.StatusCreated, nil)
	owner := -1
	for owner < 0 { // a queue that moves just now has none
		for node, n := range f.crew.list {
			if n.engine.Nodes().Elsewhere("old") == nil {
				owner = node
			}
		}
	}
	old := call{method: "GET", path: "/v1/queues/old/stats"}
	release := way.Hold()
	defer release()
	deleted := make(chan answer, 1)
	go func() { deleted <- f.at(owner, call{method: "DELETE", path: "/v1/queues/old"}) }()
	for f.at(owner, old).status == http.StatusOK { // until the deletion has begun, or the owner no longer answers
	}
	var others sync.WaitGroup
	for node := range f.crew.list {
		for _, path := range []string{"/livez", "/metrics", "/v1/queues", "/v1/queues/default/stats", "/v1/queues/old/stats", "/v1/queues/none/stats"} {
			others.Go(func() { f.at(node, call{method: "GET", path: path}) })
		}
	}
	others.Wait()
	select {
	case got := <-deleted:
		t.Errorf("the deletion, which waits for the database, was answered before the calls that need none: %d %s", got.status, got.body)
	default:
	}
	release()
	want := http.StatusNotFound
	if got := <-deleted; got.status != http.StatusNoContent {
		if got.status != http.StatusServiceUnavailable {
			t.Fatalf("the deletion: %d %s", got.status, got.body)
		}
		want = http.StatusOK
	}
	for node := range f.crew.list {
		for f.at(node, old).status != want {
			for _, n := range f.crew.list {
				n.place.Hasten()
			}
		}
	}
}
