//quern:overlapping
package web

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
)

// asked is a connection on which a test sends requests one after the other.
type asked struct {
	net.Conn
	read *bufio.Reader
}

func dial(t *testing.T, address string) *asked {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &asked{conn, bufio.NewReader(conn)}
}

// get sends a request and reads the answer; the status is 0 where the connection is closed.
func (a *asked) get(t *testing.T, path, token string) (status int) {
	t.Helper()
	head := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n"
	if token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	if _, err := io.WriteString(a, head+"\r\n"); err != nil {
		return 0
	}
	response, err := http.ReadResponse(a.read, nil)
	if err != nil {
		return 0
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}

// Clients without a token cannot keep others out, whether they send nothing, half a request, a public request, or one
// that is refused. New clients get an answer, with a token and without, and connections on which a token was shown stay
// open.
func TestConnectionsWithoutATokenKeepNoOneOut(t *testing.T) {
	t.Parallel()
	const most = 16
	f := newFixtureSeeded(t, 1, func(s *Server) { s.connections.most = most })
	_, text := f.token(engine.TokenRequest{Name: "worker", Scopes: access.Read})
	proven := dial(t, f.address)
	if status := proven.get(t, "/v1/whoami", text); status != 200 {
		t.Fatalf("the first client: %d", status)
	}
	for name, hold := range map[string]func(*asked){
		"nothing":        func(*asked) {},
		"half a request": func(a *asked) { _, _ = io.WriteString(a, "GET /v1/whoami HTTP/1.1\r\nHost: ") },
		"for all":        func(a *asked) { a.get(t, "/livez", "") },
		"refused":        func(a *asked) { a.get(t, "/v1/whoami", "") },
		"a wrong token":  func(a *asked) { a.get(t, "/v1/whoami", "qn_wrong") },
	} {
		for range 3 * most {
			hold(dial(t, f.address))
		}
		if status := dial(t, f.address).get(t, "/livez", ""); status != 200 {
			t.Errorf("%s: /livez: %d, want 200", name, status)
		}
		if status := dial(t, f.address).get(t, "/v1/whoami", text); status != 200 {
			t.Errorf("%s: a new client with a token: %d, want 200", name, status)
		}
		if status := proven.get(t, "/v1/whoami", text); status != 200 {
			t.Errorf("%s: the connection that showed a token before: %d, want 200", name, status)
		}
	}
	f.server.connections.mu.Lock()
	defer f.server.connections.mu.Unlock()
	if open, unproven := len(f.server.connections.open), f.server.connections.unproven.Len(); open > most || unproven > most-most/4 {
		t.Errorf("%d connections are open, %d of them unproven; at most %d and %d may be", open, unproven, most, most-most/4)
	}
}

// A connection of which no request was let in is closed when it was silent for a while, and not while one is answered. One with a token
// stays for as long as the server's idle timeout.
func TestFreshConnectionsAreClosedSoon(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	c, err := newConnections(prometheus.NewRegistry(), 0, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	contexts := map[string]context.Context{}
	conns := map[string]net.Conn{}
	for _, name := range []string{"silent", "asking", "proven", "answered"} {
		conn, other := net.Pipe()
		t.Cleanup(func() { conn.Close(); other.Close() })
		conns[name] = conn
		contexts[name] = c.enter(t.Context(), conn)
		c.changed(conn, http.StateNew)
	}
	c.changed(conns["asking"], http.StateActive)
	c.changed(conns["proven"], http.StateActive)
	c.prove(contexts["proven"])
	c.prove(contexts["proven"])
	c.changed(conns["proven"], http.StateIdle)
	now = now.Add(freshIdle - time.Millisecond)
	c.changed(conns["answered"], http.StateActive)
	c.changed(conns["answered"], http.StateIdle)
	for _, step := range []struct {
		after time.Duration
		open  string
	}{{0, "silent asking proven answered"}, {time.Millisecond, "asking proven answered"}, {freshIdle, "asking proven"}} {
		now = now.Add(step.after)
		c.endIdle()
		for name, conn := range conns {
			if _, open := c.open[conn]; open != strings.Contains(step.open, name) {
				t.Errorf("after another %v: %s is open: %v; want open: %s", step.after, name, open, step.open)
			}
		}
	}
	if _, err := conns["silent"].Write([]byte("x")); err == nil {
		t.Error("the silent one was not closed")
	}
	c.changed(conns["asking"], http.StateClosed)
	c.changed(conns["proven"], http.StateClosed)
	if len(c.open) != 0 || c.unproven.Len() != 0 {
		t.Errorf("after all were closed %d are known, %d of them unproven", len(c.open), c.unproven.Len())
	}
}
