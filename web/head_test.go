package web

import (
	"net/http"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
)

// HEAD answers wherever GET does, with the same status and headers and no body. A stream has no HEAD: it would not end, or attach a consumer.
func TestHeadIsGetWithoutBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "admin", Scopes: access.Admin})
	asked := 0
	for path, methods := range f.server.operations {
		get := methods[http.MethodGet]
		if get == nil {
			continue
		}
		asked++
		c := call{method: http.MethodHead, path: filledIn(path, func(string) string { return "777" })}
		head := f.as(admin, c)
		if get.streams {
			if head.status != http.StatusMethodNotAllowed {
				t.Errorf("HEAD %s: got %d, want 405, as it is a stream", c.path, head.status)
			}
			continue
		}
		c.method = http.MethodGet
		want := f.as(admin, c)
		if head.status != want.status || len(head.body) > 0 || head.header.Get("Content-Type") != want.header.Get("Content-Type") {
			t.Errorf("HEAD %s: got %d, %s and %d bytes, want %d, %s and none", c.path, head.status, head.header.Get("Content-Type"),
				len(head.body), want.status, want.header.Get("Content-Type"))
		}
	}
	if asked < 40 {
		t.Errorf("asked %d operations; there are more", asked)
	}
	for _, path := range []string{"/", "/readyz", "/docs", "/metrics"} { // probes, proxies and crawlers ask for these
		if got := f.as(admin, call{method: http.MethodHead, path: path}); got.status != http.StatusOK {
			t.Errorf("HEAD %s: got %d, want 200", path, got.status)
		}
	}
	if got := f.send(call{method: http.MethodHead, path: "/v1/queues"}); got.status != http.StatusUnauthorized {
		t.Errorf("HEAD /v1/queues without a token: got %d, want 401", got.status)
	}
}
