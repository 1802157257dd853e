//quern:overlapping
package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/sdk/api"
)

// A server that is alone is its only node: it owns all queues, for ever.
func TestNodesOfOneServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/encode", "{}", 201, nil)
	got := f.do("GET", "/v1/nodes", "", 200, nil)
	const want = `{"items":[{"name":"here","url":"http://127.0.0.1:7700","since":"2026-01-05T08:00:00.000Z","leaving":false,"queues":[` +
		`{"queue":"default","shard":0,"epoch":1,"lease_ms":null},{"queue":"encode","shard":1,"epoch":1,"lease_ms":null}]}]}` + "\n"
	if names := got.header.Values("Quern-Node"); string(got.body) != want || len(names) != 0 {
		t.Errorf("GET /v1/nodes: of the nodes %q, %s\nwant of none, %s", names, got.body, want)
	}
}

// A cluster answers with all its nodes and their queues. A token that is bound to queues sees all nodes, but only its
// own queues.
func TestNodesOfACluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, bound := f.token(engine.TokenRequest{Name: "bound", Scopes: access.Read, Restriction: access.Restriction{Queues: []string{"encode"}}})
	const its, others = `{"queue":"encode","shard":1,"epoch":7,"lease_ms":3900}`, `,{"queue":"other","shard":2,"epoch":9,"lease_ms":3900}`
	const list = `{"items":[{"name":"a","url":"https://a:7766","since":"2026-01-05T08:00:00.000Z","leaving":false,"queues":[` + its + others + `]},` +
		`{"name":"b","url":"https://b:7766","since":"2026-01-05T08:00:00.000Z","leaving":true,"queues":[]}]}`
	broken, registry := error(nil), prometheus.NewRegistry()
	s, err := New(Options{
		Engine: f.engine, Now: time.Now, Seed: func() uint64 { return 1 }, Logger: slog.New(slog.DiscardHandler), Registerer: registry, Gatherer: registry,
		Node: api.Node{Name: "b"}, Nodes: func(context.Context) ([]api.Node, error) {
			var page api.Page[api.Node]
			err := cmp.Or(broken, json.Unmarshal([]byte(list), &page))
			return page.Items, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, s)
	ask := func() answer {
		return send(t, http.DefaultClient, address, call{method: "GET", path: "/v1/nodes", header: map[string]string{"Authorization": "Bearer " + bound}})
	}
	want := strings.Replace(list, others, "", 1) + "\n"
	if got := ask(); got.status != http.StatusOK || string(got.body) != want || got.header.Get("Quern-Node") != "b" {
		t.Errorf("node %s answers %d %s\nwant b and %s", got.header.Get("Quern-Node"), got.status, got.body, want)
	}
	broken = errors.New("the cluster is not known")
	if got := ask(); got.status != http.StatusInternalServerError {
		t.Errorf("when the nodes cannot be read: %d %s", got.status, got.body)
	}
}
