package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// idleBody opens a connection that announces a body of so many bytes and sends one of them.
func idleBody(t *testing.T, address, path, media string, size int) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n{", path, media, size); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Uploads that are announced and do not come keep no large insert out.
func TestIdleUploadsBlockNoInserts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const idle = maxHeldBytes/maxUploadBytes + 1
	for range idle {
		idleBody(t, f.address, "/v1/plugins", contentWasm, 16<<20)
	}
	for f.server.uploads.Load() < 8*(16<<20) && t.Context().Err() == nil { // as many as are let in have come
		f.do("GET", "/livez", "", 200, nil)
	}
	piece := `"` + strings.Repeat("x", 1<<20) + `"`
	if got := f.send(call{method: "POST", path: insertPath, body: `{"chunks":{"inline":[` + piece + strings.Repeat(","+piece, 15) + `]}}`}); got.status != 201 {
		t.Errorf("got %d %s, want the insert taken", got.status, got.body)
	}
}

// A large body that does not go on ends its request, and what it held is free again.
func TestIdleBodiesAreCut(t *testing.T) {
	t.Parallel()
	f := newFixtureSeeded(t, 1, func(s *Server) { s.patience.pause = 50 * time.Millisecond })
	for _, c := range []struct{ path, media string }{{"/v1/plugins", contentWasm}, {insertPath, contentJSON}} {
		conn := idleBody(t, f.address, c.path, c.media, 16<<20)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), "request_slow") {
			t.Errorf("%s: got %d %s, want 408", c.path, answer.StatusCode, text)
		}
	}
	if held := f.server.uploads.Load() + f.server.held.Load(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

// A body may pause for a while, must come at the least rate on the whole, and within the time for all of it.
func TestPacedDeadline(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(1_800_000_000_000)
	for _, c := range []struct {
		now      time.Duration
		received int64
		want     time.Duration
	}{
		{0, 0, 10 * time.Second},
		{5 * time.Second, 0, 10 * time.Second},                  // nothing came: the grace is over soon
		{5 * time.Second, 10 << 20, 15 * time.Second},           // it was fast, and may pause
		{15 * time.Second, 6 * leastBodyRate, 16 * time.Second}, // a byte now and then is not enough
		{299 * time.Second, 1 << 30, 300 * time.Second},         // the whole time is over
	} {
		p := &paced{server: &Server{patience: defaultPatience()}, began: began, received: c.received}
		if got := p.deadline(began.Add(c.now)).Sub(began); got != c.want {
			t.Errorf("after %v and %d bytes: got %v, want %v", c.now, c.received, got, c.want)
		}
	}
}
