//quern:overlapping
package web

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
)

// newCrewed is a fixture of several nodes.
func newCrewed(t *testing.T) *fixture {
	t.Helper()
	if *nodeCount == 0 {
		t.Skip("it needs a cluster: -args -nodes 3")
	}
	return newFixture(t)
}

// at sends a call to one node.
func (f *fixture) at(node int, c call) answer {
	f.Helper()
	return send(f, http.DefaultClient, strings.TrimPrefix(f.crew.list[node].url, "http://"), c)
}

// refused asks until a node refuses a session: each look is a call.
func (f *fixture) refused(node int, cookie string) answer {
	f.Helper()
	for {
		if got := f.at(node, withCookie(whoami, cookie)); got.status != http.StatusOK {
			if got.status != http.StatusUnauthorized {
				f.Fatalf("a session that is over, at node %d: %d %s", node, got.status, got.body)
			}
			return got
		}
	}
}

func withCookie(c call, cookie string) call {
	c.header = map[string]string{"Cookie": cookie}
	return c
}

// A session that one node opened is good at all nodes, and streams go on for as long as it does. Whichever node ends it, it is over at all
// of them, with its streams; so it is when its token is revoked, or when the node that opened it is gone, as the answer
// then says.
func TestCrewSessionIsGoodAtAllNodes(t *testing.T) {
	t.Parallel()
	f := newCrewed(t)
	_, admin := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	id, text := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Read})
	for _, e := range f.crew.engines() {
		if err := e.Nodes().CatchUp(); err != nil {
			t.Fatal(err)
		}
	}
	login := func(node int) string {
		t.Helper()
		got := f.at(node, call{method: "POST", path: "/v1/session", body: `{"token":"` + text + `"}`})
		cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
		if got.status != http.StatusOK {
			t.Fatalf("login at node %d: %d %s", node, got.status, got.body)
		}
		return cookie
	}
	cookie, other := login(0), login(1)
	var streams []io.ReadCloser
	for node := range f.crew.list {
		if got := f.at(node, withCookie(whoami, cookie)); got.status != http.StatusOK || !strings.Contains(string(got.body), `"session"`) {
			t.Errorf("node %d says of a session of node 0: %d %s", node, got.status, got.body)
		}
		request, err := http.NewRequestWithContext(t.Context(), "GET", f.crew.list[node].url+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Cookie", cookie)
		stream, err := http.DefaultClient.Do(request)
		if err != nil || stream.StatusCode != http.StatusOK {
			t.Fatalf("a stream at node %d: %v, %v", node, stream, err)
		}
		streams = append(streams, stream.Body)
	}
	if got := f.at(1, withCookie(call{method: "GET", path: "/v1/queues/default/stats"}, cookie)); got.status != http.StatusOK {
		t.Errorf("a call that is sent on, with a session of node 0: %d %s", got.status, got.body)
	}

	f.at(2, withCookie(call{method: "DELETE", path: "/v1/session"}, cookie))
	for node, stream := range streams {
		f.refused(node, cookie)
		_, _ = io.Copy(io.Discard, stream) // it ends, one way or another
		stream.Close()
	}
	if got := f.at(0, withCookie(whoami, other)); got.status != http.StatusOK {
		t.Errorf("another session of the token: %d %s", got.status, got.body)
	}

	if got := f.at(2, call{method: "DELETE", path: "/v1/tokens/" + id, header: map[string]string{"Authorization": "Bearer " + admin}}); got.status != http.StatusNoContent {
		t.Fatalf("revoke: %d %s", got.status, got.body)
	}
	for node := range f.crew.list {
		f.refused(node, other)
	}

	text = admin
	cookie = login(2)
	gone := f.crew.list[2]
	f.crew.list = f.crew.list[:2]
	f.crew.end(gone)
	if got := f.refused(0, cookie); !strings.Contains(string(got.body), "log in again") {
		t.Errorf("a session of a node that is gone: %s", got.body)
	}
	sealed := strings.TrimPrefix(cookie, sessionCookie+"=")
	node, seal := sealed[:strings.IndexByte(sealed, '.')], sealed[strings.LastIndexByte(sealed, '.'):]
	for _, forged := range []string{
		node + "." + strings.Repeat("a", sessionIDLength) + seal, node + "." + strings.Repeat("a", sessionIDLength), "n2.x", "none." + sealed, ".", "..",
	} {
		if got := f.at(0, withCookie(whoami, sessionCookie+"="+forged)); got.status != http.StatusUnauthorized || strings.Contains(string(got.body), "log in again") {
			t.Errorf("the cookie %s: %d %s", forged, got.status, got.body)
		}
	}
	if got := f.at(0, call{method: "POST", path: sessionsPath, body: `{"ID":"x"}`}); got.status != http.StatusForbidden {
		t.Errorf("a client asks for a session as a node does: %d %s", got.status, got.body)
	}
}
