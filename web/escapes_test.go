package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
)

// An operation answers the same however a name is escaped in the path, and a refusal has the name as it is.
func TestEscapesOfAPathChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if got := f.send(call{method: "PUT", path: "/v1/queues/orders", body: `{"settings":{"shards":2}}`}); got.status != http.StatusCreated {
		t.Fatalf("a queue of 2 shards: got %d %s", got.status, got.body)
	}
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(documentOf(t, f.server), &document); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, methods := range document.Paths {
		if methods["get"] == nil || !strings.Contains(path, "{queue}") || strings.HasSuffix(path, "/attach") {
			continue
		}
		for plain, escaped := range map[string]string{"default": "%64efault", "orders": "or%64ers", "orders~2": "orders%7E2"} {
			at := func(name string) string {
				return strings.NewReplacer("{queue}", name, "{id}", "7", "{submission}", "7", "{index}", "0", "{version}", "1", "{shard}",
					"1", "{page}", "START", "{", "", "}", "").Replace(path)
			}
			tried++
			a, b := f.send(call{method: "GET", path: at(plain)}), f.send(call{method: "GET", path: at(escaped)})
			if a.status != b.status {
				t.Errorf("GET %s: %d %.200s\nGET %s: %d %.200s", at(plain), a.status, a.body, at(escaped), b.status, b.body)
			}
		}
	}
	if tried < 60 {
		t.Errorf("%d paths were tried; want those of all operations that name a queue", tried)
	}
	for _, path := range []string{"/v1/queues/a%2Fb/stats", "/v1/queues/default/strategies/a%2Fb", "/v1/queues/default/schedules/a%2Fb",
		"/v1/queues/default/groups/a%2Fb", "/v1/plugins/a%2Fb"} {
		if got := f.send(call{method: "GET", path: path}); got.status != http.StatusNotFound || !strings.Contains(got.problem(t).Detail, `"a/b"`) {
			t.Errorf("GET %s: got %d %s, want 404 that names a/b", path, got.status, got.body)
		}
	}
	if got := f.send(call{method: "GET", path: "/v1/bulk-operations/7%2E8"}); got.status/100 != 4 {
		t.Errorf("two escaped bulk operations that do not exist: got %d %s", got.status, got.body)
	}
}

// A token for one queue reaches that queue, and no other, however its name is escaped.
func TestEscapesGetNoOneFurther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/mails", `{}`, http.StatusCreated, nil)
	_, text := f.token(engine.TokenRequest{Name: "mails", Scopes: access.ParseScope("read"), Restriction: access.Restriction{Queues: []string{"mails"}}})
	for path, want := range map[string]int{
		"/v1/queues/mails/stats": http.StatusOK, "/v1/queues/m%61ils/stats": http.StatusOK, "/v1/queues/default/stats": http.StatusNotFound,
		"/v1/queues/d%65fault/stats": http.StatusNotFound, "/v1/queues/mails%2F..%2Fdefault/stats": http.StatusNotFound,
		"/v1/queues/mails/%2E%2E/default/stats": http.StatusNotFound,
	} {
		if got := f.as(text, call{method: "GET", path: path}); got.status != want {
			t.Errorf("GET %s: got %d %s, want %d", path, got.status, got.body, want)
		}
	}
}
