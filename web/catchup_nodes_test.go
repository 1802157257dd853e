//quern:overlapping
package web

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
)

// A client that goes on at the node that answered it finds all that the answer said, whichever nodes serve its queues: a node catches up
// with the node that sends it a call. Tokens and groups are known at one node first.
func TestCrewKnowsWhatTheAskedNodeKnows(t *testing.T) {
	t.Parallel()
	if *nodeCount == 0 {
		t.Skip("it needs a cluster: -args -nodes 3")
	}
	f := newFixture(t)
	f.do("PUT", "/v1/queues/orders", `{"settings":{"shards":3}}`, http.StatusCreated, nil)
	for i, n := range f.crew.list {
		f.do("PUT", fmt.Sprintf("/v1/queues/q%d", i), "{}", http.StatusCreated, nil)
		f.do("POST", fmt.Sprintf("/v1/queues/q%d/move", i), fmt.Sprintf(`{"node":%q}`, n.place.Name), http.StatusOK, nil)
	}
	ask := func(node int, token string, c call) {
		t.Helper()
		c.header = map[string]string{"Authorization": "Bearer " + token}
		got := f.at(node, c)
		moved := got.status == http.StatusMisdirectedRequest && got.header.Get(headerOwner) != f.crew.list[node].url
		if got.status/100 != 2 && !moved { // the asked node need not know yet which node took a queue
			t.Errorf("node %d, %s %s: %d %s", node, c.method, c.path, got.status, got.body)
		}
	}
	for i := range 12 {
		node := i % len(f.crew.list)
		_, token, err := f.crew.list[node].engine.Tokens().New(t.Context(),
			engine.TokenRequest{Name: fmt.Sprint("t", i), Scopes: access.All})
		if err != nil {
			t.Fatal(err)
		}
		for q := range f.crew.list {
			ask(node, token, call{method: "GET", path: fmt.Sprintf("/v1/queues/q%d", q)})
		}
		group := fmt.Sprint("/v1/queues/orders/groups/g", i)
		ask(node, token, call{method: "PUT", path: group, body: "{}"})
		ask(node, token, call{method: "GET", path: group})
	}
}
