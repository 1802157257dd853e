package web

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
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
//
//quern:overlapping
func TestIdleUploadsBlockNoInserts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const idle = maxHeldBytes/maxUploadBytes + 1
	for range idle {
		idleBody(t, f.address, "/v1/plugins", contentWasm, 16<<20)
	}
	for f.server.bodies.uploads.Load() < 8*(16<<20) && t.Context().Err() == nil { // as many as are let in have come
		f.do("GET", "/livez", "", 200, nil)
	}
	piece := `"` + strings.Repeat("x", 1<<20) + `"`
	if got := f.send(call{method: "POST", path: insertPath, body: `{"chunks":{"inline":[` + piece + strings.Repeat(","+piece, 15) + `]}}`}); got.status != 201 {
		t.Errorf("got %d %s, want the insert taken", got.status, got.body)
	}
}

// A large body that does not go on ends its request, and its memory is free again.
//
//quern:overlapping
func TestIdleBodiesAreCut(t *testing.T) {
	t.Parallel()
	f := newFixtureSeeded(t, 1, func(s *Server) { s.clock.patience.pause = 50 * time.Millisecond })
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
	if held := f.server.bodies.uploads.Load() + f.server.bodies.held.Load(); held != 0 {
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
		{5 * time.Second, 0, 10 * time.Second},              // nothing came: the grace is over soon
		{5 * time.Second, 10 << 20, 15 * time.Second},       // it was fast, and may pause
		{15 * time.Second, 6 * leastRate, 16 * time.Second}, // a byte now and then is not enough
		{299 * time.Second, 1 << 30, 300 * time.Second},     // the whole time is over
	} {
		p := &paced{clock: &clock{patience: defaultPatience()}, began: began, received: c.received}
		if got := p.deadline(began.Add(c.now)).Sub(began); got != c.want {
			t.Errorf("after %v and %d bytes: got %v, want %v", c.now, c.received, got, c.want)
		}
	}
}

// aheadClock is a clock for deadlines that is ahead of the system's.
type aheadClock struct {
	by    atomic.Int64 // in nanoseconds
	asked atomic.Int64
}

func (c *aheadClock) wall() time.Time {
	c.asked.Add(1)
	return time.Now().Add(time.Duration(c.by.Load()))
}

// newFixtureAhead serves with such a clock.
func newFixtureAhead(t *testing.T) (*fixture, *aheadClock) {
	t.Helper()
	clock := new(aheadClock)
	return newFixtureSeeded(t, 1, func(s *Server) { s.clock.wall = clock.wall }), clock
}

// longOutputs makes a submission whose outputs are more than the buffers of sockets hold, and says where they are and how long.
func (f *fixture) longOutputs() (path string, size int64) {
	f.Helper()
	const outputs = 10
	plain := func(c call) answer { return send(f, http.DefaultClient, f.address, c) } // so much takes long to hold against the document
	submission := f.insert(fmt.Sprintf(`{"chunks":{"count":%d,"prefix":"long/"}}`, outputs))
	output := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("slow"), 150_000))
	for range outputs {
		body := fmt.Sprintf(`{"items":[{"token":%q,"output":%q}]}`, f.reserveOne().Token, output)
		if got := plain(call{method: "POST", path: reservePath + "/complete", body: body}); got.status != 200 {
			f.Fatalf("complete: %d %s", got.status, got.body)
		}
	}
	path = "/v1/submissions/" + submission.ID + "/outputs"
	return path, int64(len(plain(call{method: "GET", path: path}).body))
}

// beginAnswer asks for path over a connection of its own and reads no more than the head of the answer.
func beginAnswer(t *testing.T, address, path string, headers ...string) io.Reader {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	head := strings.Join(append([]string{"GET " + path + " HTTP/1.1", "Host: localhost"}, headers...), "\r\n")
	if _, err := io.WriteString(conn, head+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %d", path, answer.StatusCode)
	}
	return answer.Body
}

// overHTTP2 serves the server over HTTP/2 as well.
func (f *fixture) overHTTP2() *httptest.Server {
	over := httptest.NewUnstartedServer(f.server.Handler())
	over.EnableHTTP2 = true
	over.StartTLS()
	f.Cleanup(over.Close)
	return over
}

// beginHTTP2 asks for path over HTTP/2 and reads no more than the head of the answer.
func (f *fixture) beginHTTP2(path string) io.Reader {
	f.Helper()
	over := f.overHTTP2()
	client := over.Client()
	client.Transport.(*http.Transport).DisableCompression = true // else all of it fits into buffers
	answer, err := client.Get(over.URL + path)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
		f.Fatalf("%s: got %s over %s", path, answer.Status, answer.Proto)
	}
	return answer.Body
}

// The reader of a long answer gets all of it if it takes more than the least rate, however long that takes, and is cut if it takes less.
// The server's clock is the reader's: it goes on by the time that the reader needs for each piece.
func TestSlowReadersAreCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  int
		http2 bool
		whole bool
	}{
		{leastRate / 4, false, false}, {leastRate * 5 / 4, false, true},
		{leastRate / 4, true, false}, {leastRate * 5 / 4, true, true},
	} {
		rate, whole := c.rate, c.whole
		t.Run(fmt.Sprintf("%d bytes a second, HTTP/2 %v", rate, c.http2), func(t *testing.T) {
			t.Parallel()
			f, clock := newFixtureAhead(t)
			path, size := f.longOutputs()
			before := clock.asked.Load()
			var body io.Reader
			if c.http2 {
				body = f.beginHTTP2(path)
			} else {
				body = beginAnswer(t, f.address, path)
			}
			const piece = 64 << 10
			var got int64
			var err error
			for err == nil {
				var n int64
				n, err = io.CopyN(io.Discard, body, piece)
				got += n
				// A pacedAnswer asks for the time before and after each write, and once at its end.
				f.eventually("the server writes, or is done", func() bool { return (clock.asked.Load()-before)%2 == 1 })
				clock.by.Add(int64(time.Second) * piece / int64(rate))
			}
			if whole && (err != io.EOF || got != size) {
				t.Errorf("at %d bytes a second: got %d of %d bytes, then %v; want all", rate, got, size, err)
			}
			if !whole && (err == io.EOF || got >= size) {
				t.Errorf("at %d bytes a second: got %d of %d bytes, then %v; want it cut", rate, got, size, err)
			}
		})
	}
}

// A reader that takes nothing at all holds a long answer no longer than an ordinary one.
//
//quern:overlapping
func TestIdleReadersAreCut(t *testing.T) {
	t.Parallel()
	f, clock := newFixtureAhead(t)
	path, size := f.longOutputs()
	clock.by.Store(int64(50*time.Millisecond - f.server.clock.patience.write)) // the deadline comes soon
	body := beginAnswer(t, f.address, path)
	f.eventually("the answer is over", func() bool {
		return strings.Count(string(f.do("GET", "/metrics", "", 200, nil).body), `quern_http_request_seconds_count{code="200",route="list-outputs"} 2`) > 0
	})
	if n, err := io.Copy(io.Discard, body); err == nil || n >= size {
		t.Errorf("got %d of %d bytes, then %v; want it cut", n, size, err)
	}
}

// A long answer ends with the token, the secret or the session that asked for it. The client gets only the bytes that
// were sent before.
//
//quern:overlapping
func TestLongAnswersEndWithTheirToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path, size := f.longOutputs()
	for name, end := range map[string]func(f *fixture, id access.ID, cookie string) error{
		"revoked": func(f *fixture, id access.ID, _ string) error { return f.engine.Tokens().Revoke(f.Context(), id) },
		"rotated": func(f *fixture, id access.ID, _ string) error {
			_, _, err := f.engine.Tokens().Rotate(f.Context(), id, 0)
			return err
		},
		"log out": func(f *fixture, _ access.ID, cookie string) error {
			f.holding(cookie, "log out", call{method: "DELETE", path: "/v1/session"}, 204)
			return nil
		},
		"nothing": func(*fixture, access.ID, string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			id, text := f.token(engine.TokenRequest{Name: name, Scopes: access.Read})
			cookie, header := "", "Authorization: Bearer "+text
			if name == "log out" {
				cookie = f.login(text)
				header = "Cookie: " + cookie
			}
			body := beginAnswer(t, f.address, path, header)
			if err := end(f, access.ID(id), cookie); err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, body)
			if whole := err == nil && n == size; whole != (name == "nothing") {
				t.Errorf("got %d of %d bytes, then %v", n, size, err)
			}
		})
	}
}

// A reader earns time by the bytes that it takes, and spends the time that it keeps the server waiting. It saves up no
// more than answerAhead.
func TestPacedAnswerTook(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		left   time.Duration
		n      int
		waited time.Duration
		want   time.Duration
	}{
		{time.Minute, leastRate, 0, 61 * time.Second},
		{time.Minute, leastRate, 3 * time.Second, 58 * time.Second},
		{time.Second, leastRate / 2, 2 * time.Second, -500 * time.Millisecond},
		{answerAhead, answerPiece, time.Second, answerAhead},
		{answerAhead, leastRate, 3 * time.Second, answerAhead - 2*time.Second},
	} {
		p := &pacedAnswer{left: c.left}
		if p.took(c.n, c.waited); p.left != c.want {
			t.Errorf("%v left, %d bytes in %v: got %v, want %v", c.left, c.n, c.waited, p.left, c.want)
		}
	}
}
